"""A paper's tables and the results that they are made of, small enough to be worked out by hand."""

import json
import subprocess
from pathlib import Path

import pytest

from fedrepro.config.types import parse
from fedrepro.report import paper as spec
from fedrepro.report.documents import pdf
from fedrepro.report.figures import curves
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.paper import Paper
from fedrepro.report.tables.base import Table
from support import settings
from support.results import made

OWN = "personal_accuracy"
needs_latex = pytest.mark.skipif(
    not pdf.is_available(), reason="no pdflatex here, or not with siunitx"
)
ARTICLE = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs,siunitx,xcolor}
\begin{document}
%s
\end{document}
"""


def own(found: Results) -> Results:
    """The accuracies as those after local training, which round 0 does not have; the global model's
    are all the same."""
    rows = [
        row | {OWN: row["test_accuracy"] if row["round"] != "0" else "", "test_accuracy": "0.33"}
        for row in found.rows
    ]
    return Results(found.note, rows)


def paper() -> Paper:
    """Experiments a and b, in the measures of Fig. 5 and of Fig. 4."""
    shown = {"a": {"measure": OWN, "target": {"paper": 0.9}}}
    figures = {
        name: curves.Curves(title=name.upper(), kind="curves", experiment=name) for name in "ab"
    }
    values = {
        "title": "p",
        "reference": "r",
        "experiments": shown,
        "figures": figures,
        "tables": {},
        "claims": {},
    }
    return parse(Paper, values, "test")


def evidence(curves: dict | None = None, **results) -> PaperData:
    return spec.paper_data(paper(), results, curves or {})


def table(**values) -> Table:
    return spec.parse_artifact("tables", {"title": "t"} | values, "test")


REPORTED = {
    "FedAvg": {"a": 0.8989, "b": 0.9221},
    "conv": {"a": 0.9011, "b": 0.9253},
    "multi": {"a": 0.9051},
}
A = own(made({
    "FedAvg": {0: [0.1, 0.5, 0.80, 0.84], 1: [0.1, 0.6, 0.80, 0.88]},
    "conv": {0: [0.1, 0.5, 0.85, 0.87], 1: [0.1, 0.6, 0.90, 0.90]},
    "multi": {0: [0.1, 0.5, 0.99, 0.99], 1: [0.1, 0.9, 0.99, 0.99]},
}, lost={("multi", 1): "diverged at round 2"}))  # fmt: skip
B = made({"FedAvg": {0: [0.1, 0.7, 0.9]}, "conv": {0: [0.1, 0.8, 0.8]}})


def reaches(first: int | None, second: int | None, rounds: int = 20) -> list[float]:
    """94 % in the first of two rounds, 95 % in the second, to stay there."""
    steps = [(second, 0.95), (first, 0.94), (0, 0.5)]
    return [
        next(value for start, value in steps if start is not None and r >= start)
        for r in range(rounds + 1)
    ]


TARGETS = {"paper": [0.94, 0.95], "small": [0.5]}
ROUNDS = {"kind": "rounds_to_target", "panels": ["a"], "baseline": "FedAvg", "targets": TARGETS}
TABLE2 = {"FedAvg": [100, 256], "conv": [34, 92]}
SERIES = {
    "FedAvg": {0: reaches(10, 20), 1: reaches(10, 16)},
    "conv": {0: reaches(5, 10), 1: reaches(4, 8)},
    "single": {0: reaches(8, None), 1: reaches(8, 20)},
}
PANELS = [{"experiment": "first", "name": "a"}, {"experiment": "second", "name": "b"}]
SPEC = {
    "title": "P",
    "reference": "r",
    "experiments": {"first": {"measure": OWN, "target": {"paper": 0.9}}},
    "figures": {
        "a": {"title": "A", "experiment": "first"},
        "b": {"title": "B", "experiment": "second"},
    },
    "tables": {
        "table1": {
            "title": "Ends",
            "kind": "convergence",
            "panels": PANELS,
            "last": 2,
            "reported": REPORTED,
        },
        "table2": {"title": "Rounds", **ROUNDS, "panels": ["first"], "reported": TABLE2},
        "bytes": {
            "title": "Bytes",
            "kind": "communication",
            "panels": ["first"],
            "baseline": "FedAvg",
        },
    },
    "claims": {
        "saves": {
            "text": "conv saves half",
            "source": "Table 2",
            "experiment": "first",
            "quantity": {
                "kind": "rounds_to",
                "series": "conv",
                "baseline": "FedAvg",
                "target": 0.95,
            },
            "reported": 0.5,
            "tolerance": 0,
        }
    },
}


CURVES = '{"c:none": [[1, 2], [0.1, 0.5]]}'


def read(folder: Path, values: dict, series: dict | None = None) -> Paper:
    settings.place_paper(
        folder, json.loads(json.dumps(values)), curves=CURVES if "curves_from" in values else None
    )
    named = {
        "series": dict.fromkeys(("FedAvg", "conv", "multi", "single"), {"name": "fedavg"})
        | (series or {})
    }
    kinds = {"paper": "full", "small": "direction", "quick": "none"}
    scales = {
        name: {"seeds": [0], "compare": compare, "note": "n"} for name, compare in kinds.items()
    }
    values = {
        "scale": "paper",
        "scales": scales,
        "papers": {"p": {"first": named, "second": named}},
    }
    return spec.read_paper("p", settings.params(values, folder))


def compiled(folder: Path, text: str, passes: int = 2) -> str:
    """Compile an article and return its log."""
    (folder / "article.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "article.tex"]
    for _ in range(passes):
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    log = (folder / "article.log").read_text(encoding="utf-8", errors="replace")
    assert done.returncode == 0, "\n".join(
        line for line in log.splitlines() if line.startswith("!")
    )
    return log
