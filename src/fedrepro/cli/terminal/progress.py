"""The progress of jobs, read from the files that their runs write: the processes that train send no
messages."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from fedrepro.core.files import read_file
from fedrepro.core.formatting import count, duration
from fedrepro.core.metrics import MEASURES
from fedrepro.experiments.jobs import Work
from fedrepro.runs.records import RECORD
from fedrepro.runs.run import LOG, PROGRESS

MIN_SHARE = 0.02  # of the whole work that must be done before the time left is estimated


class Progress:
    """The progress of all requested work; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.share_before = clock, 0.0
        self.began: float | None = None  # the time when the first run began
        self.requested: Mapping[str, list[Work]] = {}  # rule -> the runs and studies of its job
        self.running: dict[int, str] = {}  # Snakemake's number of a job -> its rule
        self.steps = (0, 0)

    @property
    def entries(self) -> list[Work]:
        return [entry for job in self.requested.values() for entry in job]

    def share_done(self) -> float:
        """Return the share of the work that is done, weighted by cost."""
        whole = sum(entry.cost.seconds for entry in self.entries)
        return (
            sum(entry.cost.seconds * _share_of(entry) for entry in self.entries) / whole
            if whole
            else 0.0
        )

    def seconds_left(self) -> float | None:
        """Estimate the seconds left from the speed so far; None before there is any."""
        done = self.share_done()
        if self.began is None or done >= 1 or done - self.share_before < MIN_SHARE:
            return None
        return (self.clock() - self.began) * (1 - done) / (done - self.share_before)

    def line(self) -> str:
        """Return the line of progress: runs done, time left, or Snakemake's steps after all runs,
        the rounds of running jobs.

        Empty while no job runs. A narrow terminal cuts the end.
        """
        if not self.running:
            return ""
        done, total = sum(entry.done_file.exists() for entry in self.entries), len(self.entries)
        if self.began is None and self.requested.keys() & set(self.running.values()):
            self.began, self.share_before = self.clock(), self.share_done()
        parts = [f"{done} of {count(total, 'run')} done"] if total else []
        left = self.seconds_left()
        if left is not None:
            parts.append(f"about {duration(left)} left")
        elif done == total and self.steps[1]:
            parts.append(f"{self.steps[0]} of {count(self.steps[1], 'step')}")
        return " | ".join([*parts, *filter(None, map(self._describe_job, self.running.values()))])

    def _describe_job(self, rule: str) -> str:
        """Return the state of a running job; empty if its runs are finished and its process is
        about to end."""
        if rule not in self.requested:
            return rule
        unfinished = [entry for entry in self.requested[rule] if not entry.done_file.exists()]
        return _describe_entry(max(unfinished, key=_last_log_time)) if unfinished else ""


def read_progress(entry: Work) -> dict[str, Any] | None:
    """Return the content of a run's progress file; None before it exists, and for a study."""
    if entry.done_file.name != RECORD:
        return None
    try:
        return json.loads(read_file(entry.done_file.parent / PROGRESS))
    except (FileNotFoundError, ValueError):  # a machine that lost its power leaves it empty
        return None


def _share_of(entry: Work) -> float:
    """Return the share of an entry that is done, from 0 to 1."""
    if entry.done_file.exists():
        return 1.0
    state = read_progress(entry)
    return state["round"] / state["rounds"] if state else 0.0


def _describe_entry(entry: Work) -> str:
    """Return the name of an entry, with its round and the last measured value."""
    if not (state := read_progress(entry)):
        return entry.name
    measure, value = MEASURES[state["measure"]], state["value"]
    text = "-"
    if value is not None:
        text = f"{100 * value:.1f} %" if measure.percent else f"{value:.4f}"
    return f"{entry.name}: round {state['round']}/{state['rounds']}, {measure.title} {text}"


def _last_log_time(entry: Work) -> float:
    """Return the time of the last entry in a run's log, since several runs of a job may have begun
    and failed."""
    log = entry.done_file.parent / LOG
    return log.stat().st_mtime if log.exists() else 0.0
