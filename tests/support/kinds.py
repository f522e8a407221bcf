"""A paper's file with figures of many kinds, also of those that no paper in the catalogue uses
yet."""

BETAS = {"FedMAX 0.1": 0.1, "FedMAX 1": 1, "FedMAX 10": 10, "FedMAX 100": 100}
CURVES = {"kind": "curves", "experiment": "first"}
FINAL = {"kind": "value", "last": 5}
FIGURES = {
    "alone": {"title": "One panel", **CURVES, "name": "α = 1"},
    "other": {
        "title": "Another measure",
        "experiment": "first",
        "measure": "test_loss",
        "target": {"paper": 0.5},
    },
    "trained": {"title": "Over local epochs", **CURVES, "over": "epochs"},
    "leads": {
        "title": "Above FedAvg",
        "kind": "curves",
        "experiment": "first",
        "baseline": "FedAvg",
    },
    "absent": {"title": "Not run", "experiment": "second"},
    "grid": {
        "title": "A grid",
        "kind": "panels",
        "rows": [["alone", "other", "alone", "alone"], ["alone", "absent", "other", "alone"]],
    },
    "beta": {
        "title": "Over beta",
        "kind": "sweep",
        "panels": ["sweep"],
        "setting": "algorithm.beta",
        "label": "β",
        "reference": ["FedAvg"],
        "quantity": FINAL,
    },
    "heights": {
        "title": "Rounds to the target",
        "kind": "bars",
        "panels": [
            {"experiment": "first", "name": "MNIST"},
            {"experiment": "third", "name": "CIFAR-10"},
            "second",
        ],
        "quantity": {"kind": "rounds_to", "smooth": 1},
    },
    "order": {
        "title": "Mean ranks",
        "kind": "ranks",
        "panels": ["first", "third", "second"],
        "last": 5,
    },
    "trials": {"title": "Scores of trials", "kind": "tuning", "panels": ["third", "second"]},
    "points": {
        "title": "Features",
        "kind": "pictures",
        "experiment": "first",
        "of": "tsne",
        "series": ["FedAvg", "FedMMD"],
    },
    "variance": {
        "title": "Variance by layer",
        "kind": "lines",
        "names": {"first": "MNIST", "third": "CIFAR-10"},
        "of": "preferences",
        "x": "block",
        "y": "variance",
        "label": "total variance",
    },
    "spread": {
        "title": "Spread over rounds",
        "kind": "lines",
        "names": {"first": "MNIST"},
        "of": "tsne",
        "x": "round",
        "y": "y",
        "label": "mean of y",
    },
    "tops": {
        "title": "The same at all clients?",
        "name": "FedAvg",
        "kind": "pictures",
        "experiment": "third",
        "of": "preferences",
        "series": ["FedAvg"],
        "only": ["conv1", "fc1"],
    },
}
PAPER = {
    "title": "p",
    "reference": "r",
    "experiments": {name: {"target": {"paper": 0.9}} for name in ("first", "third", "second")},
    "figures": FIGURES,
    "tables": {},
    "claims": {},
}
