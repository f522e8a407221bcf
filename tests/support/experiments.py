"""Settings of two small experiments, and runs of them as if they had been trained."""

import csv
import io
import json
from pathlib import Path

from fedrepro.config.inheritance import merge
from fedrepro.config.params import Params
from fedrepro.core import provenance
from fedrepro.runs import records
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
        "long": {
            "seeds": [0],
            "compare": "full",
            "note": "l",
            "experiments": {"p": {"one": {"rounds": 9}}},
        },
    },
    "papers": {
        "p": {
            "one": SHARED
            | {"series": {"FedMMD": {"name": "fedmmd"}, "FedAvg": {"name": "fedavg"}}},
            "two": SHARED
            | {
                "series": {
                    "FedAvg again": {"name": "fedavg"},
                    "Prox": {"name": "fedprox", "mu": 0.1},
                }
            },
        },
    },
}


def params(**changes) -> Params:
    return settings.params(merge(SETTINGS, changes))


def one(**changes) -> Params:
    """With other settings for the experiment "one"."""
    return params(papers={"p": {"one": changes}})


def finish(run: Run, text: str = ROWS, **changes) -> Run:
    """As if it had been trained, or kept if its folder names a line of a kept file. `changes`: what
    it says."""
    header, *table = csv.reader(io.StringIO(text))
    columns = records.columns(header, table)
    commit = run.code if provenance.is_commit(run.code) else "0123456"
    environment = {
        "commit": commit,
        "device": "cpu",
        "executor": "plain",
        "hardware": "a chip",
        "torch": "2.8",
    }
    environment |= {name: changes.pop(name) for name in environment.keys() & changes.keys()}
    begun = run.config_record() | {"dataset": "some data", "environment": environment}
    times = {"timed_rounds": 1, "seconds": 2.0}
    outcome = {
        "status": "finished",
        "rounds": len(table) - 1,
        "weights": 7,
        "bytes_down": 8,
        "bytes_up": 9,
    }
    record = (
        {"run": run.id}
        | begun
        | times
        | outcome
        | {"metrics": records.digest(columns), "columns": columns}
        | changes
    )
    if run.is_kept:
        return shelve(run, record)
    records.write(run.folder / records.BEGUN, begun | times | {"round_seconds": []})
    records.write(run.folder / records.RECORD, record)
    (run.folder / "model.safetensors").write_text("large")
    return run


def without_times(folder: Path) -> dict:
    """The record of a finished run, without what differs when it is trained again."""
    record = json.loads((folder / records.RECORD).read_text())
    del record["seal"]
    columns = {
        name: column for name, column in record["columns"].items() if name != records.SECONDS
    }
    return {name: value for name, value in record.items() if name not in records.TIMES} | {
        "columns": columns
    }


def shelve(run: Run, record: dict) -> Run:
    kept = {**records.load_kept(run.folder.parent), run.id: {"studies": {}} | record}
    records.save(run.folder.parent, [one for _, one in sorted(kept.items())])
    return run


def unshelve(run: Run) -> None:
    records.save(
        run.folder.parent,
        [one for name, one in records.load_kept(run.folder.parent).items() if name != run.id],
    )
