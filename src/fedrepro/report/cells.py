"""What stands in a table's cells: numbers of one series, or of one beside its baseline, over seeds, as text."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedrepro.metrics import Curve, Estimate, estimate, rounds_to
from fedrepro.report.loading import Results
from fedrepro.report.spec import Figure

NONE = "-"


@dataclass(frozen=True)
class Panel:
    """A figure of a table with its results; every curve that is read from them is in the figure's own metric."""

    key: str
    figure: Figure
    results: Results

    @property
    def skipped(self) -> str | None:
        return self.results.skipped

    @property
    def scale(self) -> str:
        return self.results.note["scale"]

    @property
    def full(self) -> bool:
        """Whether our numbers may be held against the paper's."""
        return self.results.compare == "full"

    def curves(self, label: str) -> dict[int, Curve]:
        """Seed -> (round, accuracy in 0..1) of the finished runs."""
        return self.results.curves(label, self.figure.metric)

    def seeds(self, label: str) -> str:
        """How many there are, and what became of those that diverged."""
        return "; ".join([str(len(self.curves(label))), *self.results.diverged(label)])


def rounds(panel: Panel, label: str, target: float, smooth: int) -> str:
    """Rounds until the target."""
    reached = [rounds_to(curve, target, smooth) for curve in panel.curves(label).values()]
    return arrivals(reached, 1 if len(reached) > 1 else 0)


def arrivals(values: Sequence[float | None], digits: int) -> str:
    """Mean over the seeds that arrive; None stands for one that does not, and their number is told."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return "never" if values else NONE
    if len(known) < len(values):
        return f"{sum(known) / len(known):.{max(digits, 1)}f} ({len(known)} of {len(values)} seeds)"
    return spread(estimate(known), digits)


def saved(panel: Panel, label: str, baseline: str, target: float) -> str:
    """Mean over seeds of the paired saving of rounds, in percent; only where every seed of both series arrives."""
    if label == baseline or panel.results.diverged(label) or panel.results.diverged(baseline):
        return NONE
    ours, theirs = panel.curves(label), panel.curves(baseline)
    pairs = [(rounds_to(curve, target), rounds_to(theirs[seed], target)) for seed, curve in ours.items() if seed in theirs]
    if not pairs or any(None in pair for pair in pairs):
        return NONE
    return f"{spread(estimate([100 * (1 - mine / base) for mine, base in pairs]), 1)} %"


def megabytes(run: dict) -> float:
    """Sent down and up in a round by all participants together, mean over the run's rounds, in 10^6 bytes."""
    return (run["bytes_down"] + run["bytes_up"]) / max(run["rounds"], 1) / 1e6


def percent(values: Sequence[float]) -> str:
    return spread(estimate([100 * value for value in values]), 2) if values else NONE


def spread(found: Estimate, digits: int) -> str:
    return f"{found.mean:z.{digits}f}" + ("" if found.std is None else f" ± {found.std:.{digits}f}")


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
