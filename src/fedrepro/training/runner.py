"""Train a list of runs one after the other in one process, bringing along what they need: data, partition."""

import functools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import torch

from fedrepro.config.params import Gpus, RunConfig
from fedrepro.config.types import Choice
from fedrepro.core.errors import Failures, UserError, shared_failures
from fedrepro.data import datasets, partitions
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import _store
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run, check_code_unchanged
from fedrepro.training import devices
from fedrepro.training import run as engine
from fedrepro.training.devices import ANY_GPU
from fedrepro.training.run import Limits

log = logging.getLogger(__name__)


@functools.lru_cache(maxsize=1)
def _load_dataset(folder: Path) -> Dataset:
    return datasets.load(folder)


def provide_dataset(choice: Choice | str, paths: Paths, mirror: str | None) -> Dataset:
    """The prepared data set; fetched and prepared first where it is not there."""
    folder = paths.prepared(choice)
    datasets.provide(choice, paths.raw, folder, mirror)
    return _load_dataset(folder)


def provide_partition(config: RunConfig, identity: str, paths: Paths, mirror: str | None) -> partitions.Partition:
    """The stored partition of a run; drawn and stored first where it is not there."""
    return _store.provide(config, provide_dataset(config.dataset, paths, mirror), paths.partition(config, identity))


def train(
    runs: Iterable[Run],
    paths: Paths,
    *,
    mirror: str | None = None,
    device: str = "auto",
    gpus: Gpus = ANY_GPU,
    executor: str = "auto",
    cores: int = 1,
    checkpoint_seconds: float = 30,
    deadline: float | None = None,
    snapshots: Mapping[Path, frozenset[int]] | None = None,
    failures: Failures | None = None,
) -> list[Run]:
    """Bring every run to its end; finished ones cost milliseconds. `deadline`, on the monotonic clock, ends it at a checkpoint.

    `cores`: of a processor, for each run.
    `snapshots`: run folder -> the rounds before which its training stores its state, for studies.
    Returns the runs that are not over yet. A run that fails, or a data set that cannot be read, does not keep the others from
    their end; what failed goes to `failures`, else it is raised at the end, naming the runs and data sets: a UserError when the
    data, or the code, are not those that a run is named after.
    """
    limits, runs = Limits(checkpoint_seconds, deadline), list(runs)
    recordings: dict[str, dict] = defaultdict(dict)

    def do(run: Run, place: torch.device) -> bool:
        later = {other.step_cache_key for other in runs[runs.index(run) :]}
        for kind in recordings.keys() - later:
            del recordings[kind]  # on a GPU each keeps its graphs' memory
        if (key := datasets.key(run.config.dataset)) not in failed.by_name:  # what cannot be had is told once
            with failed.collect(key):
                data = provide_dataset(run.config.dataset, paths, mirror)
        if key in failed.by_name:
            return True
        check_code_unchanged(run.config, run.code)
        if data.meta["identity"] != run.data:
            where = paths.prepared(run.config.dataset)
            raise UserError(
                f"{where}: other data than the run was planned with. Start the same command again; it plans with these."
            )
        own, stored = provide_partition(run.config, run.data, paths, mirror), (snapshots or {}).get(run.folder, frozenset())
        return engine.train(run, data, own, place, limits, executor, stored, recordings[run.step_cache_key], cores)

    with shared_failures(failures) as failed:
        limited = {"device": device, "gpus": gpus, "limits": limits, "failures": failed}
        return run_all(runs, do, name=lambda run: run.id, is_done=engine.is_finished, **limited)


def write_summaries(runs: Iterable[Run]) -> None:
    """Write the summaries again of runs that were trained: of a job that failed Snakemake deletes all. What cannot be read is
    told here and raised by the training of that run."""
    for run in runs:
        with Failures().collect(run.id):
            engine.is_finished(run)


Piece = TypeVar("Piece")
log = logging.getLogger(__name__)


def run_all(
    work: Iterable[Piece],
    execute: Callable[[Piece, torch.device], bool],
    *,
    name: Callable[[Piece], str],
    is_done: Callable[[Piece], bool],
    device: str,
    gpus: Gpus,
    limits: Limits,
    failures: Failures,
) -> list[Piece]:
    """Bring every piece to its end, on one device, which is taken when the first needs it; what is `over` costs nothing. `do`
    says False of a piece that a limit cut off; none is begun after it. One that fails, even when asked whether it is over, does
    not keep the others from their end: it goes to `failures`. Returns those that are not over yet."""
    place, left = None, []
    for piece in work:
        with failures.collect(name(piece)):
            if is_done(piece):
                continue
            if not left and not limits.forbid(0):
                place = place or devices.acquire_device(device, gpus, limits.forbid)
                if place is not None:
                    log.info("%s on %s", name(piece), place)
                    if execute(piece, place):
                        continue
            left.append(piece)
    return left
