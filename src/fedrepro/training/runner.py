"""Training of a list of runs in one process, with their data and partitions."""

import functools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch

from fedrepro.config.params import DeviceChoice, RunConfig
from fedrepro.config.types import Choice
from fedrepro.core import provenance
from fedrepro.core.errors import Failures, UserError, shared_failures
from fedrepro.data import datasets, partitions
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import _store
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run, check_code_unchanged
from fedrepro.training import devices
from fedrepro.training import run as engine
from fedrepro.training.run import Limits

log = logging.getLogger(__name__)


@functools.lru_cache(maxsize=1)
def _load_dataset(folder: Path) -> Dataset:
    return datasets.load(folder)


def provide_dataset(choice: Choice | str, paths: Paths, mirror: str | None) -> Dataset:
    """Return the prepared data set; it is downloaded and prepared first if needed."""
    folder = paths.prepared(choice)
    datasets.provide(choice, paths.raw, folder, mirror)
    return _load_dataset(folder)


def provide_partition(
    config: RunConfig, identity: str, paths: Paths, mirror: str | None
) -> partitions.Partition:
    """Return the stored partition of a run; it is drawn and stored first if needed."""
    return _store.provide(
        config, provide_dataset(config.dataset, paths, mirror), paths.partition(config, identity)
    )


def train(
    runs: Iterable[Run],
    paths: Paths,
    *,
    mirror: str | None = None,
    device: DeviceChoice = DeviceChoice(),  # noqa: B008  (immutable)
    executor: str = "auto",
    cores: int = 1,
    checkpoint_seconds: float = 30,
    deadline: float | None = None,
    snapshots: Mapping[Path, frozenset[int]] | None = None,
    failures: Failures | None = None,
) -> list[Run]:
    """Train every run to its end; finished ones cost milliseconds. A failure does not stop the
    other runs.

    Args:
        cores: processor cores for each run.
        deadline: seconds on the monotonic clock; training stops at a checkpoint before it.
        snapshots: run folder -> rounds before which its training stores its state, for studies.
        failures: collects failures; without it they are raised at the end, with the names of the
            runs and data sets.

    Returns the runs that are not finished.

    Raises UserError if the data or the code are not those that a run was planned with.
    """
    provenance.check_commit_variable()
    limits, runs = Limits(checkpoint_seconds, deadline), list(runs)
    recordings: dict[str, dict] = defaultdict(dict)

    def train_one(run: Run, device: torch.device) -> bool:
        later = {other.step_cache_key for other in runs[runs.index(run) :]}
        for key in recordings.keys() - later:
            del recordings[key]  # on a GPU each keeps its graphs' memory
        dataset_key = datasets.key(run.config.dataset)
        if dataset_key not in failed.by_name:  # a data set that failed is not tried again
            with failed.collect(dataset_key):
                data = provide_dataset(run.config.dataset, paths, mirror)
        if dataset_key in failed.by_name:
            return True
        check_code_unchanged(run.config, run.code)
        if data.meta["identity"] != run.data:
            folder = paths.prepared(run.config.dataset)
            raise UserError(
                f"{folder}: not the data that the run was planned with. Start the same command "
                f"again."
            )
        partition = provide_partition(run.config, run.data, paths, mirror)
        rounds = (snapshots or {}).get(run.folder, frozenset())
        return engine.train(
            run,
            data,
            partition,
            device,
            limits,
            executor,
            rounds,
            recordings[run.step_cache_key],
            cores,
        )

    with shared_failures(failures) as failed:
        options: dict[str, Any] = {"device": device, "limits": limits, "failures": failed}
        return run_all(
            runs, train_one, name=lambda run: run.id, is_done=engine.is_finished, **options
        )


def write_summaries(runs: Iterable[Run]) -> None:
    """Write missing summaries of finished runs: Snakemake deletes all outputs of a job that failed.

    A run that cannot be read is logged here; its training raises the error."""
    for run in runs:
        with Failures().collect(run.id):
            engine.is_finished(run)


Work = TypeVar("Work")


def run_all(
    work: Iterable[Work],
    execute: Callable[[Work, torch.device], bool],
    *,
    name: Callable[[Work], str],
    is_done: Callable[[Work], bool],
    device: DeviceChoice,
    limits: Limits,
    failures: Failures,
) -> list[Work]:
    """Execute every piece of work on one device, which is acquired when the first needs it; done
    ones are skipped.

    `execute` returns False for a piece that a limit cut off; no other is started after it. A piece
    that fails, even in `is_done`, goes to `failures` and does not stop the others. Returns the
    pieces that are not done."""
    acquired, left = None, []
    for piece in work:
        with failures.collect(name(piece)):
            if is_done(piece):
                continue
            if not left and not limits.forbid(0):
                acquired = acquired or devices.acquire_device(
                    device.name, device.gpus, limits.forbid
                )
                if acquired is not None:
                    log.info("%s on %s", name(piece), acquired)
                    if execute(piece, acquired):
                        continue
            left.append(piece)
    return left
