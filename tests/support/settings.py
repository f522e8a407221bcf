"""Settings of one small experiment, and a paper's file that shows it."""

from pathlib import Path

import yaml

from fedrepro.config.inheritance import merge

SETTINGS = {
    "scale": "quick",
    "device": "cpu",
    "scales": {
        "quick": {"seeds": [0], "compare": "none", "note": "q"},
        "other": {"seeds": [1], "compare": "none", "note": "o", "experiments": {"p": {"fig": {"skip": "no time"}}}},
    },
    "papers": {
        "p": {
            "fig": {
                "dataset": "digits",
                "train_images": 60,
                "test_images": 30,
                "partition": {"name": "iid", "clients": 3},
                "model": {"name": "mnist_cnn", "width": 0.05},
                "clients_per_round": 2,
                "rounds": 2,
                "local_epochs": 1,
                "batch_size": 10,
                "lr": 0.1,
                "series": {"FedAvg": {"name": "fedavg"}, "Prox": {"name": "fedprox", "mu": 0.1}},
            }
        }
    },
}


def write(folder: Path, changes: dict, name: str = "params.yaml") -> Path:
    """Settings with changes laid over them, in a file; a series that is changed to None goes."""
    values = merge(SETTINGS, changes)
    experiment = values["papers"]["p"]["fig"]
    experiment["series"] = {label: choice for label, choice in experiment["series"].items() if choice is not None}
    (folder / name).write_text(yaml.safe_dump(values), encoding="utf-8")
    return folder / name


def fig(**changes) -> dict:
    return {"papers": {"p": {"fig": changes}}}


PAPER = {
    "title": "A paper",
    "reference": "nobody",
    "figures": {"fig": {"title": "What it shows", "experiment": "fig"}},
    "tables": {},
    "claims": {},
}  # fmt: skip
