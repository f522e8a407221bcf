"""Filters for Snakemake's logger: the cost of the requested work, targets like an unknown one, how
to end a lock."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from snakemake_interface_logger_plugins.common import LogEvent

from fedrepro.cli.terminal import Event
from fedrepro.core.errors import unknown_name
from fedrepro.experiments import cost
from fedrepro.experiments.jobs import Work

log = logging.getLogger("snakemake.logging")
LOCKED = (
    "This folder is locked: another `snakemake` works here, or one was killed. If none works here, "
    "run `snakemake --unlock`, then the same command."
)
Filter = Callable[[logging.LogRecord], bool]


def announce_cost(jobs: Mapping[str, list[Work]], cores: int) -> Filter:
    """Return a filter that logs the cost of the requested jobs once, when Snakemake has selected
    them.

    Args:
        jobs: rule -> the unfinished runs and studies of its job; the requested ones are attached to
            the log record.
        cores: number of cores for which the time is estimated.
    """
    announced = False

    def announce(record: logging.LogRecord) -> bool:
        nonlocal announced
        if getattr(record, "event", None) == LogEvent.RUN_INFO and not announced:
            announced = True
            requested = {rule: jobs[rule] for rule in getattr(record, "stats", ()) if rule in jobs}
            if pending := [entry for group in requested.values() for entry in group]:
                log.info(
                    cost.pending_table(pending, cores, len(requested)),
                    extra={"event": Event.COST, "requested": requested},
                )
        return True

    return announce


def explain_lock(record: logging.LogRecord) -> bool:
    """Say how to go on after a hard kill, which leaves Snakemake's lock."""
    if getattr(record, "exception", None) == "LockException":
        record.msg, record.args = LOCKED, None
    return True


def suggest_targets(valid: Collection[str], requested: Callable[[], Iterable[str]]) -> Filter:
    """Return a filter that answers an unknown target with similar ones; `requested` returns the
    command line's targets."""

    def suggest(record: logging.LogRecord) -> bool:
        if getattr(record, "exception", None) == "MissingRuleException":
            # the others are files
            names = [name for name in requested() if "/" not in name and "." not in name]
            if unknown := [name for name in names if name not in valid]:
                record.msg, record.args = (
                    str(unknown_name("target", unknown[0], valid, "; `fedrepro list` shows all")),
                    None,
                )
        return True

    return suggest
