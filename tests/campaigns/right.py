"""Settings and a paper's files with nothing wrong in them, which use most of what may be said."""

import json

from support import kinds
from support.settings import SETTINGS

WORK = {
    "dataset": "digits", "train_images": 60, "test_images": 30, "pixel_scaling": "unit", "augment": ["crop", "flip"],
        "rounds": 2,
    "partition": {"name": "permuted", "clients": 3}, "model": {"name": "mnist_cnn", "width": 0.05}, "clients_per_round": 2,
    "local_epochs": 1, "batch_size": 10, "lr": 0.1, "schedule": {"name": "cosine", "floor": 0.001}, "momentum": 0.5,
    "weight_decay": 0.001, "proxy": {"share": 0.1}, "measures": ["test_accuracy", "test_loss"], "evaluate_every": 1,
    "task": {"name": "classification"}, "studies": {"newcomers": {"clients": 2, "target": 0.5, "epochs": 2}}, "seeds": [0, 1],
}  # fmt: skip
RUNS = {
    "FedAvg": {"name": "fedavg"},
    "FedMMD": {"name": "fedmmd", "weight": 0.1},
    "Rate": {"name": "fedavg", "overrides": {"lr": 0.2}},
}
SWEEP = {"FedAvg": {"name": "fedavg"}} | {label: {"name": "fedmax", "beta": beta} for label, beta in kinds.BETAS.items()}
EXPERIMENTS = {
    "first": WORK | {"series": RUNS, "variants": {"second": {"rounds": 3}, "third": {"seeds": [2]}, "sweep": {"series": SWEEP}}}
}
PARAMS = {key: value for key, value in SETTINGS.items() if key != "papers"} | {
    "scales": {
        "quick": {"seeds": [0], "compare": "none", "note": "q"},
        "other": {"seeds": [1], "compare": "full", "note": "o"},
    },
    "papers": ["p"],
}
SCALES = {"quick": {"first": {"nesterov": False}, "second": {}, "third": {}, "sweep": {}}, "other": {"first": {}}}
CURVES = {"a": [[0, 1, 2], [0.1, 0.5, 0.7]], "b": [[0, 2], [0.1, 0.9]]}
CLAIM = {"text": "t", "source": "s", "experiment": "first", "reported": 0.5, "tolerance": 0.1, "because": "b"}
FIGURES = {name: kinds.FIGURES[name] for name in ("alone", "other", "absent", "grid", "beta", "epochs", "heights")}
ARTIFACTS = {
    "title": "p",
    "reference": "r",
    "curves_from": "made up",
    "proposed": ["FedMMD"],
    "experiments": {
        "first": {"name": "Fig. 1", "about": "x", "target": {"quick": 0.9}, "reported": {"FedMMD": "a", "FedAvg": "b"}},
        "second": {"target": {"quick": 0.5}, "measure": "test_accuracy"},
        "third": {"target": {"quick": 0.5}},
    },
    "figures": json.loads(json.dumps(FIGURES).replace('"paper"', '"quick"')),
    "tables": {
        "rounds": {"title": "Rounds", "kind": "rounds_to_target", "panels": ["first", "second"], "baseline": "FedAvg"},
        "last": {"title": "Last", "kind": "convergence", "panels": ["first"], "last": 1},
    },
}
CLAIMS = {
    "one": CLAIM | {"quantity": {"kind": "value", "series": "FedMMD", "last": 1}, "scales": {"quick": {"last": 2}}},
    "two": CLAIM | {"quantity": {"kind": "rounds_to", "series": "FedMMD", "baseline": "FedAvg", "target": 0.5}, "note": "n"},
}
