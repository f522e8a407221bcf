"""Train a list of runs one after the other in one process, bringing along what they need: data, partition."""

import functools
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from fedrepro import datasets, holdings, partitions, working
from fedrepro.config import Gpus, RunConfig
from fedrepro.datasets import Dataset
from fedrepro.devices import ANY
from fedrepro.engine import run as engine
from fedrepro.engine.run import Limits
from fedrepro.errors import Failures, UserError, collected
from fedrepro.fields import Choice
from fedrepro.paths import Paths
from fedrepro.runs import Run, hold_to_plan

log = logging.getLogger(__name__)


@functools.lru_cache(maxsize=1)
def _loaded(folder: Path) -> Dataset:
    return datasets.load(folder)


def dataset(choice: Choice | str, paths: Paths, mirror: str | None) -> Dataset:
    """The prepared data set; fetched and prepared first where it is not there."""
    folder = paths.prepared(choice)
    datasets.provide(choice, paths.raw, folder, mirror)
    return _loaded(folder)


def partition(config: RunConfig, identity: str, paths: Paths, mirror: str | None) -> partitions.Partition:
    """The stored partition of a run; drawn and stored first where it is not there."""
    return holdings.provide(config, dataset(config.dataset, paths, mirror), paths.partition(config, identity))


def train(
    runs: Iterable[Run],
    paths: Paths,
    *,
    mirror: str | None = None,
    device: str = "auto",
    gpus: Gpus = ANY,
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
        later = {other.recorded for other in runs[runs.index(run) :]}
        for kind in recordings.keys() - later:
            del recordings[kind]  # on a GPU each keeps its graphs' memory
        if (key := datasets.key(run.config.dataset)) not in failed.found:  # what cannot be had is told once
            with failed.of(key):
                data = dataset(run.config.dataset, paths, mirror)
        if key in failed.found:
            return True
        hold_to_plan(run.config, run.code)
        if data.meta["identity"] != run.data:
            where = paths.prepared(run.config.dataset)
            raise UserError(
                f"{where}: other data than the run was planned with. Start the same command again; it plans with these."
            )
        own, stored = partition(run.config, run.data, paths, mirror), (snapshots or {}).get(run.folder, frozenset())
        return engine.train(run, data, own, place, limits, executor, stored, recordings[run.recorded], cores)

    with collected(failures) as failed:
        limited = {"device": device, "gpus": gpus, "limits": limits, "failures": failed}
        return working.through(runs, do, name=lambda run: run.id, over=engine.finished, **limited)


def summarise(runs: Iterable[Run]) -> None:
    """Write the summaries again of runs that were trained: of a job that failed Snakemake deletes all. What cannot be read is
    told here and raised by the training of that run."""
    for run in runs:
        with Failures().of(run.id):
            engine.finished(run)
