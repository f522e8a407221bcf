"""How far a job is, read from what its runs write: the main process needs no word from those that train."""

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fedrepro.core.formatting import count, duration
from fedrepro.core.metrics import MEASURES
from fedrepro.runs.run import LOG, PROGRESS, SUMMARY

if TYPE_CHECKING:
    from fedrepro.experiments.cost import PendingWork  # which takes torch

KNOWN = 0.02  # of the whole work has to be done before it tells how long the rest takes


class Progress:
    """All that was asked for and what became of it; `clock` in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.before = clock, 0.0
        self.began: float | None = None  # when the first of the runs did
        self.requested: Mapping[str, list[PendingWork]] = {}  # rule -> the runs and studies of its job
        self.running: dict[int, str] = {}  # Snakemake's number of a job -> its rule
        self.steps = (0, 0)

    @property
    def entries(self) -> list["PendingWork"]:
        return [entry for job in self.requested.values() for entry in job]

    def share_done(self) -> float:
        """Return the share of the work that is done, by what it costs."""
        whole = sum(entry.cost.seconds for entry in self.entries)
        return sum(entry.cost.seconds * _share_of(entry) for entry in self.entries) / whole if whole else 0.0

    def seconds_left(self) -> float | None:
        """Estimate the seconds left from the speed so far; None before there is any."""
        done = self.share_done()
        if self.began is None or done >= 1 or done - self.before < KNOWN:
            return None
        return (self.clock() - self.began) * (1 - done) / (done - self.before)

    def line(self) -> str:
        """Runs done, where those are that train now, time left; after them which steps are made. Empty while nothing runs."""
        if not self.running:
            return ""
        over, whole = sum(entry.done_file.exists() for entry in self.entries), len(self.entries)
        if self.began is None and self.requested.keys() & set(self.running.values()):
            self.began, self.before = self.clock(), self.share_done()
        parts = [f"{over} of {count(whole, 'run')} done"] if whole else []
        parts += [told for rule in self.running.values() if (told := self._describe_job(rule))]
        left = self.seconds_left()
        if left is not None:
            parts.append(f"about {duration(left)} left")
        elif over == whole and self.steps[1]:
            parts.append(f"{self.steps[0]} of {count(self.steps[1], 'step')}")
        return " | ".join(parts)

    def _describe_job(self, rule: str) -> str:
        """Say what a running job does; nothing where its runs are over and the process is about to end."""
        if rule not in self.requested:
            return rule
        waiting = [entry for entry in self.requested[rule] if not entry.done_file.exists()]
        return _describe_entry(max(waiting, key=_last_log_time)) if waiting else ""


def read_progress(entry: "PendingWork") -> dict[str, Any] | None:
    """Read the progress file of a run; None before there is one, and for a study."""
    if entry.done_file.name != SUMMARY:
        return None
    try:
        return json.loads((entry.done_file.parent / PROGRESS).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # a machine that lost its power leaves it empty
        return None


def _share_of(entry: "PendingWork") -> float:
    """Return how much of it is done, from 0 to 1."""
    if entry.done_file.exists():
        return 1.0
    reached = read_progress(entry)
    return reached["round"] / reached["rounds"] if reached else 0.0


def _describe_entry(entry: "PendingWork") -> str:
    """Name it, with its round and what was measured last."""
    if not (reached := read_progress(entry)):
        return entry.name
    measure, value = MEASURES[reached["measure"]], reached["value"]
    shown = "-" if value is None else f"{100 * value:.1f} %" if measure.percent else f"{value:.4f}"
    return f"{entry.name}: round {reached['round']}/{reached['rounds']}, {measure.title} {shown}"


def _last_log_time(entry: "PendingWork") -> float:
    """Return when its run last wrote to its log; several of a job may have begun, and failed."""
    log = entry.done_file.parent / LOG
    return log.stat().st_mtime if log.exists() else 0.0
