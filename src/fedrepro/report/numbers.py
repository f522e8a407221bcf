"""Numbers over seeds as text, in the unit of their measure."""

from collections.abc import Sequence

from fedrepro.measures import Measure
from fedrepro.metrics import Estimate, estimate

NONE = "-"
SCORES = {"accuracy": "accuracy", "loss": "loss", "macro_f1": "macro-F1"}


def factor(measure: Measure) -> int:
    """From the stored to the shown number."""
    return 100 if measure.percent else 1


def unit(measure: Measure) -> str:
    return "%" if measure.percent else "nats"


def amount(measure: Measure, value: float) -> str:
    """A target as it is told: 90 %, 0.35 nats."""
    return f"{factor(measure) * value:g} {unit(measure)}"


def column(title: str, measure: Measure) -> str:
    """A table's column of values: Final accuracy (%)."""
    return f"{title} {SCORES[measure.score]} ({unit(measure)})"


def shown(measure: Measure, values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds: two digits of a percentage, four of a loss."""
    return spread(estimate([factor(measure) * value for value in values]), 2 if measure.percent else 4) if values else NONE


def arrivals(values: Sequence[float | None], digits: int) -> str:
    """Mean over the seeds that arrive; None stands for one that does not, and their number is told."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return "never" if values else NONE
    if len(known) < len(values):
        return f"{sum(known) / len(known):.{max(digits, 1)}f} ({len(known)} of {len(values)} seeds)"
    return spread(estimate(known), digits)


def megabytes(run: dict) -> float:
    """Sent down and up in a round by all participants together, mean over the run's rounds, in 10^6 bytes."""
    return (run["bytes_down"] + run["bytes_up"]) / max(run["rounds"], 1) / 1e6


def spread(found: Estimate, digits: int) -> str:
    return f"{found.mean:z.{digits}f}" + ("" if found.std is None else f" ± {found.std:.{digits}f}")


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
