"""Quantities from a study of the trained networks: a number per seed from the study's rows of the last studied round."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import PERCENT, POINTS, Unit
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, ReasonKind, make_reason

Row = Mapping[str, str]  # of the study's table


class StudyQuantity(base.Quantity):
    """A share from the rows of a study; with a `baseline` the difference to that of the baseline with the same seed."""

    baseline: str | None = None
    study: ClassVar[str]
    title: ClassVar[str]
    studied: ClassVar[str]  # what the study measures, for the reason if it did not

    @property
    def contrast(self) -> bool:
        return self.baseline is not None

    @property
    def expected(self) -> dict[str, base.Expected]:
        return {"higher": base.Expected()} if self.baseline else {}

    def of_rows(self, rows: Sequence[Row]) -> float:
        """Return the number for one seed."""
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
            return [make_reason(ReasonKind.UNMEASURED, what=self.studied, series=unmeasured)]
        return base.unpaired_seeds(seeds)

    def values(self, view: ExperimentView) -> list[float]:
        values, *baseline = (self._by_seed(view, label) for label in self.labels)
        return [value - baseline[0][seed] if baseline else value for seed, value in values.items()]

    def _by_seed(self, view: ExperimentView, label: str) -> dict[int, float]:
        """Return seed -> number. Diverged runs are left out."""
        rows = view.results.rows_without_diverged(label)
        last = max((int(row["round"]) for row in rows), default=0)
        seeds: dict[int, list[Row]] = {}
        for row in rows:
            if int(row["round"]) == last:
                seeds.setdefault(int(row["seed"]), []).append(row)
        return {seed: self.of_rows(seeds[seed]) for seed in sorted(seeds)}


class ClientsQuantity(StudyQuantity):
    """A number from the accuracies of clients."""

    study: ClassVar = "clients"
    studied: ClassVar = "accuracies of clients"

    def of_rows(self, rows: Sequence[Row]) -> float:
        return self.of_clients(sorted(float(row["accuracy"]) for row in rows))

    def of_clients(self, accuracies: list[float]) -> float:
        """Return the number for one seed, from all clients' accuracies in rising order."""
        raise NotImplementedError
