"""What figures share whose numbers are cells: one kind of cell, computed of every series of some experiments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedrepro.report import quantities
from fedrepro.report.figures import base
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import format_target
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.reasons import reasons_sentence
from fedrepro.report.statistics import Estimate, estimate
from fedrepro.report.tables.base import PanelRefs
from fedrepro.runs.reasons import MissingKind, MissingReason


class QuantityFigure(base.Figure):
    """`cell` without the series; without a target where it needs one, the experiment's at the scale counts."""

    panels: PanelRefs
    quantity: dict[str, Any]

    def quantity_of(self, label: str, target: float | None, where: str = "quantity") -> Quantity:
        """The cell of a series."""
        own = {"series": label} if target is None or not self._needs_target else {"series": label, "target": target}
        return quantities.parse_quantity(own | self.quantity, where)

    def check(self, checker: ReferenceChecker) -> None:
        where = f"{checker.file}: {checker.key}.quantity"
        quantities.quantity_class(self.quantity.get("kind"), where)
        for ref in self.panels:
            checker.at("panels").check_experiment(ref.experiment)
            target = next(iter(ref.resolved(checker.display_options).target.values()), None)
            for label in checker.experiments[ref.experiment].get("series", {}):
                self.quantity_of(label, target, where).check(checker.at("quantity"), ref)

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(dict.fromkeys(ref.experiment for ref in self.panels))

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        names = [results_name(name, self._study) for name in self.experiments(figures)]
        return list(dict.fromkeys([*self.experiments(figures), *names]))

    @property
    def setting_columns(self) -> list[str]:
        """Those of a series that it is drawn over."""
        return []

    @property
    def _study(self) -> str | None:
        return quantities.quantity_class(self.quantity.get("kind"), "quantity").study

    @property
    def _needs_target(self) -> bool:
        """Whether it is about the experiment's target."""
        fields = quantities.quantity_class(self.quantity.get("kind"), "quantity").model_fields
        return "target" in fields and "target" not in self.quantity

    def _panel_missing_reason(self, evidence: PaperData, ref: ExperimentRef) -> MissingReason | None:
        """Why an experiment is not shown."""
        reason = evidence.results[results_name(ref.experiment, self._study)].missing_reason
        if reason is None and self._needs_target and evidence.panel(ref).target is None:
            return MissingReason(MissingKind.NO_TARGET)
        return reason

    def mean_over_seeds(self, panel: ExperimentView, label: str) -> Estimate | None:
        """Mean and standard deviation over seeds on the axis; None where there is no number."""
        values = self._axis_values(panel, label)
        return estimate(values) if values else None

    def _axis_values(self, panel: ExperimentView, label: str) -> list[float]:
        cell = self.quantity_of(label, panel.target)
        return [cell.unit(panel.measure).factor * value for value in cell.evaluate(panel)[0] or ()]

    def csv_rows(self, evidence: PaperData) -> list[list]:
        rows: list[list] = [["experiment", "series", *self.setting_columns, "mean", "sd", "seeds"]]
        for panel in self.available_panels(evidence):
            for label in panel.results.labels:
                at = [panel.setting(label, setting) for setting in self.setting_columns]
                values = self._axis_values(panel, label)
                rows.append([panel.name, label, *at, *(base.csv_spread(values) if values else ("", "", 0))])
        return rows

    def available_panels(self, evidence: PaperData) -> list[ExperimentView]:
        """The panels that were run, of the results that the cell reads."""
        refs = [ref for ref in self.panels if not self._panel_missing_reason(evidence, ref)]
        return [
            replace(evidence.panel(ref), results=evidence.results[results_name(ref.experiment, self._study)]) for ref in refs
        ]

    def axis_label(self, evidence: PaperData) -> str:
        panel = evidence.panel(self.panels[0])
        return self.quantity_of("", panel.target or 0).label(panel.measure)

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        reasons = [self._panel_missing_reason(evidence, ref) for ref in self.panels]
        return None if None in reasons else reasons[0]

    def first_results(self, evidence: PaperData) -> Results:
        return self.available_panels(evidence)[0].results

    def explanations(self, evidence: PaperData) -> list[str]:
        """Seeds, targets, data, what was not run, and which series have no number."""
        panels = self.available_panels(evidence)
        results = [panel.results for panel in panels]
        about = filter(None, [self.quantity_of("", 0).description(evidence.panel(self.panels[0]).measure)])
        text = [*about, base.seeds_sentence(results, "whisker"), *base.training_sentences(results)]
        if self._needs_target:
            targets = [f"{format_target(panel.measure, panel.target)} ({panel.name})" for panel in panels]
            text.append(f"Target at this scale: {', '.join(targets)}.")
        text += base.not_shown_sentences(
            {evidence.panel(ref).name: reason for ref in self.panels if (reason := self._panel_missing_reason(evidence, ref))}
        )
        for panel in panels:
            reasons = {label: self.quantity_of(label, panel.target).evaluate(panel)[1] for label in panel.results.labels}
            text += [f"No number of {label} ({panel.name}): {reasons_sentence(own)}." for label, own in reasons.items() if own]
        return [*text, base.data_sentence(results)]
