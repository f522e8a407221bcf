"""The saving of new clients' epochs: 1 - epochs(series) / epochs(baseline), each the mean over the new clients of a seed's
run."""

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel
from fedrepro.report.quantities import base, epochs
from fedrepro.report.quantities._epochs import late, means


class Cell(base.Saving, epochs.Cell):
    baseline: str

    def absent(self, panel: Panel) -> str:
        found = {label: means(panel.results, label) for label in self.labels}
        if problem := super().absent(panel) or base.unpaired(found):
            return problem
        return f"the new clients of {self.baseline} need no training" if 0 in found[self.baseline].values() else ""

    def values(self, panel: Panel) -> tuple[list[float], str]:
        if problem := late(panel.results, self.labels):
            return [], problem
        method, other = (means(panel.results, label) for label in self.labels)
        return [1 - method[seed] / other[seed] for seed in method], ""

    def axis(self, measure: Measure) -> str:
        return f"epochs saved against {self.baseline} (%)"
