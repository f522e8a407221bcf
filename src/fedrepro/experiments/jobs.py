"""Packing of runs and studies into jobs: large enough to amortise process start-up, numerous enough to keep every core busy.

The main process decides and writes its decision down. A process that does one of the jobs reads it, perhaps on another machine
and when some of the work is finished already. A job's name contains a hash of its work, so that two main processes never use
one name for different jobs.
"""

import heapq
import json
import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from fedrepro.core import provenance
from fedrepro.core.files import atomic_write

MIN_JOB_SECONDS = 60  # of work for which starting a process pays: importing torch takes 2.5 to 4
LABEL_BYTES = 120  # of a job's name without its hash: with a prefix and an ending it names files, which have 255 at most
T = TypeVar("T")


@dataclass(frozen=True)
class WorkItem(Generic[T]):
    """A run or a study of an experiment. Its `done_file` exists exactly if it is finished. Items with the same `step_cache_key`
    share a compiled training step if one process does them."""

    experiment: str
    name: str
    work: T
    done_file: Path
    step_cache_key: str | None = None


@dataclass(frozen=True)
class Job(Generic[T]):
    """The items that one process does, one after the other."""

    name: str
    items: tuple[WorkItem[T], ...]

    @property
    def work(self) -> list[T]:
        return [item.work for item in self.items]

    @property
    def done_files(self) -> list[Path]:
        return [item.done_file for item in self.items]


def pack(costs: Sequence[float], min_jobs: int, min_seconds: float = MIN_JOB_SECONDS) -> list[list[int]]:
    """Distribute items over jobs.

    There are as many jobs as can each have `min_seconds` of work, so that a long item has a job of its own, but at min_jobs
    `min_jobs` if there are so many items. Items are assigned longest first, each to the job with the min_jobs work.

    Args:
        costs: seconds of each item.

    Returns the positions of each job's items, in order; the longest job first.
    """
    short = [cost for cost in costs if cost < min_seconds]
    jobs = len(costs) - len(short) + int(sum(short) / min_seconds)  # there cannot be more
    while jobs > min_jobs and min(_loads(costs, _spread(costs, jobs))) < min_seconds:
        jobs -= 1
    spread = _spread(costs, min(max(jobs, min_jobs, 1), len(costs)))
    return [spread[i] for _, i in sorted((-load, i) for i, load in enumerate(_loads(costs, spread)))]


def _spread(costs: Sequence[float], jobs: int) -> list[list[int]]:
    spread: list[list[int]] = [[] for _ in range(jobs)]
    queue = [(0.0, 0, job) for job in range(jobs)]  # by seconds, then by items: items that cost nothing are spread too
    for item in sorted(range(len(costs)), key=lambda item: -costs[item]):
        load, items, job = queue[0]
        heapq.heapreplace(queue, (load + costs[item], items + 1, job))
        spread[job].append(item)
    return [sorted(items) for items in spread]


def _loads(costs: Sequence[float], spread: list[list[int]]) -> list[float]:
    return [sum(costs[item] for item in items) for items in spread]


def makespan(costs: Sequence[float], workers: int) -> float:
    """Return the seconds until all items are done, if each worker always takes the longest one left."""
    return max(_loads(costs, _spread(costs, max(workers, 1))), default=0.0)


def write_jobs(
    items: Iterable[WorkItem[T]],
    cost: Callable[[T], float],
    min_jobs: int,
    folder: Path,
    may_share: Container[str] = (),
    is_requested: Callable[[T], bool] = lambda work: True,
) -> list[Job[T]]:
    """Pack the unfinished items into jobs and write these to `folder`, for the processes that do them.

    Short items with the same `step_cache_key` share a job if enough work is left for every core.

    Args:
        cost: seconds of an item's work.
        min_jobs: the smallest number of jobs for all requested work.
        may_share: experiments that may share jobs. Each other one has jobs of its own, so that a single figure waits neither
            for runs of another one nor for their data.
    """
    pending = [item for item in items if not item.done_file.exists()]
    costs = [cost(item.work) for item in pending]
    groups: dict[str, list[int]] = {}
    for position, item in enumerate(pending):
        groups.setdefault("" if item.experiment in may_share else item.experiment, []).append(position)
    requested_seconds = sum(seconds for item, seconds in zip(pending, costs, strict=True) if is_requested(item.work)) or 1
    keys = [item.step_cache_key for item in pending]
    packed: list[list[int]] = []
    for group in groups.values():
        packed += _pack_group(group, costs, keys, min_jobs, requested_seconds)
    packed.sort(key=lambda positions: -sum(costs[position] for position in positions))
    jobs = [_job(tuple(pending[position] for position in positions)) for positions in packed]
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        if all(done_file.exists() for done_file in _read(path)):
            path.unlink(missing_ok=True)
    for job in jobs:
        if not (path := folder / f"{job.name}.json").exists():
            with atomic_write(path) as temporary:
                temporary.write_text(json.dumps(list(map(str, job.done_files)), indent=1) + "\n", encoding="utf-8")
    return jobs


def _pack_group(
    group: list[int], costs: Sequence[float], keys: Sequence[str | None], min_jobs: int, requested_seconds: float
) -> list[list[int]]:
    """Pack the items of experiments that may share jobs; they get a part of `min_jobs` in proportion to their seconds."""
    seconds = sum(costs[position] for position in group)
    jobs = max(1, math.ceil(min_jobs * min(1, seconds / requested_seconds)))
    bundles = _bundles(group, costs, keys, min(MIN_JOB_SECONDS, seconds / (2 * jobs)))
    packed = pack([sum(costs[position] for position in bundle) for bundle in bundles], jobs)
    return [sorted(position for bundle in job for position in bundles[bundle]) for job in packed]


def _bundles(positions: Iterable[int], costs: Sequence[float], keys: Sequence[str | None], limit: float) -> list[list[int]]:
    """Join positions that have the same key, as long as their bundle stays below `limit` seconds."""
    bundles: list[list[int]] = []
    last: dict[str, list[int]] = {}
    for position in positions:
        key = keys[position]
        if key in last and sum(costs[other] for other in (*last[key], position)) < limit:
            last[key].append(position)
            continue
        bundles.append([position])
        if key is not None:
            last[key] = bundles[-1]
    return bundles


def read_jobs(items: Iterable[WorkItem[T]], folder: Path) -> list[Job[T]]:
    """Read the jobs in `folder` that consist of these items alone, finished or not."""
    by_file = {item.done_file: item for item in items}
    stored = {path.stem: _read(path) for path in sorted(folder.glob("*.json"))}
    return [
        Job(name, tuple(by_file[path] for path in done_files))
        for name, done_files in stored.items()
        if by_file.keys() >= set(done_files)
    ]


def _job(items: tuple[WorkItem[T], ...]) -> Job[T]:
    """Name a job after its first item, the number of the others, and a hash of all."""
    first, *others = items
    more = f"_and_{len(others)}_more" if others else ""
    label = "".join(character if character.isalnum() else "_" for character in f"{first.experiment}_{first.name}")
    label = label.encode()[:LABEL_BYTES].decode(errors="ignore")  # cut between two characters
    return Job(f"{label}{more}_{provenance.value_digest([str(item.done_file) for item in items])}", items)


def _read(path: Path) -> list[Path]:
    try:
        return [Path(done_file) for done_file in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError):
        return []
