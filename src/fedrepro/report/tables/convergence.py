"""Table of final values: the mean of the last rounds by series and panel, next to the value that the paper reports."""

from dataclasses import replace

from fedrepro.config.types import Count, NonNegative
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, difference_unit_name, display_factor, measure_cell, measure_unit_name
from fedrepro.report.statistics import mean, mean_last
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row, mark_best


class Table(base.Table):
    """Final values. `reported`: values that the paper prints, series -> {panel: value}, 0..1 or nats for a loss; `deviations`:
    their standard deviations over seeds. `improvement`: the series for which a last row shows the difference to the best other
    series. `baseline`: the series that is subtracted from the others, seed by seed."""

    last: Count
    reported: dict[str, dict[str, NonNegative]] = {}
    deviations: dict[str, dict[str, NonNegative]] = {}
    improvement: str | None = None
    baseline: str | None = None
    series_settings = ("improvement", "baseline")
    best_among = "of its set-up"

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        panels = {ref.key: ref for ref in self.panels}
        for label, values in self.reported.items():
            checker.at("reported").check_names("panel of this table", values, panels)
            for key, value in values.items():
                shown = checker.at("reported").check_ref(panels[key], [label])
                checker.at("reported", label, key).check_values(shown.measure, [value])
        for label, values in self.deviations.items():
            checker.at("deviations").check_names("value that is reported", values, self.reported.get(label, {}))
            for key, value in values.items():
                checker.at("deviations", label, key).check_values(checker.check_ref(panels[key], [label]).measure, [value])

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        """Return the rows of panels that have results, with the paper's values at scales that are compared at all."""
        rows: dict[str, Row] = {label: {"Series": label} for panel in panels for label in panel.results.labels}
        for panel in panels:
            reported, is_loss = self._reported(panel), panel.sign < 0
            ours, theirs = self._column(panel), _paper_column(panel)
            for label, row in rows.items():
                row[ours] = self._final(panel, label)
                if reported and _is_shown(panel):
                    cell = _reported_cell(panel, reported.get(label))
                    deviation = self.deviations.get(label, {}).get(panel.key)
                    if deviation is not None:
                        cell = replace(cell, half_width=display_factor(panel.measure) * deviation)
                    row[theirs] = cell
            mark_best(list(rows.values()), ours, is_loss, base.diverged_series(panel))
        return [*rows.values(), *([self._improvements(panels, self.improvement)] if self.improvement and panels else [])]

    def _column(self, panel: ExperimentView) -> str:
        if self.baseline:
            return f"{panel.name}, above {self.baseline} ({difference_unit_name(panel.measure)})"
        return f"{panel.name} ({measure_unit_name(panel.measure)})"

    def paper_ends(self, ref: ExperimentRef) -> dict[str, float]:
        return {} if self.baseline else {label: values[ref.key] for label, values in self.reported.items() if ref.key in values}

    def reported_columns(self, panels: list[ExperimentView]) -> dict[str, str]:
        return {_paper_column(panel): self._column(panel) for panel in panels}

    def _reported(self, panel: ExperimentView) -> dict[str, float]:
        """Return the values that the paper prints for a panel, by series, or their differences from the baseline's."""
        values = {label: values[panel.key] for label, values in self.reported.items() if panel.key in values}
        if not self.baseline:
            return values
        baseline = values.pop(self.baseline, None)
        return {label: value - baseline for label, value in values.items()} if baseline is not None else {}

    def _final(self, panel: ExperimentView, label: str) -> Number:
        values = self._final_values(panel, label)
        if not self.baseline:
            return measure_cell(panel.measure, values)
        if label in (self.baseline, *base.diverged_series(panel)):
            return _difference_cell(panel, {})
        baseline = self._final_values(panel, self.baseline)
        return _difference_cell(panel, {seed: value - baseline[seed] for seed, value in values.items() if seed in baseline})

    def _final_values(self, panel: ExperimentView, label: str) -> dict[int, float]:
        """Return seed -> mean of the last rounds; for a shorter run, of all rounds after the untrained model."""
        curves = panel.curves(label) if label in panel.results.labels else {}
        return {seed: mean_last(curve, min(self.last, curve[-1][0])) for seed, curve in curves.items()}

    @property
    def _improvement_name(self) -> str:
        return f"{self.improvement} above the best other"

    def _improvements(self, panels: list[ExperimentView], improvement: str) -> Row:
        """Return the row of differences, seed by seed, to the other series with the best mean."""
        row: Row = {"Series": self._improvement_name}
        for panel in panels:
            best, diverged = min if panel.sign < 0 else max, base.diverged_series(panel)
            labels = [label for label in panel.results.labels if label not in diverged]
            values_by_series = {label: self._final_values(panel, label) for label in labels}
            values = values_by_series.pop(improvement, {})
            others = [other for other in values_by_series.values() if other.keys() == values.keys()]
            rival = best(others, key=lambda other: mean(list(other.values())), default={}) if values else {}
            differences = {seed: values[seed] - value for seed, value in rival.items()}
            row[self._column(panel)] = _difference_cell(panel, differences)
            reported = self._reported(panel)
            if _is_shown(panel) and improvement in reported and len(reported) > 1:
                value = reported.pop(improvement)
                row[_paper_column(panel)] = _reported_cell(panel, value - best(reported.values()), signed=True)
        return row

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        parts = [f"Mean of the last {'round' if self.last == 1 else f'{self.last} rounds'}: {base.measures_phrase(panels)}"]
        if intervals := sorted({panel.results.note["training"]["evaluate_every"] for panel in panels} - {1}):
            parts.append(f"Tested every {' or '.join(map(str, intervals))} rounds")
        if self.improvement:
            parts.append(f"{self._improvement_name}: the other series with the best mean, compared seed by seed")
        if shown := [panel for panel in panels if _is_shown(panel) and self._reported(panel)]:
            printed = any(panel.key in values for panel in shown for values in self.deviations.values())
            deviations = ", ± their standard deviation" if printed else ""
            caution = "" if shown[0].comparable else "; they are of its own settings, so that only directions can be compared"
            parts.append(f"In grey, the paper's values{deviations}{caution}")
        for panel in panels:
            lengths = _shortest_runs(panel).items()
            parts += [f"{name} has only {rounds} rounds, all of which count" for name, rounds in lengths if rounds < self.last]
        return parts


def _is_shown(panel: ExperimentView) -> bool:
    """Return whether the paper's values are shown beside ours, if only to compare directions."""
    return panel.results.compare != "none"


def _paper_column(panel: ExperimentView) -> str:
    return f"{panel.name}, paper ({measure_unit_name(panel.measure)})"


def _difference_cell(panel: ExperimentView, values: dict[int, float]) -> Number:
    return replace(measure_cell(panel.measure, values), signed=True)


def _reported_cell(panel: ExperimentView, value: float | None, signed: bool = False) -> Number:
    cell = measure_cell(panel.measure, {} if value is None else {0: value})
    return Number(cell.value, cell.digits, signed=signed)


def _shortest_runs(panel: ExperimentView) -> dict[str, int]:
    """Return the last round of the shortest finished run, by panel, or by series if their runs differ in length."""
    curves = {label: panel.curves(label).values() for label in panel.results.labels}
    lengths = {label: min(curve[-1][0] for curve in seeds) for label, seeds in curves.items() if seeds}
    if len(set(lengths.values())) == 1:
        return {panel.name: next(iter(lengths.values()))}
    return {f"{panel.name}, {label}": rounds for label, rounds in lengths.items()}
