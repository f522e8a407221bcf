"""That a series has a lead over its baseline, and a larger one than in another experiment, where no number is claimed: the
lead, and the difference of the two leads, seed by seed; only the signs are judged. Where there is no lead, none has grown."""

from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.panel import Panel, Ref
from fedrepro.report.inputs.references import Known
from fedrepro.report.quantities import base, higher


class Cell(higher.Cell):
    than: str  # the other experiment
    word: ClassVar = "larger"

    @property
    def others(self) -> list[str]:
        return [self.than]

    def check(self, known: Known, ref: Ref) -> None:
        measure = known.ref(ref, self.labels).measure
        known.at("than").ref(Ref(experiment=self.than, measure=measure), self.labels)

    def lost(self, panel: Panel) -> str:
        return "; ".join(filter(None, map(super().lost, self._both(panel))))

    def absent(self, panel: Panel) -> str:
        both = self._both(panel)
        problems = "; ".join(filter(None, map(super().absent, both)))
        return problems or base.unpaired({f"{self.series} in {one.key}": one.curves(self.series) for one in both})

    def values(self, panel: Panel) -> tuple[list[float], str]:
        here, there = (self.of(self.series).found(one)[0] for one in self._both(panel))
        return [own - other for own, other in zip(here, there, strict=True)], ""

    def required(self, panel: Panel) -> list[list[float]]:
        return [self.of(self.series).found(panel)[0], *super().required(panel)]

    def _both(self, panel: Panel) -> tuple[Panel, Panel]:
        return panel, panel.beside(self.than)

    def against(self, measure: Measure) -> str:
        return f"{self.series}'s lead over {self.baseline}, where there is one, is held against that of {self.than}"

    def sides(self, panel: Panel) -> tuple[str, str, str]:
        lead = f"the lead of {self.series} over {self.baseline}"
        none = f"{self.series} is behind {self.baseline} in {panel.key}, or farther ahead in {self.than}"
        unsure = "the interval of the lead, or that of the difference of the leads, contains zero"
        return none, unsure, f"{lead} is larger in {panel.key} than in {self.than}"
