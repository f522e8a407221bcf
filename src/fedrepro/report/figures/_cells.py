"""What figures share whose numbers are cells: one kind of cell, computed of every series of some experiments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedrepro.report import quantities
from fedrepro.report.figures import base
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData, source
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import format_target
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.reasons import reasons_sentence
from fedrepro.report.statistics import Estimate, estimate
from fedrepro.report.tables.base import Refs
from fedrepro.runs.reasons import MissingKind, MissingReason


class QuantityFigure(base.Figure):
    """`cell` without the series; without a target where it needs one, the experiment's at the scale counts."""

    panels: Refs
    quantity: dict[str, Any]

    def of(self, label: str, target: float | None, where: str = "quantity") -> Quantity:
        """The cell of a series."""
        own = {"series": label} if target is None or not self._aims else {"series": label, "target": target}
        return quantities.parse_quantity(own | self.quantity, where)

    def check(self, known: ReferenceChecker) -> None:
        where = f"{known.file}: {known.key}.quantity"
        quantities.quantity_class(self.quantity.get("kind"), where)
        for ref in self.panels:
            known.at("panels").check_experiment(ref.experiment)
            target = next(iter(ref.resolved(known.shown).target.values()), None)
            for label in known.experiments[ref.experiment].get("series", {}):
                self.of(label, target, where).check(known.at("quantity"), ref)

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(dict.fromkeys(ref.experiment for ref in self.panels))

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        names = [source(name, self._study) for name in self.experiments(figures)]
        return list(dict.fromkeys([*self.experiments(figures), *names]))

    @property
    def settings(self) -> list[str]:
        """Those of a series that it is drawn over."""
        return []

    @property
    def _study(self) -> str | None:
        return quantities.quantity_class(self.quantity.get("kind"), "quantity").study

    @property
    def _aims(self) -> bool:
        """Whether it is about the experiment's target."""
        fields = quantities.quantity_class(self.quantity.get("kind"), "quantity").model_fields
        return "target" in fields and "target" not in self.quantity

    def _absent(self, evidence: PaperData, ref: ExperimentRef) -> MissingReason | None:
        """Why an experiment is not shown."""
        reason = evidence.results[source(ref.experiment, self._study)].skipped
        return reason or (MissingReason(MissingKind.NO_TARGET) if self._aims and evidence.panel(ref).target is None else None)

    def value(self, panel: ExperimentView, label: str) -> Estimate | None:
        """Mean and standard deviation over seeds on the axis; None where there is no number."""
        values = self._drawn(panel, label)
        return estimate(values) if values else None

    def _drawn(self, panel: ExperimentView, label: str) -> list[float]:
        cell = self.of(label, panel.target)
        return [cell.unit(panel.measure).factor * value for value in cell.evaluate(panel)[0] or ()]

    def numbers(self, evidence: PaperData) -> list[list]:
        rows: list[list] = [["experiment", "series", *self.settings, "mean", "sd", "seeds"]]
        for panel in self.shown(evidence):
            for label in panel.results.labels:
                at = [panel.setting(label, setting) for setting in self.settings]
                values = self._drawn(panel, label)
                rows.append([panel.name, label, *at, *(base.spread(values) if values else ("", "", 0))])
        return rows

    def shown(self, evidence: PaperData) -> list[ExperimentView]:
        """The panels that were run, of the results that the cell reads."""
        refs = [ref for ref in self.panels if not self._absent(evidence, ref)]
        return [replace(evidence.panel(ref), results=evidence.results[source(ref.experiment, self._study)]) for ref in refs]

    def axis(self, evidence: PaperData) -> str:
        panel = evidence.panel(self.panels[0])
        return self.of("", panel.target or 0).label(panel.measure)

    def skipped(self, evidence: PaperData) -> MissingReason | None:
        reasons = [self._absent(evidence, ref) for ref in self.panels]
        return None if None in reasons else reasons[0]

    def first(self, evidence: PaperData) -> Results:
        return self.shown(evidence)[0].results

    def explanations(self, evidence: PaperData) -> list[str]:
        """Seeds, targets, data, what was not run, and which series have no number."""
        panels = self.shown(evidence)
        results = [panel.results for panel in panels]
        about = filter(None, [self.of("", 0).description(evidence.panel(self.panels[0]).measure)])
        text = [*about, base.seeds_sentence(results, "whisker"), *base.training_sentences(results)]
        if self._aims:
            targets = [f"{format_target(panel.measure, panel.target)} ({panel.name})" for panel in panels]
            text.append(f"Target at this scale: {', '.join(targets)}.")
        text += base.not_shown_sentences(
            {evidence.panel(ref).name: reason for ref in self.panels if (reason := self._absent(evidence, ref))}
        )
        for panel in panels:
            reasons = {label: self.of(label, panel.target).evaluate(panel)[1] for label in panel.results.labels}
            text += [f"No number of {label} ({panel.name}): {reasons_sentence(own)}." for label, own in reasons.items() if own]
        return [*text, base.data_sentence(results)]
