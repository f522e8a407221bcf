"""The pages of a scale, four papers with 260 claims, and the files that they are made of."""

import json
import shutil
from pathlib import Path

from fedrepro.report import artifacts
from fedrepro.report import paper as spec
from fedrepro.report.documents import build as page
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.paper import Paper
from support import settings
from support.checkout import ROOT
from support.results import arrives, made, store, waits

LABELS = ("FedFusion conv", "FedAvg", "two-stream L2, weight 0.001")
PAPERS = {
    "fedmmd": "FedMMD & FedFusion",
    "fedmax": "FedMAX",
    "fed2": "Psi-Net / Fed2",
    "fedcl": "FedCL <b>",
}
SAVES = "On permuted MNIST FedFusion conv saves 64.1 % of FedAvg's rounds"
FIGURES = 12
SCALES = dict.fromkeys(("paper", "small"), ("fedmmd", "fedmax", "fedcl", "psi_net"))
# the paper's curve of FedAvg, which ends before ours
REPORTED = [list(range(19)), [round / 25 for round in range(19)]]
SCRIPTS = ROOT / "reports/vega"


def claims() -> dict[str, dict]:
    """65 on what was run, with sizes that hold and that do not, and on what was not run; four of
    them nobody claimed but us."""
    found = {}
    for number in range(65):
        run = number % 3 == 0
        cell = {"kind": "rounds_to", "series": LABELS[0], "baseline": "FedAvg", "target": 0.9}
        found[f"c{number}"] = {
            "text": SAVES
            if number == 0
            else f"Claim {number} says <what> it says of a saving of rounds",
            "source": f"Table {number}",
            "experiment": "first" if run else "second",
            "quantity": cell,
            "reported": 0.641 if number == 0 else (number - 30) / 64,
            "tolerance": 0.05,
            "because": "as wide as it <has> to be",
            "note": "a note" if number % 2 else "",
            "own_question": number % 18 == 9,
        }
    return found


def paper(title: str) -> dict:
    kinds = {
        "kind": "rounds_to_target",
        "panels": ["first", "second"],
        "baseline": "FedAvg",
        "smooth": 5,
    }
    figures = {"fig1a": {"title": "Drawn", "experiment": "first"}} | {
        f"fig{number}_part": {
            "title": f"Figure {number} & more",
            "experiment": "first" if number % 3 == 0 else "second",
        }
        for number in range(2, FIGURES + 1)
    }
    tables = {
        "table1": {"title": "Rounds", **kinds},
        "table2": {"title": "Never", **kinds, "panels": ["second"]},
    }
    shown = {"target": {"paper": 0.9, "quick": 0.9}}
    experiments = {"first": shown | {"reported": {LABELS[1]: "1a:FedAvg"}}, "second": shown}
    values = {
        "title": title,
        "reference": "A. Uthor et al.",
        "experiments": experiments,
        "curves_from": "read from its PDF",
    }
    return values | {"figures": figures, "tables": tables, "claims": claims()}


def read(folder: Path, key: str) -> Paper:
    settings.place_paper(folder, paper(PAPERS[key]), key, json.dumps({"1a:FedAvg": REPORTED}))
    scale = {"seeds": [0], "compare": "full", "note": "n"}
    scales = {"scale": "paper", "scales": dict.fromkeys(("paper", "small", "quick"), scale)}
    experiments = dict.fromkeys(("first", "second"), {"series": dict.fromkeys(LABELS, {})})
    return spec.read_paper(key, settings.params(scales | {"papers": {key: experiments}}, folder))


def first(compare: str = "full") -> Results:
    """Finished runs of two seeds, with what a run tells of itself."""
    rounds = dict(zip(LABELS, ((4, 6), (12, 14), (None, 8)), strict=True))
    found = made(
        {
            label: {seed: arrives(at) for seed, at in enumerate(pair)}
            for label, pair in rounds.items()
        },
        compare,
    )
    for rate, (label, series) in enumerate(found.note["series"].items()):
        series["config"] = {
            "lr": rate / 10,
            "rounds": 20,
            "algorithm": series["algorithm"],
            "seed": 0,
        }
        for run in series["runs"]:
            run["run"] = f"mnist-{label.split()[0].lower()}-s{run['seed']}-0123456789abcdef"
            run["commit"], run["commit_date"] = (
                ("b" * 10, "2026-11-20T10:00:00+00:00") if rate else ("a" * 10, None)
            )
    return found


def build(folder: Path, papers: list[str], compare: str = "full") -> Path:
    """`<folder>/reports/<scale>` with all that the pipeline leaves there, and the runs' folders.
    What the papers show is the same, and so are their figures: one is drawn."""
    scale = folder / "reports" / ("paper" if compare == "full" else "quick")
    results = {"first": first(compare), "second": made({}, compare, skipped=waits(3, 3))}
    given, place = read(folder, papers[0]), scale / papers[0]
    for name, found in results.items():
        store(found, place / "data", name)
    shown = artifacts.available_artifacts(given, artifacts.load_paper_data(given, place))
    artifacts.write_artifacts(
        given, ["fig1a", *(key for key in shown if key not in given.figures)], place
    )
    for name in (key for key in shown if key in given.figures and key != "fig1a"):
        for ending in ("svg", "pdf", "png", "csv"):
            shutil.copyfile(place / f"figures/fig1a.{ending}", place / f"figures/{name}.{ending}")
    for key in papers:
        if key != papers[0]:
            shutil.copytree(place, scale / key)
        for run in results["first"].runs():
            (folder / "results" / "runs" / key / run["run"]).mkdir(parents=True)
    (folder / "reports/vega").symlink_to(SCRIPTS)
    compose(folder, scale)
    return scale


def compose(folder: Path, scale: Path, hours: float = 1234.5) -> None:
    specs = {
        path.name: read(folder, path.name) for path in sorted(scale.iterdir()) if path.is_dir()
    }
    for name in (
        "index.html",
        *(
            f"{other}/{key}index.html"
            for other in SCALES
            for key in ("", *(f"{key}/" for key in specs))
        ),
    ):
        target = folder / "reports" / name
        if not target.exists():  # of the other scale, and of all
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
    page.write_documents(specs, scale, {key: {"second": hours} for key in specs}, SCALES)
