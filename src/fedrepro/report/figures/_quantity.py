"""Base class of figures that show one quantity for every series of some experiments."""

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
    """A figure of one quantity. `quantity`: its settings without `series`; a target that it needs is by default the
    experiment's target at the scale."""

    panels: PanelRefs
    quantity: dict[str, Any]

    def quantity_of(self, label: str, target: float | None, where: str = "quantity") -> Quantity:
        """Return the quantity of a series; `where` is the key that errors name."""
        values: dict[str, Any] = {"series": label}
        if target is not None and self._needs_target:
            values["target"] = target
        return quantities.parse_quantity(values | self.quantity, where)

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
        names = [results_name(name, self.quantity_of("", 0).study_name) for name in self.experiments(figures)]
        return list(dict.fromkeys([*self.experiments(figures), *names]))

    @property
    def setting_columns(self) -> list[str]:
        """Return the settings of a series that are columns of the .csv."""
        return []

    @property
    def _quantity_class(self) -> type[Quantity]:
        return quantities.quantity_class(self.quantity.get("kind"), "quantity")

    @property
    def _needs_target(self) -> bool:
        return "target" in self._quantity_class.model_fields and "target" not in self.quantity

    def _results(self, evidence: PaperData, ref: ExperimentRef) -> Results:
        """Return the results that the quantity is computed from: the experiment's or its study's."""
        return evidence.results[results_name(ref.experiment, self.quantity_of("", 0).study_name)]

    def _panel_missing_reason(self, evidence: PaperData, ref: ExperimentRef) -> MissingReason | None:
        reason = self._results(evidence, ref).missing_reason
        if reason is None and self._needs_target and evidence.panel(ref).target is None:
            return MissingReason(MissingKind.NO_TARGET)
        return reason

    def mean_over_seeds(self, panel: ExperimentView, label: str) -> Estimate | None:
        """Return the mean over seeds with its interval in the unit of the axis; None without a number."""
        values = self._axis_values(panel, label)
        return estimate(values) if values else None

    def _axis_values(self, panel: ExperimentView, label: str) -> list[float]:
        quantity = self.quantity_of(label, panel.target)
        values, _ = quantity.evaluate(panel)
        return [quantity.unit(panel.measure).factor * value for value in values]

    def csv_rows(self, evidence: PaperData) -> list[list]:
        rows: list[list] = [["experiment", "series", *self.setting_columns, *base.SPREAD_COLUMNS]]
        for panel in self.available_panels(evidence):
            for label in panel.results.labels:
                settings = [panel.setting(label, setting) for setting in self.setting_columns]
                values = self._axis_values(panel, label)
                rows.append([panel.name, label, *settings, *(base.csv_spread(values) if values else ("", "", 0))])
        return rows

    def available_panels(self, evidence: PaperData) -> list[ExperimentView]:
        """Return the panels that can be shown, with the results that the quantity is computed from."""
        refs = [ref for ref in self.panels if not self._panel_missing_reason(evidence, ref)]
        return [replace(evidence.panel(ref), results=self._results(evidence, ref)) for ref in refs]

    def axis_label(self, evidence: PaperData) -> str:
        panel = evidence.panel(self.panels[0])
        return self.quantity_of("", panel.target or 0).label(panel.measure)

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        reasons = [self._panel_missing_reason(evidence, ref) for ref in self.panels]
        return None if None in reasons else reasons[0]

    def first_results(self, evidence: PaperData) -> Results:
        return self.available_panels(evidence)[0].results

    def explanations(self, evidence: PaperData) -> list[str]:
        """Return sentences on the quantity, seeds, training, targets, panels that are not shown and series without a number."""
        panels = self.available_panels(evidence)
        results = [panel.results for panel in panels]
        description = self.quantity_of("", 0).description(evidence.panel(self.panels[0]).measure)
        sentences = [description] if description else []
        sentences += [base.seeds_sentence(results, "whisker"), *base.training_sentences(results)]
        if self._needs_target:
            targets = {panel.name: format_target(panel.measure, panel.target) for panel in panels if panel.target is not None}
            texts = [f"{target} ({name})" for name, target in targets.items()]
            sentences.append(f"Target at this scale: {', '.join(texts)}.")
        sentences += base.not_shown_sentences(
            {evidence.panel(ref).name: self._panel_missing_reason(evidence, ref) for ref in self.panels}
        )
        for panel in panels:
            for label in panel.results.labels:
                _, reasons = self.quantity_of(label, panel.target).evaluate(panel)
                if reasons:
                    sentences.append(f"No number for {label} ({panel.name}): {reasons_sentence(reasons)}.")
        return [*sentences, base.data_sentence(results)]
