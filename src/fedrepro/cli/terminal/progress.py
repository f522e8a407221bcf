"""How far a job is, read from what its runs write: the main process needs no word from those that train."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedrepro.core.formatting import count, duration

ROUND = re.compile(r"round (\d+)/(\d+): (.+) (\d+\.\d+|-), train loss")
TAIL = 4000  # bytes of a log that hold its last round
KNOWN = 0.02  # of the whole work has to be done before it tells how long the rest takes


@dataclass(frozen=True)
class Task:
    """A run or a study that was asked for: how it is called, what it costs in seconds."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Position:
    """Where a run is: its last round of how many, and what was measured there."""

    round: int
    rounds: int
    measured: str


@dataclass
class Job:
    """One of Snakemake's."""

    rule: str
    outputs: list[Path]


def position(folder: Path) -> Position | None:
    """Of the run in a folder; None before its first round."""
    try:
        with (folder / "log.txt").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            told = ROUND.findall(file.read().decode(errors="replace"))
    except FileNotFoundError:
        return None
    if not told:
        return None
    round, rounds, title, value = told[-1]
    shown = value if value == "-" or "loss" in title else f"{100 * float(value):.1f} %"
    return Position(int(round), int(rounds), f"{title} {shown}")


class Progress:
    """All that was asked for and what became of it; `clock` in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.before = clock, 0.0
        self.began: float | None = None  # when the first of the runs did
        self.tasks: dict[Path, Task] = {}
        self.jobs: dict[int, Job] = {}
        self.running: dict[int, None] = {}  # numbers; a job is told of after it has started
        self.steps = (0, 0)

    def ask(self, tasks: Mapping[str, tuple[str, float]]) -> None:
        """What will be trained: file that says that it is over -> name, seconds."""
        self.tasks = {Path(over): Task(*told) for over, told in tasks.items()}
        self.began = None

    def done(self) -> float:
        """Share of the work, by what it costs."""
        whole = sum(task.seconds for task in self.tasks.values())
        return sum(task.seconds * self._share(over) for over, task in self.tasks.items()) / whole if whole else 0.0

    def _share(self, over: Path) -> float:
        if over.exists():
            return 1.0
        found = position(over.parent) if over.name == "summary.json" else None
        return found.round / found.rounds if found else 0.0

    def left(self) -> float | None:
        """Seconds, from the speed so far; None before there is any."""
        done = self.done()
        if self.began is None or done >= 1 or done - self.before < KNOWN:
            return None
        return (self.clock() - self.began) * (1 - done) / (done - self.before)

    def line(self) -> str:
        """Runs done, where those are that train now, time left; after them which steps are made. Empty while nothing runs."""
        running = [self.jobs[number] for number in self.running if number in self.jobs]
        if not running:
            return ""
        over = sum(path.exists() for path in self.tasks)
        if self.began is None and any(path in self.tasks for job in running for path in job.outputs):
            self.began, self.before = self.clock(), self.done()
        parts = [f"{over} of {count(len(self.tasks), 'run')} done"] if self.tasks else []
        parts += [told for job in running if (told := self._told(job))]
        left = self.left()
        if left is not None:
            parts.append(f"about {duration(left)} left")
        elif over == len(self.tasks) and self.steps[1]:
            parts.append(f"{self.steps[0]} of {count(self.steps[1], 'step')}")
        return " | ".join(parts)

    def _told(self, job: Job) -> str:
        """What a running job does; empty where its runs are over and the process is about to end."""
        own = [over for over in job.outputs if over in self.tasks]
        waiting = [over for over in own if not over.exists()]
        if not waiting:
            return "" if own else job.rule
        over = max(waiting, key=_age)
        found = position(over.parent) if over.name == "summary.json" else None
        where = f": round {found.round}/{found.rounds}, {found.measured}" if found else ""
        return self.tasks[over].name + where


def _age(over: Path) -> float:
    """When something was last heard of a run; several may have begun, and failed."""
    log = over.parent / "log.txt"
    return log.stat().st_mtime if log.exists() else 0.0
