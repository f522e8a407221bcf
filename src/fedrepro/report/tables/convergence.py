"""Series by panels: the mean of the last rounds, beside it what the paper reports."""

from dataclasses import replace

from fedrepro.config.types import Count, NonNegative
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, difference_unit_name, display_factor, measure_cell, measure_unit_name
from fedrepro.report.statistics import mean, mean_last
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row, mark_best


class Table(base.Table):
    """`reported`: what the paper's table prints, series -> {panel: value}, 0..1, of a loss in nats, and `deviations` the
    standard deviations over seeds that it prints beside. `improvement`: the series whose distance from the best of the others
    is a row of its own. `baseline`: the series above which the others' values are told, seed by seed."""

    last: Count
    reported: dict[str, dict[str, NonNegative]] = {}
    deviations: dict[str, dict[str, NonNegative]] = {}
    improvement: str | None = None
    baseline: str | None = None
    series_settings = ("improvement", "baseline")
    best_among = "of its column"

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
        """What the paper reports stands there only where ours is held against it."""
        rows: dict[str, Row] = {label: {"Series": label} for panel in panels for label in panel.results.labels}
        for panel in panels:
            told = {label: values[panel.key] for label, values in self.reported.items() if panel.key in values}
            title, loss = measure_unit_name(panel.measure), panel.sign < 0
            ours, theirs = f"{panel.name} ({title})", f"{panel.name}, paper ({title})"
            if self.baseline:
                ours = f"{panel.name}, above {self.baseline} ({difference_unit_name(panel.measure)})"
            for label, row in rows.items():
                row[ours] = self._final(panel, label)
                if told and panel.comparable:
                    printed = _printed(panel, [told[label]] if label in told else [])
                    spread = self.deviations.get(label, {}).get(panel.key)
                    row[theirs] = (
                        printed if spread is None else replace(printed, half_width=display_factor(panel.measure) * spread)
                    )
            mark_best(list(rows.values()), ours, loss, base.diverged_series(panel))
            mark_best(list(rows.values()), theirs, loss)
        return [*rows.values(), *([self._improvements(panels)] if self.improvement and panels else [])]

    def _final(self, panel: ExperimentView, label: str) -> Number:
        ends = self._ends(panel, label)
        if not self.baseline:
            return measure_cell(panel.measure, list(ends.values()))
        usual = self._ends(panel, self.baseline) if label not in (self.baseline, *base.diverged_series(panel)) else {}
        return _signed(panel, [value - usual[seed] for seed, value in ends.items() if seed in usual])

    def _ends(self, panel: ExperimentView, label: str) -> dict[int, float]:
        """Seed -> value. A run that is shorter gives the mean of its rounds, without the untrained model."""
        curves = panel.curves(label) if label in panel.results.labels else {}
        return {seed: mean_last(curve, min(self.last, curve[-1][0])) for seed, curve in curves.items()}

    def _improvements(self, panels: list[ExperimentView]) -> Row:
        """The row of differences, seed by seed, from the series with the best mean among the others."""
        row: Row = {"Series": f"{self.improvement} above the best other"}
        for panel in panels:
            title, best = measure_unit_name(panel.measure), min if panel.sign < 0 else max
            ends = {
                label: self._ends(panel, label) for label in panel.results.labels if label not in base.diverged_series(panel)
            }
            own = ends.pop(self.improvement, {})
            others = [values for values in ends.values() if values.keys() == own.keys()]
            rival = best(others, key=lambda values: mean(list(values.values())), default={}) if own else {}
            row[f"{panel.name} ({title})"] = _signed(panel, [own[seed] - value for seed, value in rival.items()])
            told = {label: values[panel.key] for label, values in self.reported.items() if panel.key in values}
            if panel.comparable and self.improvement in told and len(told) > 1:
                value = told.pop(self.improvement)
                row[f"{panel.name}, paper ({title})"] = _printed(panel, [value - best(told.values())], signed=True)
        return row

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        parts = [f"Mean of the last {'round' if self.last == 1 else f'{self.last} rounds'}: {base.measures_sentence(panels)}"]
        if skipping := sorted({panel.results.note["training"]["evaluate_every"] for panel in panels} - {1}):
            parts.append(f"Tested every {' or '.join(map(str, skipping))} rounds")
        if self.improvement:
            parts.append(f"The last row: {self.improvement} against the series with the best mean, seed by seed")
        if any(panel.comparable and panel.key in values for panel in panels for values in self.deviations.values()):
            parts.append("In the paper's columns ± is its standard deviation")
        short = [(name, end) for panel in panels for name, end in _shortest(panel) if end < self.last]
        return parts + [f"{name} has {end} rounds only, all of which count" for name, end in short]


def _signed(panel: ExperimentView, values: list[float]) -> Number:
    return replace(measure_cell(panel.measure, values), signed=True)


def _printed(panel: ExperimentView, values: list[float], signed: bool = False) -> Number:
    found = measure_cell(panel.measure, values)
    return Number(found.value, found.digits, signed=signed)


def _shortest(panel: ExperimentView) -> list[tuple[str, int]]:
    """The last round of its shortest finished run, by the panel's name; by each series' where they differ."""
    curves = {label: panel.curves(label).values() for label in panel.results.labels}
    ends = {label: min(curve[-1][0] for curve in found) for label, found in curves.items() if found}
    if len(set(ends.values())) < 2:
        return [(panel.name, end) for end in set(ends.values())]
    return [(f"{panel.name}, {label}", end) for label, end in ends.items()]
