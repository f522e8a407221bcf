"""A training run, its name, where it lies, and its rows as they lie there. Light: who only looks at runs needs no torch."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.config.params import RunConfig
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.core.files import parse_rows, read_file
from fedrepro.runs.kept import RUNS, is_kept, run_hash

CODE_CHANGED = "code changed since the work was planned; start the same command again"
LOG = "log.txt"  # in a run's folder; held by the process that trains it
PROGRESS = "progress.json"  # how far a run is, while it is not over
SUMMARY = "summary.json"  # there exactly if a run is over
# what a run leaves beside its log and its weights, the summary last: it makes a copy a finished run
RESULT_FILES = ("config.json", "metrics.csv", "environment.json", "timing.json", SUMMARY)
Row = dict[str, Any]  # what is written down of a round
# what a recorded step follows from, beside the shapes of its tensors: a method sees its options, the network and the task only
STEP_CACHE_FIELDS = {"dataset", "model", "algorithm", "task", "momentum", "weight_decay", "precision"}


@dataclass(frozen=True)
class Run:
    """A training run. Its folder is named by what determines the result; there is none of a committed run (`runs.kept`)."""

    folder: Path
    config: RunConfig
    data: str  # the data set's identity
    code: str

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def summary(self) -> Path:
        """The file that exists exactly if the run is over."""
        return self.folder.parent / RUNS if is_kept(self.folder) else self.folder / SUMMARY

    @property
    def log(self) -> Path:
        return self.folder / LOG

    @property
    def progress(self) -> Path:
        return self.folder / PROGRESS

    @property
    def step_cache_key(self) -> str:
        """Key shared by runs that can reuse one recorded step in one process."""
        return self.config.model_dump_json(include=STEP_CACHE_FIELDS)

    def config_record(self) -> dict[str, Any]:
        """What config.json holds."""
        return {"config": self.config.model_dump(mode="json"), "data": self.data, "code": self.code}


def code_digest(config: RunConfig) -> str:
    return provenance.code_digest(provenance.modules(config))


def run_id(config: RunConfig, data: str) -> str:
    """Readable slug and hash of all that determines the result."""
    hashed = run_hash({"config": config.model_dump(mode="json"), "data": data, "code": code_digest(config)})
    return f"{config.dataset.name}-{config.algorithm.name}-s{config.seed}-{hashed}"


def check_code_unchanged(config: RunConfig, code: str) -> None:
    """Raise UserError where this process executes other code than a run was planned with: what Snakemake starts imports what
    lies there by then, and the run would be named after code that never trained it."""
    for module in provenance.modules(config):
        importlib.import_module(f"fedrepro.{module}")  # imported before it is read: an edit in between is noticed
    if code_digest(config) != code:
        raise UserError(CODE_CHANGED)


def read_metrics(path: Path) -> list[Row]:
    """The rows of a metrics.csv; a cell that was not measured is None."""
    return [{key: _number(key, cell) for key, cell in row.items()} for row in parse_rows(read_file(path), path)]


def _number(column: str, cell: str) -> int | float | None:
    if cell == "":
        return None
    return int(cell) if column in ("round", "bytes_down", "bytes_up") else float(cell)


def to_csv(rows: list[Row]) -> str:
    """As metrics.csv holds them."""
    lines = [",".join("" if cell is None else repr(cell) for cell in row.values()) for row in rows]
    return "\n".join([",".join(rows[0]), *lines]) + "\n"
