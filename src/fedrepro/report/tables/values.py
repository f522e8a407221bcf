"""Tables of values: final ones, distances from the paper's curves, any quantities, mean ranks, and
tuned settings."""

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any, ClassVar

from fedrepro.config.types import Count, NonNegative
from fedrepro.core.metrics import MEASURES
from fedrepro.report import quantities, ranking
from fedrepro.report.inference import common_seeds, over_panels
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import (
    Number,
    difference_unit,
    difference_unit_name,
    display_factor,
    mean_cell,
    measure_cell,
    measure_unit_name,
)
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.statistics import EPSILON, curve_distance, holm, mean, mean_last
from fedrepro.report.tables._grid import PANEL, SERIES, Row, mark_best
from fedrepro.report.tables.base import Table, diverged_series, measures_phrase

CURVE = "Paper's curve"
DIGITS = 2  # of a number whose unit does not say


def _last_rounds_sentence(last: int, panels: list[ExperimentView]) -> str:
    return (
        f"Mean of the last {'round' if last == 1 else f'{last} rounds'}: {measures_phrase(panels)}"
    )


class FinalValues(Table):
    """The mean of the `last` rounds, or of as many as `last_at` names for a scale, by series and
    panel. `reported`: values that the paper prints, series -> {panel: value}, 0..1 or nats for a
    loss; `deviations`: their standard deviations over seeds. `improvement`: the series for which a
    last row shows the difference to the best other series. `baseline`: the series that is
    subtracted from the others, seed by seed."""

    last: Count
    last_at: dict[str, Count] = {}
    reported: dict[str, dict[str, NonNegative]] = {}
    deviations: dict[str, dict[str, NonNegative]] = {}
    improvement: str | None = None
    baseline: str | None = None
    series_settings: ClassVar = ("improvement", "baseline")
    best_among: ClassVar = "of its set-up"

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        panels = {ref.key: ref for ref in self.panels}
        checker.at("last_at").check_names("scale", self.last_at, checker.scales)
        for label, values in self.reported.items():
            checker.at("reported").check_names("panel of this table", values, panels)
            for key, value in values.items():
                shown = checker.at("reported").check_ref(panels[key], [label])
                checker.at("reported", label, key).check_values(shown.measure, [value])
        for label, values in self.deviations.items():
            checker.at("deviations").check_names(
                "value that is reported", values, self.reported.get(label, {})
            )
            for key, value in values.items():
                checker.at("deviations", label, key).check_values(
                    checker.check_ref(panels[key], [label]).measure, [value]
                )

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        """Return a row for each series, with the paper's values at scales that are compared at
        all."""
        rows: dict[str, Row] = {
            label: {SERIES: label} for panel in panels for label in panel.results.labels
        }
        improvement: Row = {SERIES: self._improvement_name}
        for panel in panels:
            ours, theirs, reported = (
                self._column(panel),
                _paper_column(panel),
                self._reported(panel),
            )
            for label, row in rows.items():
                row[ours] = self._final(panel, label)
                if reported:
                    deviation = self.deviations.get(label, {}).get(panel.key)
                    half_width = (
                        None if deviation is None else display_factor(panel.measure) * deviation
                    )
                    row[theirs] = replace(
                        _reported_cell(panel, reported.get(label)), half_width=half_width
                    )
            mark_best(list(rows.values()), ours, panel.sign < 0, diverged_series(panel))
            improvement |= self._improvement_cells(panel)
        return [*rows.values(), *([improvement] if self.improvement and panels else [])]

    def _column(self, panel: ExperimentView) -> str:
        if self.baseline:
            return f"{panel.name}, above {self.baseline} ({difference_unit_name(panel.measure)})"
        return f"{panel.name} ({measure_unit_name(panel.measure)})"

    def paper_ends(self, ref: ExperimentRef) -> dict[str, float]:
        return (
            {}
            if self.baseline
            else {
                label: values[ref.key]
                for label, values in self.reported.items()
                if ref.key in values
            }
        )

    def reported_columns(self, panels: list[ExperimentView]) -> dict[str, str]:
        return {_paper_column(panel): self._column(panel) for panel in panels}

    def _reported(self, panel: ExperimentView) -> dict[str, float]:
        """Return the values that the paper prints for a panel, by series, or their differences from
        the baseline's; none where they are not shown, if only to compare directions."""
        values = {
            label: values[panel.key]
            for label, values in self.reported.items()
            if panel.key in values
        }
        if panel.results.compare == "none" or (self.baseline and self.baseline not in values):
            return {}
        baseline = values.pop(self.baseline) if self.baseline else 0.0
        return {label: value - baseline for label, value in values.items()}

    def _final(self, panel: ExperimentView, label: str) -> Number:
        values = self._finals(panel, label)
        if not self.baseline:
            return measure_cell(panel.measure, values)
        compared = label not in (self.baseline, *diverged_series(panel))
        baseline = self._finals(panel, self.baseline) if compared else {}
        return _difference_cell(
            panel,
            {seed: value - baseline[seed] for seed, value in values.items() if seed in baseline},
        )

    def _finals(self, panel: ExperimentView, label: str) -> dict[int, float]:
        return _final_values(panel, label, panel.results.at_scale(self.last_at, self.last))

    @property
    def _improvement_name(self) -> str:
        return f"{self.improvement} above the best other"

    def _improvement_cells(self, panel: ExperimentView) -> Row:
        """Return the cells of differences, seed by seed, to the other series with the best mean."""
        best, diverged = min if panel.sign < 0 else max, diverged_series(panel)
        finals = {
            label: self._finals(panel, label)
            for label in panel.results.labels
            if label not in diverged
        }
        values = finals.pop(self.improvement or "", {})
        others = [other for other in finals.values() if other.keys() == values.keys()]
        rival = (
            best(others, key=lambda other: mean(list(other.values())), default={}) if values else {}
        )
        differences = {seed: values[seed] - value for seed, value in rival.items()}
        cells: Row = {self._column(panel): _difference_cell(panel, differences)}
        reported = self._reported(panel)
        if len(reported) > 1 and (value := reported.pop(self.improvement or "", None)) is not None:
            cells[_paper_column(panel)] = _reported_cell(
                panel, value - best(reported.values()), signed=True
            )
        return cells

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        last = panels[0].results.at_scale(self.last_at, self.last)
        parts = [_last_rounds_sentence(last, panels)]
        if intervals := sorted(
            {panel.results.note["training"]["evaluate_every"] for panel in panels} - {1}
        ):
            parts.append(f"Tested every {' or '.join(map(str, intervals))} rounds")
        if self.improvement:
            parts.append(
                f"{self._improvement_name}: the other series with the best mean, compared seed "
                f"by seed"
            )
        if shown := [panel for panel in panels if self._reported(panel)]:
            printed = any(
                panel.key in values for panel in shown for values in self.deviations.values()
            )
            deviations = ", ± their standard deviation" if printed else ""
            caution = (
                ""
                if shown[0].comparable
                else "; they are of its own settings, so that only directions can be compared"
            )
            parts.append(f"In grey, the paper's values{deviations}{caution}")
        short = [
            (name, rounds)
            for panel in panels
            for name, rounds in _shortest_runs(panel).items()
            if rounds < last
        ]
        return [
            *parts,
            *(f"{name} has only {rounds} rounds, all of which count" for name, rounds in short),
        ]


def _final_values(panel: ExperimentView, label: str, last: int) -> dict[int, float]:
    """Return seed -> mean of the last rounds; for a shorter run, of all rounds after the untrained
    model."""
    curves = panel.curves(label) if label in panel.results.labels else {}
    return {seed: mean_last(curve, min(last, curve[-1][0])) for seed, curve in curves.items()}


def _paper_column(panel: ExperimentView) -> str:
    return f"{panel.name}, paper ({measure_unit_name(panel.measure)})"


def _difference_cell(panel: ExperimentView, values: dict[int, float]) -> Number:
    return replace(measure_cell(panel.measure, values), signed=True)


def _reported_cell(panel: ExperimentView, value: float | None, signed: bool = False) -> Number:
    cell = measure_cell(panel.measure, {} if value is None else {0: value})
    return Number(cell.value, cell.digits, signed=signed)


def _shortest_runs(panel: ExperimentView) -> dict[str, int]:
    """Return the last round of the shortest finished run, by panel, or by series if their runs
    differ in length."""
    curves = {label: panel.curves(label).values() for label in panel.results.labels}
    lengths = {
        label: min(curve[-1][0] for curve in seeds) for label, seeds in curves.items() if seeds
    }
    if len(set(lengths.values())) == 1:
        return {panel.name: next(iter(lengths.values()))}
    return {f"{panel.name}, {label}": rounds for label, rounds in lengths.items()}


class CurveDistances(Table):
    """Root mean squared differences between our curves and those that the paper plots; both are
    averaged over `smooth` measured rounds and compared over the first `rounds` (None: all common
    rounds)."""

    smooth: Count = 1
    rounds: Count | None = None
    best_among: ClassVar = "of the series compared with the same curve"

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for ref in self.panels:
            if not ref.resolved(checker.display_options).reported:
                compared = [
                    name for name, display in checker.display_options.items() if display.reported
                ]
                checker.at("panels").check_names(
                    "experiment with reported curves", [ref.experiment], compared
                )

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        """Return a row for each series with a curve of the paper; the best of a curve may be of
        several panels."""
        pairs = [
            (panel, label)
            for panel in panels
            if panel.comparable
            for label in panel.display.reported
        ]
        rows = [
            {PANEL: panel.name, SERIES: label} | self._distance(panel, label, evidence)
            for panel, label in pairs
        ]
        compared = [
            row
            for row, (panel, label) in zip(rows, pairs, strict=True)
            if label not in diverged_series(panel)
        ]
        for curve in dict.fromkeys(row[CURVE] for row in compared):
            for title in {_distance_title(panel) for panel in panels}:
                mark_best([row for row in compared if row[CURVE] == curve], title, lowest=True)
        return rows

    def _distance(self, panel: ExperimentView, label: str, evidence: PaperData) -> Row:
        key = panel.display.reported[label]
        reported = [
            point for point in evidence.curves[key] if point[0] <= (self.rounds or math.inf)
        ]
        results = {
            seed: curve_distance(ours, reported, self.smooth)
            for seed, ours in panel.curves(label).items()
        }
        distances = {seed: result[0] for seed, result in results.items() if result}
        counts = sorted({result[1] for result in results.values() if result})
        rounds = (
            Number(counts[0])
            if len(counts) == 1
            else Number(placeholder=" or ".join(map(str, counts)) or "none")
        )
        distance = measure_cell(panel.measure, distances)
        return {
            CURVE: evidence.curve_name(key),
            _distance_title(panel): distance,
            "Rounds compared": rounds,
        }

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        smooth = f", both averaged over {self.smooth} measured rounds" if self.smooth > 1 else ""
        rounds = f", in the first {self.rounds} rounds" if self.rounds else ""
        parts = [
            f"Root mean squared difference of {measures_phrase(panels)} from the paper's "
            f"curve{smooth}{rounds}"
        ]
        return (
            parts
            if panels[0].comparable
            else [f"Scale {panels[0].scale} is not compared with the paper's curves", *parts]
        )


def _distance_title(panel: ExperimentView) -> str:
    return f"Distance ({difference_unit_name(panel.measure)})"


class QuantityTable(Table):
    """Any quantities by series. `quantities`: the title of a column -> settings of a quantity,
    without `series`."""

    quantities: dict[str, dict[str, Any]]

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for title in self.quantities:
            for ref in self.panels:
                for label in checker.experiments[ref.experiment].get("series", {}):
                    quantity = self._quantity(title, label, f"{checker.file}: {checker.key}.")
                    quantity.check(checker.at("quantities", title), ref)

    def sources(self, figures: Mapping[str, Any]) -> list[str]:
        studies = [None, *(self._quantity(title, "").study_name for title in self.quantities)]
        return list(
            dict.fromkeys(
                results_name(ref.experiment, study) for study in studies for ref in self.panels
            )
        )

    def _quantity(self, title: str, label: str, where: str = "") -> Quantity:
        return quantities.parse_quantity(
            {"series": label} | self.quantities[title], f"{where}quantities.{title}"
        )

    def cells(
        self,
        panel: ExperimentView,
        label: str,
        place: int,
        target: float | None,
        evidence: PaperData,
    ) -> Row:
        """Return the means over seeds; no number if there is none."""
        cells: Row = {}
        for title in self.quantities:
            quantity = self._quantity(title, label)
            found = evidence.results[
                results_name(panel.results.note["experiment"], quantity.study_name)
            ]
            view = replace(panel, results=found)
            values, unit = (
                [] if view.missing_reason else quantity.evaluate(view)[0],
                quantity.unit(panel.measure),
            )
            digits, name = (
                DIGITS if unit.digits is None else unit.digits,
                unit.difference_name if unit.signed else unit.name,
            )
            numbers = {place: unit.factor * value for place, value in enumerate(values)}
            cells[f"{title} ({name})"] = mean_cell(numbers, digits)
        return cells

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        sentences = []
        for title in self.quantities:
            quantity = self._quantity(title, panels[0].results.labels[0])
            sentences.append(f"{title}: {quantity.label(panels[0].measure).rpartition(' (')[0]}")
            sentences += filter(None, [quantity.description(panels[0].measure)])
        return sentences


class MeanRanks(Table):
    """Series by mean rank, by the mean of the `last` rounds. Differences to the `baseline` are
    averaged over the experiments, as fixed panels of equal weight."""

    last: Count
    baseline: str
    series_settings: ClassVar = ("baseline",)

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        measures = {ref.resolved(checker.display_options).measure for ref in self.panels}
        if len(measures) > 1:
            checker.at("panels").fail(
                f"{', '.join(sorted(measures))}: the experiments need one measure"
            )

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        if not panels:
            return []
        ranks, unit = (
            ranking.rank_series(panels, self.last).mean_ranks,
            difference_unit(panels[0].measure),
        )
        leads = {label: self._leads(panels, label) for label in ranks if label != self.baseline}
        means = {label: over_panels(values) for label, values in leads.items() if values}
        known = {label: one.p for label, one in means.items() if one.p is not None}
        # a series that diverged was compared too
        p_values = holm(dict.fromkeys(leads, 1.0) | known) if known else {}
        rows: list[Row] = []
        for label, place in ranks.items():
            lead, p, ahead = Number(), Number(), Number()
            if found := means.get(label):
                pairs = [value for values in leads[label] for value in values.values()]
                half_width = None if found.half_width is None else unit.factor * found.half_width
                lead = Number(unit.factor * found.mean, 2, half_width, found.n, signed=True)
                p = _p_value(p_values.get(label) if label in known else None)
                ahead = Number(100 * sum(value > EPSILON for value in pairs) / len(pairs))
            column = f"Above {self.baseline} ({difference_unit_name(panels[0].measure)})"
            rows.append(
                {
                    SERIES: label,
                    "Mean rank": Number(place, 2),
                    column: lead,
                    "p (Holm)": p,
                    "Pairs ahead (%)": ahead,
                }
            )
        return rows

    def _leads(self, panels: list[ExperimentView], label: str) -> list[dict[int, float]]:
        """Return how much a series is better than the baseline, by panel and seed; empty if a run
        of either diverged."""
        if any({label, self.baseline} & {*diverged_series(panel)} for panel in panels):
            return []
        leads = []
        for panel in panels:
            ours, baseline = panel.curves(label), panel.curves(self.baseline)
            seeds = sorted(ours.keys() & baseline.keys())
            leads.append(
                {
                    s: panel.sign
                    * (mean_last(ours[s], self.last) - mean_last(baseline[s], self.last))
                    for s in seeds
                }
            )
        return leads if common_seeds(leads) else []

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        return [
            _last_rounds_sentence(self.last, panels),
            ranking.sentence(ranking.rank_series(panels, self.last)),
            f"Above {self.baseline}: for each seed the mean over the set-ups, of equal weight; p: "
            "adjusted for all series, also those with a diverged run (Holm). Pairs ahead: the "
            "share of pairs of runs with the same seed in which the series is better",
        ]


def _p_value(p: float | None) -> Number:
    """Return a p-value with three decimals, or as many as it needs for one digit that is not
    zero."""
    return Number(p, max(3, math.ceil(-math.log10(p))) if p else 3)


class TunedSettings(Table):
    """Chosen values of the tuned series of some experiments, with the best, the median and the
    worst score of the trials."""

    of_runs: ClassVar = False

    def cells(
        self,
        panel: ExperimentView,
        label: str,
        place: int,
        target: float | None,
        evidence: PaperData,
    ) -> Row:
        """Return the cells of a tuned series; a diverged trial is the worst, and has no number."""
        if not (tuned := panel.results.note["series"][label].get("tuned")):
            return {}
        measure = MEASURES[tuned["by"]]
        factor, digits, unit = (
            display_factor(measure),
            1 if measure.percent else 3,
            measure_unit_name(measure),
        )
        finite = sorted(
            (score for score in tuned["scores"] if score is not None), reverse=measure.percent
        )
        scores = {"Best": finite[0], "Median": median(finite), "Worst": finite[-1]}
        numbers = {
            f"{name} ({unit})": Number(factor * score, digits) for name, score in scores.items()
        }
        if len(finite) < len(tuned["scores"]):
            numbers[f"Worst ({unit})"] = Number(placeholder="diverged")
        # two values: only edges
        edges = [name for name in tuned["at_edge"] if len(tuned["grid"][name]) > 2]
        chosen = ", ".join(f"{name} {value}" for name, value in tuned["values"].items())
        return {
            "Chosen": chosen,
            "At the edge": ", ".join(edges) or "-",
            "Trials": Number(tuned["trials"]),
        } | numbers

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        tuned = [
            series["tuned"]
            for panel in panels
            for series in panel.results.note["series"].values()
            if "tuned" in series
        ]
        names = ", ".join(dict.fromkeys(MEASURES[one["by"]].title for one in tuned))
        scores = f"Best, median and worst: {names} of the trials, the mean over their seeds"
        return [scores if tuned else "No series is tuned"]
