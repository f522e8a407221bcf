"""Table of any quantities: a row for each panel and series, a column for each quantity."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedrepro.report import quantities
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, mean_cell
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row

DIGITS = 2  # of a number whose unit does not say


class Table(base.Table):
    """Quantities by series. `quantities`: the title of a column -> settings of a quantity, without `series`."""

    quantities: dict[str, dict[str, Any]]

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for title, settings in self.quantities.items():
            where = f"{checker.file}: {checker.key}.quantities.{title}"
            for ref in self.panels:
                for label in checker.experiments[ref.experiment].get("series", {}):
                    quantity = quantities.parse_quantity({"series": label} | settings, where)
                    quantity.check(checker.at("quantities", title), ref)

    def sources(self, figures: Mapping[str, Any]) -> list[str]:
        studies = [None, *(self._quantity(title, "").study_name for title in self.quantities)]
        return list(dict.fromkeys(results_name(ref.experiment, study) for study in studies for ref in self.panels))

    @property
    def experiments(self) -> list[str]:
        return list(dict.fromkeys(ref.experiment for ref in self.panels))

    def _quantity(self, title: str, label: str) -> Quantity:
        return quantities.parse_quantity({"series": label} | self.quantities[title], f"quantities.{title}")

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        refs = {ref.resolved(evidence.experiments).name or ref.key: ref for ref in self.panels}
        return [
            {"Panel": panel.name, "Series": label}
            | dict(self._cell(panel, refs[panel.name], label, title, evidence) for title in self.quantities)
            for panel in panels
            for label in panel.results.labels
        ]

    def _cell(
        self, panel: ExperimentView, ref: ExperimentRef, label: str, title: str, evidence: PaperData
    ) -> tuple[str, Number]:
        """Return the title of a column with its unit, and the mean over seeds; no number if there is none."""
        quantity = self._quantity(title, label)
        view = replace(panel, results=evidence.results[results_name(ref.experiment, quantity.study_name)])
        values, unit = [] if view.missing_reason else quantity.evaluate(view)[0], quantity.unit(panel.measure)
        digits = DIGITS if unit.digits is None else unit.digits
        name = unit.difference_name if unit.signed else unit.name
        return f"{title} ({name})", mean_cell({place: unit.factor * value for place, value in enumerate(values)}, digits)

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        sentences = []
        for title in self.quantities:
            quantity = self._quantity(title, panels[0].results.labels[0])
            sentences.append(f"{title}: {quantity.label(panels[0].measure).rpartition(' (')[0]}")
            sentences += filter(None, [quantity.description(panels[0].measure)])
        return sentences
