"""A paper's file with a little of everything, and results of its two experiments."""

from pathlib import Path

from fedrepro.report import paper
from fedrepro.report.paper import Paper
from support import settings
from support.results import arrives, made

CURVES = '{"c:FedAvg": [[1, 2, 3, 4, 5, 6], [0.2, 0.3, 0.5, 0.95, 0.8, 0.96]]}'
PAPER = {
    "title": "A paper & its 100 % {brackets}",
    "reference": "A. Uthor. μ_1 ≤ $5 ~ #3 ^2 \\ back",
    "curves_from": "read from its PDF",
    "experiments": {
        "first": {"target": {"paper": 0.9, "quick": 0.9}, "reported": {"FedAvg": "c:FedAvg"}},
        "second": {"target": {"paper": 0.9}},
    },
    "figures": {
        "one": {"title": "One", "experiment": "first"},
        "two": {"title": "Two", "experiment": "second"},
    },
    "tables": {
        "rounds": {
            "title": "Rounds",
            "kind": "rounds_to_target",
            "panels": ["first", "second"],
            "baseline": "FedAvg",
            "smooth": 5,
        },
        "apart": {"title": "Distance", "kind": "curve_distance", "panels": ["first"], "smooth": 2},
    },
    "claims": {
        "saves": {
            "text": "FedMMD saves 50 % <of all>",
            "source": "Table 1",
            "experiment": "first",
            "quantity": {
                "kind": "rounds_to",
                "series": "FedMMD",
                "baseline": "FedAvg",
                "target": 0.9,
            },
            "reported": 0.5,
            "tolerance": 0.1,
            "because": "a reason",
        },
        "far": {
            "text": "FedMMD arrives after 3 rounds",
            "source": "Table 2",
            "experiment": "second",
            "quantity": {"kind": "rounds_to", "series": "FedMMD", "target": 0.9},
            "reported": 3,
            "tolerance": 0,
        },
    },
}
SERIES = {"FedMMD": {0: arrives(4), 1: arrives(6)}, "FedAvg": {0: arrives(10), 1: arrives(10)}}
SERIES |= {"L2": {0: arrives(None), 1: arrives(8)}}
LOST = {("L2", 0): "diverged at round 7"}
MIRROR = "MNIST (mirror; differs from the official release)"
FIRST, SECOND = made(SERIES, lost=LOST, dataset=MIRROR), made({}, skipped="left for the next scale")


def read(folder: Path, values: dict, curves: str = CURVES) -> Paper:
    settings.place_paper(folder, values, curves=curves)
    series = {"series": dict.fromkeys(SERIES, {})}
    scale = {"seeds": [0], "compare": "full", "note": "n"}
    scales = {"scale": "paper", "scales": dict.fromkeys(("paper", "small", "quick"), scale)}
    return paper.read_paper(
        "p",
        settings.params(scales | {"papers": {"p": {"first": series, "second": series}}}, folder),
    )
