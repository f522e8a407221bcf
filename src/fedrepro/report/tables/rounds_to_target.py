"""Rounds until each target, and the saving against a baseline: one row for each panel, target and series."""

from typing import Annotated

from pydantic import Field, FiniteFloat

from fedrepro.config.types import Count
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, column_title, measure_cell, megabytes_per_round, significant_cell
from fedrepro.report.statistics import mean, mean_last
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row, mark_best

FINAL = 5  # rounds whose mean is the final accuracy
PRINTED, SAVING = "Paper's rounds", "Paper's saving"
FOLLOWS = f"{SAVING} (%)"


class Table(base.TargetTable):
    """`reported`: what the paper's table prints of a series, [rounds, ...], one number for each target of the scale that is
    compared in full; where nothing is, the first crossing of its curve stands there. `savings`: where the paper tells ratios
    alone, what they save, series -> {panel: share of the baseline's rounds}; `savings_from` says where."""

    reported: dict[str, Annotated[tuple[Count, ...], Field(min_length=1)]] = {}
    savings: dict[str, dict[str, FiniteFloat]] = {}
    savings_from: str = ""

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        if self.reported and len(self.panels) != 1:
            checker.at("reported").fail("numbers of rounds need a table of one panel")
        for label, values in self.reported.items():
            shown = checker.at("reported").check_ref(self.panels[0], [label])
            for scale in checker.compared_scales:
                asked = len(self.targets.get(scale, [scale] if scale in shown.target else []))
                if asked not in (0, len(values)):  # a scale of one's own may have none
                    checker.at("reported", label).fail(f"needs one number for each target at scale {scale}")
        if self.reported and self.savings:
            checker.at("savings").fail("follow from the reported rounds: give one of them")
        panels = {ref.key: ref for ref in self.panels}
        for label, values in self.savings.items():
            checker.at("savings").check_names("panel of this table", values, panels)
            for key in values:
                checker.at("savings").check_experiment(panels[key].experiment, [label])
        if bool(self.savings) != bool(self.savings_from):
            checker.at("savings_from").fail("what the paper tells of savings and where it does go together")

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        found: list[Row] = []
        for panel in panels:
            for index, target in enumerate(self.targets_at(panel)):
                group = [self._row(panel, label, index, target, evidence) for label in panel.results.labels]
                gone, loss = base.diverged_series(panel), panel.sign < 0
                for name in ("Rounds", self._smoothed):
                    mark_best(group, name, lowest=True, excluded=gone)
                mark_best(group, column_title("Final", panel.measure), lowest=loss, excluded=gone)
                mark_best(group, PRINTED, lowest=True)
                found += group
        return found

    @property
    def _smoothed(self) -> str:
        return f"Rounds, mean of {self.smooth}"

    def _row(self, panel: ExperimentView, label: str, index: int, target: float, evidence: PaperData) -> Row:
        row: Row = {"Panel": panel.name, "Series": label, **base.target_cell(panel, target)}
        row["Rounds"] = base.rounds_cell(panel, label, target, 1)
        if self.smooth > 1:
            row[self._smoothed] = base.rounds_cell(panel, label, target, self.smooth)
        row[f"Saved vs {self.baseline} (%)"] = base.saved_cell(panel, label, self.baseline, target)
        if panel.comparable:
            row |= self._papers(panel, label, index, target, evidence)
        row[column_title("Final", panel.measure)] = measure_cell(
            panel.measure, [mean_last(curve, FINAL) for curve in panel.curves(label).values()]
        )
        return row | {
            "MB per round": significant_cell(mean([megabytes_per_round(run) for run in panel.results.runs(label)]), 3)
        }

    def _papers(self, panel: ExperimentView, label: str, index: int, target: float, evidence: PaperData) -> Row:
        """What the paper has of it."""
        if self.reported:
            return self._printed(label, index)
        if self.savings:
            saved = self.savings.get(label, {}).get(panel.key)
            return {FOLLOWS: Number() if saved is None else Number(100 * saved, 1)}
        return _plotted(panel, label, target, evidence)

    def _printed(self, label: str, index: int) -> Row:
        """What the paper's table says, and the saving that follows from it."""
        told = {name: values[index] for name, values in self.reported.items()}
        pair = (told.get(label), told.get(self.baseline))
        known = label != self.baseline and None not in pair
        return {
            PRINTED: Number(told[label]) if label in told else Number(),
            FOLLOWS: Number(100 * (1 - pair[0] / pair[1]), 1) if known else Number(),
        }

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        smooth = f", or in which its mean with the {self.smooth - 1} measured before does" if self.smooth > 1 else ""
        parts = [f"Rounds: the first in which {base.measures_sentence(panels)} reaches the target{smooth}"]
        parts += base.received_sentence(panels)
        single = ", of single rounds" if self.smooth > 1 else ""
        parts.append(f"Saved: 1 - rounds / rounds of {self.baseline}{single}, seed by seed")
        if panels[0].comparable and self.savings:
            parts.append(f"{SAVING}: {self.savings_from}")
        elif panels[0].comparable:
            parts.append(f"{PRINTED}: " + ("as it prints them" if self.reported else "the first crossing of its curve"))
        parts += [f"{name}: mean of the last {FINAL} rounds" for name in dict.fromkeys(_final(panel) for panel in panels)]
        parts.append("MB: millions of bytes, down and up, of all participants of a round")
        return [*parts, *base.no_target_sentence(panels, {panel.name: self.targets_at(panel) for panel in panels})]


def _final(panel: ExperimentView) -> str:
    return column_title("Final", panel.measure).rpartition(" (")[0]


def _plotted(panel: ExperimentView, label: str, target: float, evidence: PaperData) -> Row:
    """From the paper's curve."""
    if label not in panel.display.reported:
        return {PRINTED: Number()}
    round = panel.rounds_to(evidence.curves[panel.display.reported[label]], target)
    return {PRINTED: Number(placeholder="never") if round is None else Number(round)}
