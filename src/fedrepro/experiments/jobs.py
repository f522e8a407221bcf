"""Pieces of work packed into jobs: few enough that starting a process is small beside what it does, enough that all cores work.

A main process decides and writes down what it decided; a process that does one of its jobs, perhaps on another machine and when
some of the work is done already, reads it. A job's name says what is in it, so that two main processes never mean different
things by one name.
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

WORTH = 60  # seconds of work for which a process is worth its start: importing torch takes 2.5 to 4
LABEL = 120  # bytes of a job's name beside its hash: with a prefix and an ending it names files, which have 255 at most
T = TypeVar("T")


@dataclass(frozen=True)
class WorkItem(Generic[T]):
    """A run or a study of an experiment: `over` is the file that is there exactly if it is over; those that are `alike` cost
    less in one process."""

    experiment: str
    name: str
    work: T
    done_file: Path
    step_cache_key: str | None = None


@dataclass(frozen=True)
class Job(Generic[T]):
    """What one process does, one piece after the other."""

    name: str
    items: tuple[WorkItem[T], ...]

    @property
    def work(self) -> list[T]:
        return [piece.work for piece in self.items]

    @property
    def done_files(self) -> list[Path]:
        return [piece.done_file for piece in self.items]


def pack(costs: Sequence[float], least: int, worth: float = WORTH) -> list[list[int]]:
    """Positions of pieces that cost so many seconds, as jobs: each piece once, the longest job first, within a job in order.

    As many jobs as there can be of at least `worth` seconds each, hence a long piece has its own; at least `least` in any case,
    if there are so many pieces. The longest piece goes first, always to the job that has least to do.
    """
    short = [cost for cost in costs if cost < worth]
    jobs = len(costs) - len(short) + int(sum(short) / worth)  # there cannot be more
    while jobs > least and min(_loads(costs, _spread(costs, jobs))) < worth:
        jobs -= 1
    spread = _spread(costs, min(max(jobs, least, 1), len(costs)))
    return [spread[i] for _, i in sorted((-load, i) for i, load in enumerate(_loads(costs, spread)))]


def _spread(costs: Sequence[float], jobs: int) -> list[list[int]]:
    spread: list[list[int]] = [[] for _ in range(jobs)]
    waiting = [(0.0, 0, job) for job in range(jobs)]  # seconds and pieces so far: pieces that cost nothing are spread too
    for piece in sorted(range(len(costs)), key=lambda piece: -costs[piece]):
        load, pieces, job = waiting[0]
        heapq.heapreplace(waiting, (load + costs[piece], pieces + 1, job))
        spread[job].append(piece)
    return [sorted(pieces) for pieces in spread]


def _loads(costs: Sequence[float], spread: list[list[int]]) -> list[float]:
    return [sum(costs[piece] for piece in pieces) for pieces in spread]


def makespan(costs: Sequence[float], workers: int) -> float:
    """Seconds until all pieces are done, if each worker takes the longest that is left."""
    return max(_loads(costs, _spread(costs, max(workers, 1))), default=0.0)


def write_jobs(
    pieces: Iterable[WorkItem[T]],
    cost: Callable[[T], float],
    least: int,
    folder: Path,
    mixed: Container[str] = (),
    asked: Callable[[T], bool] = lambda work: True,
) -> list[Job[T]]:
    """The jobs of those that are not over, written to `folder` for the processes that do them. Pieces of experiments that are
    `mixed` may share a job; the others each have their own, so that who asks for one figure does not wait for another's runs,
    nor for data that only those need. What is `asked` for has `least` jobs from all experiments together. Short pieces that are
    alike share a job where enough is left for every core."""
    waiting = [piece for piece in pieces if not piece.done_file.exists()]
    costs = [cost(piece.work) for piece in waiting]
    together: dict[str, list[int]] = {}
    for place, piece in enumerate(waiting):
        together.setdefault("" if piece.experiment in mixed else piece.experiment, []).append(place)
    whole = sum(spent for piece, spent in zip(waiting, costs, strict=True) if asked(piece.work)) or 1
    packed: list[list[int]] = []
    for own in together.values():
        total = sum(costs[place] for place in own)
        jobs = max(1, math.ceil(least * min(1, total / whole)))  # of the cores
        bundles = _bundles(own, costs, [piece.step_cache_key for piece in waiting], min(WORTH, total / (2 * jobs)))
        found = pack([sum(costs[place] for place in bundle) for bundle in bundles], jobs)
        packed += [sorted(place for bundle in spread for place in bundles[bundle]) for spread in found]
    packed.sort(key=lambda places: -sum(costs[place] for place in places))
    jobs = [Job(_name(chosen), chosen) for chosen in (tuple(waiting[place] for place in places) for places in packed)]
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        if all(over.exists() for over in _read(path)):
            path.unlink(missing_ok=True)
    for job in jobs:
        if not (path := folder / f"{job.name}.json").exists():
            with atomic_write(path) as temporary:
                temporary.write_text(json.dumps([str(over) for over in job.done_files], indent=1) + "\n", encoding="utf-8")
    return jobs


def _bundles(places: Iterable[int], costs: Sequence[float], alike: Sequence[str | None], limit: float) -> list[list[int]]:
    """Each of the places once, together those that are alike, as far as a bundle stays below `limit` seconds."""
    bundles: list[list[int]] = []
    last: dict[str, list[int]] = {}
    for place in places:
        kin = alike[place]
        if kin in last and sum(costs[other] for other in (*last[kin], place)) < limit:
            last[kin].append(place)
            continue
        bundles.append([place])
        if kin is not None:
            last[kin] = bundles[-1]
    return bundles


def read_jobs(pieces: Iterable[WorkItem[T]], folder: Path) -> list[Job[T]]:
    """The jobs in `folder` whose pieces are all known, finished or not."""
    known = {piece.done_file: piece for piece in pieces}
    found = {path.stem: _read(path) for path in sorted(folder.glob("*.json"))}
    return [Job(name, tuple(known[over] for over in parts)) for name, parts in found.items() if known.keys() >= set(parts)]


def _name(pieces: tuple[WorkItem, ...]) -> str:
    """The first piece's, how many more, and a hash of all."""
    more = f"_and_{len(pieces) - 1}_more" if len(pieces) > 1 else ""
    label = "".join(character if character.isalnum() else "_" for character in f"{pieces[0].experiment}_{pieces[0].name}")
    label = label.encode()[:LABEL].decode(errors="ignore")  # cut between two characters
    return f"{label}{more}_{provenance.value_digest([str(piece.done_file) for piece in pieces])}"


def _read(path: Path) -> list[Path]:
    try:
        return [Path(over) for over in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError):
        return []
