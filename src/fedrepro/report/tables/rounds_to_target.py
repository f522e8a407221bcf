"""Table of rounds until each target, and of the saving against a baseline: one row for each panel, target and series."""

from typing import Annotated

from pydantic import Field, FiniteFloat

from fedrepro.config.types import Count
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, column_title, measure_cell, megabytes_per_round, significant_cell
from fedrepro.report.statistics import mean, mean_last
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row, mark_best

FINAL_ROUNDS = 5  # whose mean is the final accuracy
PAPER_ROUNDS, PAPER_SAVING_COLUMN = "Paper's rounds", "Paper's saving (%)"


class Table(base.TargetTable):
    """Rounds until each target. `reported`: rounds that the paper prints, series -> [rounds, ...], one for each target of the
    fully compared scale; if empty, the first crossing of the paper's plotted curve is shown. `savings`: for a paper that
    reports only ratios, series -> {panel: share of the baseline's rounds that is saved}; `savings_from` says where it reports
    them."""

    reported: dict[str, Annotated[tuple[Count, ...], Field(min_length=1)]] = {}
    savings: dict[str, dict[str, FiniteFloat]] = {}
    savings_from: str = ""

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        if self.reported and len(self.panels) != 1:
            checker.at("reported").fail("numbers of rounds need a table of one panel")
        for label, values in self.reported.items():
            display = checker.at("reported").check_ref(self.panels[0], [label])
            for scale in checker.compared_scales:
                targets = len(self.targets.get(scale, [scale] if scale in display.target else []))
                if targets not in (0, len(values)):  # the user's own scale may have no targets
                    checker.at("reported", label).fail(f"needs one number for each target at scale {scale}")
        if self.reported and self.savings:
            checker.at("savings").fail("follow from the reported rounds: give one of them")
        panels = {ref.key: ref for ref in self.panels}
        for label, values in self.savings.items():
            checker.at("savings").check_names("panel of this table", values, panels)
            for key in values:
                checker.at("savings").check_experiment(panels[key].experiment, [label])
        if bool(self.savings) != bool(self.savings_from):
            checker.at("savings_from").fail("savings and savings_from need each other: give both or neither")

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        rows: list[Row] = []
        for panel in panels:
            diverged, is_loss = base.diverged_series(panel), panel.sign < 0
            for index, target in enumerate(self.targets_at(panel)):
                group = [self._row(panel, label, index, target, evidence) for label in panel.results.labels]
                for column in ("Rounds", self._smoothed_column):
                    mark_best(group, column, lowest=True, excluded=diverged)
                mark_best(group, column_title("Final", panel.measure), lowest=is_loss, excluded=diverged)
                rows += group
        return rows

    def paper_savings(self, ref: ExperimentRef) -> dict[str, float]:
        savings = {label: shares[ref.key] for label, shares in self.savings.items() if ref.key in shares}
        return {self.baseline: 0.0} | savings if savings else {}

    def reported_columns(self, panels: list[ExperimentView]) -> dict[str, str]:
        return {PAPER_ROUNDS: "Rounds", PAPER_SAVING_COLUMN: self._saving_column}

    @property
    def _saving_column(self) -> str:
        return f"Saved vs {self.baseline} (%)"

    @property
    def _smoothed_column(self) -> str:
        return f"Rounds, mean of {self.smooth}"

    def _row(self, panel: ExperimentView, label: str, index: int, target: float, evidence: PaperData) -> Row:
        row: Row = {"Panel": panel.name, "Series": label, **base.target_cell(panel, target)}
        row["Rounds"] = base.rounds_cell(panel, label, target, 1)
        if self.smooth > 1:
            row[self._smoothed_column] = base.rounds_cell(panel, label, target, self.smooth)
        row[self._saving_column] = base.saved_cell(panel, label, self.baseline, target)
        if panel.comparable:
            row |= self._paper_cells(panel, label, index, target, evidence)
        final = {seed: mean_last(curve, FINAL_ROUNDS) for seed, curve in panel.curves(label).items()}
        row[column_title("Final", panel.measure)] = measure_cell(panel.measure, final)
        megabytes = mean([megabytes_per_round(run) for run in panel.results.runs(label)])
        return row | {"MB per round": significant_cell(megabytes, 3)}

    def _paper_cells(self, panel: ExperimentView, label: str, index: int, target: float, evidence: PaperData) -> Row:
        """Return the columns of the paper's rounds and saving, as far as the paper reports them."""
        if self.reported:
            return self._reported_cells(label, index)
        if self.savings:
            saving = self.savings.get(label, {}).get(panel.key)
            return {PAPER_SAVING_COLUMN: Number() if saving is None else Number(100 * saving, 1)}
        return _plotted_cells(panel, label, target, evidence)

    def _reported_cells(self, label: str, index: int) -> Row:
        """Return the rounds that the paper prints, and the saving that follows from them."""
        reported = {name: values[index] for name, values in self.reported.items()}
        rounds, baseline = reported.get(label), reported.get(self.baseline)
        saving = Number()
        if label != self.baseline and rounds is not None and baseline is not None:
            saving = Number(100 * (1 - rounds / baseline), 1)
        return {PAPER_ROUNDS: Number() if rounds is None else Number(rounds), PAPER_SAVING_COLUMN: saving}

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        parts = [f"Rounds: the first round in which {base.measures_phrase(panels)} reaches the target"]
        parts += base.received_sentence(panels)
        saved = f"Saved: 1 \N{MINUS SIGN} rounds / rounds of {self.baseline}, seed by seed"
        if self.smooth > 1:
            parts[0] += f", or in which its mean over the last {self.smooth} measured rounds does (mean of {self.smooth})"
            saved += ", from values of single rounds"
        parts.append(saved)
        if panels[0].comparable and self.savings:
            parts.append(f"In grey, the paper's saving: {self.savings_from}")
        elif panels[0].comparable:
            origin = "as printed" if self.reported else "where its curve first reaches the target"
            parts.append(f"In grey, the paper's rounds, {origin}")
        columns = [column_title("Final", panel.measure).rpartition(" (")[0] for panel in panels]
        parts += [f"{column}: mean of the last {FINAL_ROUNDS} rounds" for column in dict.fromkeys(columns)]
        parts.append("MB per round: millions of bytes that all participants of a round receive and send")
        return [*parts, *base.no_target_sentence(panels, {panel.name: self.targets_at(panel) for panel in panels})]


def _plotted_cells(panel: ExperimentView, label: str, target: float, evidence: PaperData) -> Row:
    """Return the column of rounds until the paper's plotted curve reaches the target."""
    if label not in panel.display.reported:
        return {PAPER_ROUNDS: Number()}
    rounds = panel.rounds_to(evidence.curves[panel.display.reported[label]], target)
    return {PAPER_ROUNDS: Number(placeholder="never") if rounds is None else Number(rounds)}
