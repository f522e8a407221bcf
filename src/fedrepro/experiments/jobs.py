"""Packing of missing work into jobs: large enough to amortise process start-up, numerous enough to
keep every core busy.

The main process decides and writes its decision down. A process that does one of the jobs reads it,
perhaps on another machine and when some of the work is finished already. A job's name contains a
hash of its work, so that two main processes never use one name for different jobs.
"""

import heapq
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrepro.core import provenance
from fedrepro.core.files import atomic_write

MIN_JOB_SECONDS = 60  # of work for which starting a process pays: importing torch takes 2.5 to 4
SHORT_WORK_SECONDS = 300  # for each core
RESERVED_MINUTES = 60  # beside twice the estimate, which a node's speed may exceed
# of a job's name without its hash: with a prefix and an ending it names files, which have 255 at
# most
LABEL_BYTES = 120


@dataclass(frozen=True)
class Cost:
    """Cost of one run."""

    samples: float = 0.0  # trained on
    evaluated: float = 0.0  # samples evaluated on
    operations: float = 0.0
    seconds: float = 0.0  # for which its job reserves `cores`
    cores: int = 1
    memory: float = 0.0  # bytes of all its processes at once, at most


@dataclass(frozen=True)
class Work:
    """A run, or a study of a run, of an experiment. Its `done_file` exists exactly if it is
    finished."""

    item: Any  # Run or StudyRun
    done_file: Path
    experiment: str  # with its paper and, for a study, the study: the beginning of its job's name
    series: str  # with the seed
    group: str = ""  # its line in tables, such as fedmmd/fig4d or the title of a study
    name: str = ""  # such as "fig4d FedMMD, seed 0"
    location: str = ""  # where its settings are, for errors
    is_study: bool = False
    cost: Cost = Cost()  # as long as it is not estimated: nothing

    @property
    def id(self) -> str:
        return self.item.id

    @property
    def step_cache_key(self) -> str | None:
        """A key that runs share whose process can compile one training step for all of them."""
        return None if self.is_study else self.item.step_cache_key


@dataclass(frozen=True)
class Job:
    """The work that one process does, one after the other."""

    name: str
    work: tuple[Work, ...]

    @property
    def items(self) -> list[Any]:
        return [work.item for work in self.work]

    @property
    def done_files(self) -> list[Path]:
        return [work.done_file for work in self.work]

    @property
    def seconds(self) -> float:
        return sum(work.cost.seconds for work in self.work)

    def minutes(self, attempt: int) -> int:
        """Return the time that a cluster reserves: twice the estimate and an hour, more at each
        attempt."""
        return attempt * (RESERVED_MINUTES + math.ceil(self.seconds / 30))

    def megabytes(self, attempt: int) -> int:
        """Return the memory that a cluster reserves: that of the largest work, more at each
        attempt."""
        return attempt * math.ceil(max(work.cost.memory for work in self.work) / 1e6)


def pack_jobs(missing: Sequence[Work], min_jobs: int, together: bool = True) -> list[Job]:
    """Pack work into jobs, the longest first.

    Short runs with the same `step_cache_key` share a job if enough work is left for every core.

    Args:
        min_jobs: the smallest number of jobs, for as much work.
        together: whether experiments may share jobs; else none waits for what another one needs.
    """
    groups: dict[str, list[Work]] = {}
    for work in missing:
        groups.setdefault("" if together else work.experiment, []).append(work)
    total = sum(work.cost.seconds for work in missing) or 1
    jobs: list[Job] = []
    for group in groups.values():
        costs = [work.cost.seconds for work in group]
        count = max(1, math.ceil(min_jobs * sum(costs) / total))
        bundles = _bundles(group, min(MIN_JOB_SECONDS, sum(costs) / (2 * count)))
        for job in pack([sum(costs[position] for position in bundle) for bundle in bundles], count):
            jobs.append(
                _job(
                    tuple(
                        group[position]
                        for position in sorted(sum((bundles[number] for number in job), []))
                    )
                )
            )
    return sorted(jobs, key=lambda job: -job.seconds)


def _bundles(group: Sequence[Work], limit: float) -> list[list[int]]:
    """Join positions of work that has the same key, as long as their bundle stays below `limit`
    seconds."""
    bundles: list[list[int]] = []
    last: dict[str, list[int]] = {}
    for position, work in enumerate(group):
        key = work.step_cache_key
        if (
            key in last
            and sum(group[other].cost.seconds for other in last[key]) + work.cost.seconds < limit
        ):
            last[key].append(position)
            continue
        bundles.append([position])
        if key is not None:
            last[key] = bundles[-1]
    return bundles


def pack(
    costs: Sequence[float], min_jobs: int, min_seconds: float = MIN_JOB_SECONDS
) -> list[list[int]]:
    """Distribute items over jobs.

    There are as many jobs as can each have `min_seconds` of work, so that a long item has a job of
    its own, and at least `min_jobs` if there are as many items. Items are assigned longest first,
    each to the job with the least work.

    Args:
        costs: seconds of each item.

    Returns the positions of each job's items, in order; the longest job first.
    """
    short = [cost for cost in costs if cost < min_seconds]
    jobs = len(costs) - len(short) + int(sum(short) / min_seconds)  # there cannot be more
    while jobs > min_jobs and min(_loads(costs, _spread(costs, jobs))) < min_seconds:
        jobs -= 1
    spread = _spread(costs, min(max(jobs, min_jobs, 1), len(costs)))
    return [
        spread[i] for _, i in sorted((-load, i) for i, load in enumerate(_loads(costs, spread)))
    ]


def _spread(costs: Sequence[float], jobs: int) -> list[list[int]]:
    spread: list[list[int]] = [[] for _ in range(jobs)]
    # by seconds, then by items: items that cost nothing are spread too
    queue = [(0.0, 0, job) for job in range(jobs)]
    for item in sorted(range(len(costs)), key=lambda item: -costs[item]):
        load, items, job = queue[0]
        heapq.heapreplace(queue, (load + costs[item], items + 1, job))
        spread[job].append(item)
    return [sorted(items) for items in spread]


def _loads(costs: Sequence[float], spread: list[list[int]]) -> list[float]:
    return [sum(costs[item] for item in items) for items in spread]


def makespan(costs: Sequence[float], workers: int) -> float:
    """Return the seconds until all items are done, if each worker always takes the longest one
    left."""
    return max(_loads(costs, _spread(costs, max(workers, 1))), default=0.0)


def write_jobs(jobs: Iterable[Job], folder: Path) -> None:
    """Write jobs to `folder` for the processes that do them, and delete those that are done."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        if all(done_file.exists() for done_file in _read(path)):
            path.unlink(missing_ok=True)
    for job in jobs:
        if not (path := folder / f"{job.name}.json").exists():
            with atomic_write(path) as temporary:
                temporary.write_text(
                    json.dumps(list(map(str, job.done_files)), indent=1) + "\n", encoding="utf-8"
                )


def read_jobs(planned: Iterable[Work], folder: Path) -> list[Job]:
    """Read the jobs in `folder` that consist of this work alone, finished or not."""
    by_file = {work.done_file: work for work in planned}
    stored = {path.stem: _read(path) for path in sorted(folder.glob("*.json"))}
    return [
        Job(name, tuple(by_file[path] for path in done_files))
        for name, done_files in stored.items()
        if by_file.keys() >= set(done_files)
    ]


def _job(work: tuple[Work, ...]) -> Job:
    """Name a job after its first work, the number of the rest, and a hash of all."""
    first, *others = work
    more = f"_and_{len(others)}_more" if others else ""
    label = "".join(
        character if character.isalnum() else "_"
        for character in f"{first.experiment}_{first.series}"
    )
    label = label.encode()[:LABEL_BYTES].decode(errors="ignore")  # cut between two characters
    return Job(
        f"{label}{more}_{provenance.value_digest([str(one.done_file) for one in work])}", work
    )


def _read(path: Path) -> list[Path]:
    try:
        return [Path(done_file) for done_file in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError):
        return []
