"""Settings of two small experiments, and runs of them as if they had been trained."""

import json
from pathlib import Path

from fedrepro.config.inheritance import merge
from fedrepro.config.params import Params
from fedrepro.config.types import parse
from fedrepro.core.files import digest, text_digest
from fedrepro.runs import integrity
from fedrepro.runs.run import FILES, Run

SHARED = {
    "dataset": "digits",
    "partition": {"name": "iid", "clients": 4},
    "model": {"name": "mnist_cnn", "width": 0.05},
    "clients_per_round": 2,
    "rounds": 3,
    "local_epochs": 1,
    "batch_size": 8,
    "lr": 0.1,
}
OVERLAY = {"one": {"rounds": 9}, "two": {"skip": "no time"}}
SETTINGS = {
    "scale": "quick",
    "scales": {
        "quick": {"seeds": [0, 1], "compare": "none", "note": "q"},
        "long": {"seeds": [0], "compare": "full", "note": "l", "experiments": {"p": OVERLAY}},
    },
    "papers": {
        "p": {
            "one": SHARED | {"series": {"FedMMD": {"name": "fedmmd"}, "FedAvg": {"name": "fedavg"}}},
            "two": SHARED | {"series": {"FedAvg again": {"name": "fedavg"}, "Prox": {"name": "fedprox", "mu": 0.1}}},
        },
    },
}  # fmt: skip


def params(**changes) -> Params:
    return parse(Params, merge(SETTINGS, changes), "test")


def one(**changes) -> Params:
    """With other settings for the experiment "one"."""
    return params(papers={"p": {"one": changes}})


def finish(run: Run, text: str = "") -> Run:
    """As if it had been trained."""
    run.folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (run.folder / name).write_text(text)
    (run.folder / "config.json").write_text(json.dumps(run.record() | {"dataset": "some data"}))
    told = dict.fromkeys(integrity.TOLD, 0) | {"run": run.id, "data": run.data, "code": run.code, "metrics": digest(text)}
    (run.folder / "summary.json").write_text(json.dumps(told))
    (run.folder / "environment.json").write_text(json.dumps({"commit": run.code}))
    (run.folder / "model.safetensors").write_text("large")
    return run


def listed(kept: Path) -> None:
    """As if `keep` had put there what lies in `results/kept`."""
    sums = {path.relative_to(kept).as_posix(): text_digest(path.read_bytes()) for path in kept.glob("*/*/*")}
    (kept / integrity.SUMS).write_text(integrity.written_sums(sums), encoding="utf-8")
