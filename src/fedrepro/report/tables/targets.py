"""Tables with a row for each panel, target and series: rounds until each target, and the bytes and
seconds until then."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field, FiniteFloat

from fedrepro.config.types import Count, NonNegative
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import (
    Number,
    column_title,
    display_factor,
    mean_cell,
    measure_cell,
    measure_unit_name,
    megabytes_per_round,
    reached_cell,
    significant_cell,
)
from fedrepro.report.quantities.curves import RoundsTo
from fedrepro.report.statistics import mean, mean_last
from fedrepro.report.tables._grid import Row
from fedrepro.report.tables.base import Table, measures_phrase

FINAL_ROUNDS = 5  # whose mean is the final accuracy
PAPER_ROUNDS, PAPER_SAVING = "Paper's rounds", "Paper's saving (%)"
TOTAL, TIME, MULTIPLY_ADDS = "MB to target", "Seconds to target", "Multiply-adds"
SECONDS = "seconds"  # column of a round's row


class TargetTable(Table):
    """A table with rows per target: the targets that it lists by scale, otherwise each experiment's
    target."""

    baseline: str
    smooth: Count = 1
    targets: dict[str, tuple[NonNegative, ...]] = {}
    series_settings: ClassVar = ("baseline",)
    best_among: ClassVar = "of its panel and target (of rounds, if every seed reaches the target)"

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        checker.at("targets").check_names("scale", self.targets, checker.scales)

    def targets_at(self, panel: ExperimentView) -> tuple[float, ...]:
        return panel.results.at_scale(self.targets, () if panel.target is None else (panel.target,))

    def no_target_sentence(self, panels: Sequence[ExperimentView]) -> list[str]:
        """Return a sentence on the panels without a target at this scale."""
        names = [panel.name for panel in panels if not self.targets_at(panel)]
        return [f"No target at this scale: {', '.join(names)}"] if names else []


def target_cell(panel: ExperimentView, target: float) -> Row:
    """Return the column of targets, with as many decimals as the target needs."""
    value = display_factor(panel.measure) * target
    return {
        f"Target ({measure_unit_name(panel.measure)})": Number(
            value, len(f"{value:g}".partition(".")[2])
        )
    }


def received_sentence(panels: Sequence[ExperimentView]) -> list[str]:
    """Return a sentence if a measure is of the model that clients receive, which is the result of
    the round before."""
    if not any(panel.measure.model == "received" for panel in panels):
        return []
    return [
        "The model received in round r has been trained for r - 1 rounds; its values are those "
        "of round r here, as in the paper"
    ]


class RoundsToTarget(TargetTable):
    """Rounds until each target, and the saving against a baseline. `reported`: rounds that the
    paper prints, series -> [rounds, ...], one for each target of the fully compared scale; if
    empty, the first crossing of the paper's plotted curve is shown. `savings`: for a paper that
    reports only ratios, series -> {panel: share of the baseline's rounds that is saved};
    `savings_from` says where it reports them."""

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
                    checker.at("reported", label).fail(
                        f"needs one number for each target at scale {scale}"
                    )
        if self.reported and self.savings:
            checker.at("savings").fail("follow from the reported rounds: give one of them")
        panels = {ref.key: ref for ref in self.panels}
        for label, values in self.savings.items():
            checker.at("savings").check_names("panel of this table", values, panels)
            for key in values:
                checker.at("savings").check_experiment(panels[key].experiment, [label])
        if bool(self.savings) != bool(self.savings_from):
            checker.at("savings_from").fail(
                "savings and savings_from need each other: give both or neither"
            )

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        return super().rows([panel for panel in panels if self.targets_at(panel)], evidence)

    def best_columns(self, panel: ExperimentView) -> dict[str, bool]:
        return {
            "Rounds": True,
            self._smoothed: True,
            column_title("Final", panel.measure): panel.sign < 0,
        }

    def paper_savings(self, ref: ExperimentRef) -> dict[str, float]:
        savings = {
            label: shares[ref.key] for label, shares in self.savings.items() if ref.key in shares
        }
        return {self.baseline: 0.0} | savings if savings else {}

    def reported_columns(self, panels: list[ExperimentView]) -> dict[str, str]:
        return {PAPER_ROUNDS: "Rounds", PAPER_SAVING: self._saving}

    @property
    def _saving(self) -> str:
        return f"Saved vs {self.baseline} (%)"

    @property
    def _smoothed(self) -> str:
        return f"Rounds, mean of {self.smooth}"

    def cells(
        self,
        panel: ExperimentView,
        label: str,
        place: int,
        target: float | None,
        evidence: PaperData,
    ) -> Row:
        assert target is not None  # panels without a target have no rows
        row = target_cell(panel, target) | {"Rounds": _rounds_cell(panel, label, target, 1)}
        if self.smooth > 1:
            row[self._smoothed] = _rounds_cell(panel, label, target, self.smooth)
        row[self._saving] = _saved_cell(panel, label, self.baseline, target)
        if panel.comparable:
            row |= self._paper_cells(panel, label, place, target, evidence)
        final = {
            seed: mean_last(curve, FINAL_ROUNDS) for seed, curve in panel.curves(label).items()
        }
        row[column_title("Final", panel.measure)] = measure_cell(panel.measure, final)
        megabytes = mean([megabytes_per_round(run) for run in panel.results.runs(label)])
        return row | {"MB per round": significant_cell(megabytes, 3)}

    def _paper_cells(
        self, panel: ExperimentView, label: str, place: int, target: float, evidence: PaperData
    ) -> Row:
        """Return the columns of the paper's rounds and saving, as far as the paper reports them."""
        if self.savings:
            saving = self.savings.get(label, {}).get(panel.key)
            return {PAPER_SAVING: Number() if saving is None else Number(100 * saving, 1)}
        if self.reported:  # the saving follows from the rounds
            printed = {name: values[place] for name, values in self.reported.items()}
            saving = Number()
            if label != self.baseline and {label, self.baseline} <= printed.keys():
                saving = Number(100 * (1 - printed[label] / printed[self.baseline]), 1)
            return {
                PAPER_ROUNDS: Number(printed[label]) if label in printed else Number(),
                PAPER_SAVING: saving,
            }
        if label not in panel.display.reported:
            return {PAPER_ROUNDS: Number()}
        rounds = panel.rounds_to(evidence.curves[panel.display.reported[label]], target)
        return {PAPER_ROUNDS: Number(placeholder="never") if rounds is None else Number(rounds)}

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        parts = [f"Rounds: the first round in which {measures_phrase(panels)} reaches the target"]
        parts += received_sentence(panels)
        saved = f"Saved: 1 \N{MINUS SIGN} rounds / rounds of {self.baseline}, seed by seed"
        if self.smooth > 1:
            parts[0] += (
                f", or in which its mean over the last {self.smooth} measured rounds does (mean "
                f"of {self.smooth})"
            )
            saved += ", from values of single rounds"
        parts.append(saved)
        if panels[0].comparable:
            origin = "as printed" if self.reported else "where its curve first reaches the target"
            parts.append(
                f"In grey, the paper's "
                f"{f'saving: {self.savings_from}' if self.savings else f'rounds, {origin}'}"
            )
        columns = [column_title("Final", panel.measure).rpartition(" (")[0] for panel in panels]
        parts += [
            f"{column}: mean of the last {FINAL_ROUNDS} rounds" for column in dict.fromkeys(columns)
        ]
        parts.append(
            "MB per round: millions of bytes that all participants of a round receive and send"
        )
        return [*parts, *self.no_target_sentence(panels)]


def _rounds_cell(panel: ExperimentView, label: str, target: float, smooth: int) -> Number:
    """Return the mean number of rounds until the target."""
    rounds = {
        seed: panel.rounds_to(curve, target, smooth) for seed, curve in panel.curves(label).items()
    }
    return reached_cell(rounds, 1 if len(rounds) > 1 else 0)


def _saved_cell(panel: ExperimentView, label: str, baseline: str, target: float) -> Number:
    """Return the mean saving of rounds, seed by seed, in percent; empty unless every seed of both
    series reaches the target."""
    if label == baseline:
        return Number()
    values, _ = RoundsTo(kind="rounds_to", series=label, baseline=baseline, target=target).evaluate(
        panel
    )
    return (
        mean_cell({place: 100 * value for place, value in enumerate(values)}, 1)
        if values
        else Number()
    )


class Communication(TargetTable):
    """Computation and communication: multiply-adds of the network, bytes that a participant
    receives and sends in a round, the overhead above a baseline, and bytes and seconds until each
    target."""

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for ref in self.panels:
            series = checker.series(ref.experiment).items()
            if labels := [
                label
                for label, choice in series
                if "clients_per_round" in choice.get("overrides", {})
            ]:
                checker.at("panels").fail(
                    f"{ref.key}: {', '.join(labels)} has its own clients_per_round"
                )

    def best_columns(self, panel: ExperimentView) -> dict[str, bool]:
        return {TOTAL: True}

    def cells(
        self,
        panel: ExperimentView,
        label: str,
        place: int,
        target: float | None,
        evidence: PaperData,
    ) -> Row:
        down, up = _bytes(panel, label)
        overhead = Number()
        if label != self.baseline and self.baseline not in panel.results.unfinished_series:
            overhead = Number(
                100 * ((down + up) / sum(_bytes(panel, self.baseline)) - 1), 4, signed=True
            )
        counts = sorted({run["weights"] for run in panel.results.runs(label)})
        weights = (
            Number(counts[0])
            if len(counts) == 1
            else Number(placeholder=", ".join(map(str, counts)))
        )
        row: Row = {
            "Weights": weights,
            **_multiply_adds(panel, label),
            "Bytes down": Number(down),
            "Bytes up": Number(up),
        }
        row[f"More than {self.baseline} (%)"] = overhead
        if target is not None:
            row |= target_cell(panel, target) | {
                TOTAL: self._sum_to_target(panel, label, target, _megabytes)
            }
            if _are_timed(panel):
                row[TIME] = self._sum_to_target(
                    panel, label, target, lambda row: float(row[SECONDS])
                )
        return row

    def _sum_to_target(
        self,
        panel: ExperimentView,
        label: str,
        target: float,
        cost: Callable[[Mapping[str, str]], float],
    ) -> Number:
        """Return the sum of what the rows of the rounds up to the target cost."""
        rows = panel.results.rows_without_diverged(label)
        sums: dict[int, float | None] = {}
        for seed, curve in panel.curves(label).items():
            last = panel.rounds_to(curve, target, self.smooth)
            until = [
                row
                for row in rows
                if int(row["seed"]) == seed and 0 < int(row["round"]) <= (last or 0)
            ]
            sums[seed] = None if last is None else sum(map(cost, until))
        return reached_cell(sums, 2)

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        smooth = f" as a mean of {self.smooth} measured rounds" if self.smooth > 1 else ""
        parts = [
            "Weights: in the model that is sent",
            "Bytes: received (down) and sent (up) by one participant in one round, mean over "
            "rounds and seeds",
            f"More than {self.baseline}: down and up together",
        ]
        if any(_multiply_adds(panel, label) for panel in panels for label in panel.results.labels):
            parts.append(
                f"{MULTIPLY_ADDS}: millions per image, in the network's convolutions and dense "
                f"layers"
            )
        if any(self.targets_at(panel) for panel in panels):
            until = f"until {measures_phrase(panels)} first reaches the target{smooth}"
            parts.append(
                f"{TOTAL}: millions of bytes that all participants receive and send {until}"
            )
            parts += received_sentence(panels)
            if any(map(_are_timed, panels)):
                parts.append(
                    f"{TIME}: of all rounds, on the machine that trained, which other work may "
                    f"have slowed"
                )
        return [*parts, *self.no_target_sentence(panels)]


def _megabytes(row: Mapping[str, str]) -> float:
    """Return the 10^6 bytes that all participants of a round receive and send."""
    return (int(row["bytes_down"]) + int(row["bytes_up"])) / 1e6


def _are_timed(panel: ExperimentView) -> bool:
    """Return whether the seconds of all rounds are known; runs of earlier code did not record
    them."""
    return all(row.get(SECONDS) for row in panel.results.rows if int(row["round"]))


def _multiply_adds(panel: ExperimentView, label: str) -> Row:
    """Return the column of multiply-adds, two operations each; empty if the runs are of code that
    did not count operations."""
    counts = {run.get("operations") for run in panel.results.runs(label)}
    operations = counts.pop() if len(counts) == 1 else None
    return {} if operations is None else {MULTIPLY_ADDS: significant_cell(operations / 2e6, 4)}


def _bytes(panel: ExperimentView, label: str) -> tuple[float, float]:
    """Return the bytes that one participant receives and sends in one round, averaged over rounds
    and seeds."""
    participants, runs = (
        panel.results.note["training"]["clients_per_round"],
        panel.results.runs(label),
    )
    rates = [(run["bytes_down"], run["bytes_up"], max(run["rounds"], 1)) for run in runs]
    return mean([down / n / participants for down, _, n in rates]), mean(
        [up / n / participants for _, up, n in rates]
    )
