"""The saving of new clients' epochs: 1 - epochs(series) / epochs(baseline), each the mean over the new clients of a seed's
run."""

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.quantities import base, epochs
from fedrepro.report.quantities._epochs import means
from fedrepro.report.reasons import Reason, Why, reason


class Cell(base.Saving, epochs.Cell):
    baseline: str

    def label(self, measure: Measure) -> str:
        return f"epochs saved against {self.baseline} (%)"

    def absent(self, panel: Panel) -> list[Reason]:
        by_series = {label: means(panel.results, label) for label in self.labels}
        idle = [reason(Why.NO_TRAINING, series=self.baseline)] if 0 in by_series[self.baseline].values() else []
        return super().absent(panel) or base.unpaired(by_series) or idle

    def values(self, panel: Panel) -> list[float]:
        method, other = (means(panel.results, label) for label in self.labels)
        return [1 - method[seed] / other[seed] for seed in method]
