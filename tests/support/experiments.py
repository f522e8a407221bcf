"""Settings of two small experiments, and runs of them as if they had been trained."""

import csv
import io
import json

from fedrepro.config.inheritance import merge
from fedrepro.config.params import Params
from fedrepro.core.files import sha256
from fedrepro.runs import kept
from fedrepro.runs.kept import is_kept
from fedrepro.runs.run import Run
from support import settings

ROWS = "round,test_accuracy\n0,0.1\n1,0.25\n2,0.5\n3,0.75\n"
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
SETTINGS = {
    "scale": "quick",
    "scales": {
        "quick": {"seeds": [0, 1], "compare": "none", "note": "q"},
        "long": {"seeds": [0], "compare": "full", "note": "l", "experiments": {"p": {"one": {"rounds": 9}}}},
    },
    "papers": {
        "p": {
            "one": SHARED | {"series": {"FedMMD": {"name": "fedmmd"}, "FedAvg": {"name": "fedavg"}}},
            "two": SHARED | {"series": {"FedAvg again": {"name": "fedavg"}, "Prox": {"name": "fedprox", "mu": 0.1}}},
        },
    },
}  # fmt: skip


def params(**changes) -> Params:
    return settings.params(merge(SETTINGS, changes))


def one(**changes) -> Params:
    """With other settings for the experiment "one"."""
    return params(papers={"p": {"one": changes}})


def finish(run: Run, text: str = ROWS, **changes) -> Run:
    """As if it had been trained, or kept if its folder would be below `results/kept`. `changes`: what it says."""
    rows = list(csv.DictReader(io.StringIO(text)))
    record = {
        "status": "finished",
        "rounds": len(rows) - 1,
        "weights": 7,
        "bytes_down": 8,
        "bytes_up": 9,
        "metrics": sha256(text),
    }
    record |= {"run": run.id, "data": run.data, "code": run.code}
    texts = {
        "config": run.config_record() | {"dataset": "some data"},
        "timing": {"rounds": 1, "seconds": 2.0},
        "summary": record,
    }
    texts["environment"] = {"commit": run.code, "device": "cpu", "executor": "plain", "hardware": "a chip", "torch": "2.8"}
    texts = {name: {key: changes.get(key, value) for key, value in values.items()} for name, values in texts.items()}
    if is_kept(run.folder):
        record = texts["config"] | texts["summary"] | {"environment": texts["environment"]}
        return shelve(run, record, rows)
    run.folder.mkdir(parents=True, exist_ok=True)
    for name, values in texts.items():
        (run.folder / f"{name}.json").write_text(json.dumps(values))
    (run.folder / "metrics.csv").write_text(text)
    (run.folder / "model.safetensors").write_text("large")
    return run


def shelve(run: Run, record: dict, rows: list[dict]) -> Run:
    papers = kept.load_all(run.folder.parents[1])
    papers.setdefault(run.folder.parent.name, kept.KeptPaper()).add(record, rows)
    kept.save(run.folder.parents[1], papers)
    return run


def unshelve(run: Run) -> None:
    papers = kept.load_all(run.folder.parents[1])
    papers[run.folder.parent.name].remove(run.id)
    kept.save(run.folder.parents[1], papers)
