"""Training runs: name, files and code digest. Imports no torch."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.config.params import RunConfig
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.runs.records import RECORD, is_kept, run_hash

CODE_CHANGED = "code changed since the work was planned; start the same command again"
LOG = "log.txt"  # in a run's folder; locked by the process that trains the run
PROGRESS = "progress.json"  # exists while a run is unfinished
Row = dict[str, Any]  # the measured columns of a round
# settings that a recorded step depends on, besides tensor shapes: a method sees its options, the
# network and the task
STEP_CACHE_FIELDS = {
    "dataset",
    "model",
    "algorithm",
    "task",
    "optimizer",
    "momentum",
    "weight_decay",
    "precision",
}


@dataclass(frozen=True)
class Run:
    """A training run. Its folder's name hashes all that determines the result; committed runs
    (`records.py`) have no folder."""

    folder: Path
    config: RunConfig
    data: str  # the data set's identity
    code: str

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def summary(self) -> Path:
        """Return the file that exists exactly if the run is finished."""
        return self.folder.parent if self.is_kept else self.folder / RECORD

    @property
    def is_kept(self) -> bool:
        return is_kept(self.folder)

    @property
    def log(self) -> Path:
        return self.folder / LOG

    @property
    def progress(self) -> Path:
        return self.folder / PROGRESS

    @property
    def step_cache_key(self) -> str:
        """Return a key that is equal for runs that can share one recorded step in a process."""
        return self.config.model_dump_json(include=STEP_CACHE_FIELDS)

    def config_record(self) -> dict[str, Any]:
        """Return all that determines the result."""
        return {"config": self.config.model_dump(mode="json"), "data": self.data, "code": self.code}


def code_digest(config: RunConfig) -> str:
    return provenance.code_digest(provenance.modules(config))


def run_id(config: RunConfig, data: str) -> str:
    """Return a run's name: a readable slug and the hash of all that determines the result."""
    digest = run_hash(
        {"config": config.model_dump(mode="json"), "data": data, "code": code_digest(config)}
    )
    return f"{config.dataset.name}-{config.algorithm.name}-s{config.seed}-{digest}"


def check_code_unchanged(config: RunConfig, code: str) -> None:
    """Raise UserError if this process executes other code than the digest `code` that the run was
    planned with.

    A process that Snakemake starts imports the files as they are by then; the run's name would
    promise other code.
    """
    for module in provenance.modules(config):
        # import before reading, so that an edit in between is noticed
        importlib.import_module(f"fedrepro.{module}")
    if code_digest(config) != code:
        raise UserError(CODE_CHANGED)
