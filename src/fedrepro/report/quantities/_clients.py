"""Quantities from the study `clients`: numbers per seed from the accuracies of all clients after the last studied round."""

from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import PERCENT, POINTS, Unit
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, ReasonKind, make_reason


class ClientsQuantity(base.Quantity):
    """A number from the accuracies of clients; with a `baseline` the difference to that of the baseline with the same seed."""

    baseline: str | None = None
    study: ClassVar = "clients"
    title: ClassVar[str]

    @property
    def contrast(self) -> bool:
        return self.baseline is not None

    def of_clients(self, accuracies: list[float]) -> float:
        """Return the number for one seed, from all clients' accuracies in rising order."""
        raise NotImplementedError

    def unit(self, measure: Measure) -> Unit:
        return POINTS if self.baseline else PERCENT

    def label(self, measure: Measure) -> str:
        return f"{self.title} above {self.baseline} (points)" if self.baseline else f"{self.title} (%)"

    def bounds(self, measure: Measure) -> tuple[float, float]:
        return (-1, 1) if self.baseline else (0, 1)

    def missing(self, view: ExperimentView) -> list[Reason]:
        seeds = {label: self._by_seed(view, label) for label in self.labels}
        if unmeasured := [label for label, values in seeds.items() if not values]:
            return [make_reason(ReasonKind.UNMEASURED, what="accuracies of clients", series=unmeasured)]
        return base.unpaired_seeds(seeds)

    def values(self, view: ExperimentView) -> list[float]:
        values, *baseline = (self._by_seed(view, label) for label in self.labels)
        return [value - baseline[0][seed] if baseline else value for seed, value in values.items()]

    def _by_seed(self, view: ExperimentView, label: str) -> dict[int, float]:
        return {seed: self.of_clients(sorted(values)) for seed, values in sorted(last_accuracies(view.results, label).items())}


def last_accuracies(results: Results, label: str) -> dict[int, list[float]]:
    """Return seed -> the accuracies of all clients after the last studied round. Diverged runs are left out."""
    rows = results.rows_without_diverged(label)
    last = max((int(row["round"]) for row in rows), default=0)
    accuracies: dict[int, list[float]] = {}
    for row in rows:
        if int(row["round"]) == last:
            accuracies.setdefault(int(row["seed"]), []).append(float(row["accuracy"]))
    return accuracies
