"""Table of computation and communication: one row for each panel, target and series.

It shows multiply-adds of the network, bytes that a participant receives and sends in a round, the overhead above a baseline,
and bytes until each target.
"""

from collections.abc import Callable, Mapping

from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, reached_cell, significant_cell
from fedrepro.report.statistics import mean
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row, mark_best

TOTAL, TIME = "MB to target", "Seconds to target"
SECONDS = "seconds"  # column of a round's row
MULTIPLY_ADDS = "Multiply-adds"


class Table(base.TargetTable):
    """Computation and communication until each target."""

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for ref in self.panels:
            series = checker.series(ref.experiment).items()
            if labels := [label for label, choice in series if "clients_per_round" in choice.get("overrides", {})]:
                checker.at("panels").fail(f"{ref.key}: {', '.join(labels)} has its own clients_per_round")

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        rows: list[Row] = []
        for panel in panels:
            for target in self.targets_at(panel) or (None,):
                group = [self._row(panel, label, target) for label in panel.results.labels]
                mark_best(group, TOTAL, lowest=True, excluded=base.diverged_series(panel))
                rows += group
        return rows

    def _row(self, panel: ExperimentView, label: str, target: float | None) -> Row:
        down, up = _bytes(panel, label, "bytes_down"), _bytes(panel, label, "bytes_up")
        overhead = Number()
        if label != self.baseline and self.baseline not in panel.results.unfinished_series:
            baseline_bytes = _bytes(panel, self.baseline, "bytes_down") + _bytes(panel, self.baseline, "bytes_up")
            overhead = Number(100 * ((down + up) / baseline_bytes - 1), 4, signed=True)
        row: Row = {"Panel": panel.name, "Series": label, "Weights": _weights(panel, label)} | _multiply_adds(panel, label)
        row |= {"Bytes down": Number(down), "Bytes up": Number(up), f"More than {self.baseline} (%)": overhead}
        if target is None:
            return row
        row |= base.target_cell(panel, target) | {TOTAL: self._sum_to_target(panel, label, target, _megabytes)}
        if not _are_timed(panel):
            return row
        return row | {TIME: self._sum_to_target(panel, label, target, lambda row: float(row[SECONDS]))}

    def _sum_to_target(
        self, panel: ExperimentView, label: str, target: float, cost: Callable[[Mapping[str, str]], float]
    ) -> Number:
        """Return the sum of what the rows of the rounds up to the target cost."""
        sums: dict[int, float | None] = {}
        for seed, curve in panel.curves(label).items():
            last_round = panel.rounds_to(curve, target, self.smooth)
            rows = [row for row in panel.results.rows_without_diverged(label) if int(row["seed"]) == seed]
            until = [row for row in rows if 0 < int(row["round"]) <= (last_round or 0)]
            sums[seed] = None if last_round is None else sum(map(cost, until))
        return reached_cell(sums, 2)

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        smooth = f" as a mean of {self.smooth} measured rounds" if self.smooth > 1 else ""
        parts = [
            "Weights: in the model that is sent",
            "Bytes: received (down) and sent (up) by one participant in one round, mean over rounds and seeds",
            f"More than {self.baseline}: down and up together",
        ]
        if any(_multiply_adds(panel, label) for panel in panels for label in panel.results.labels):
            parts.append(f"{MULTIPLY_ADDS}: millions per image, in the network's convolutions and dense layers")
        if any(self.targets_at(panel) for panel in panels):
            until = f"until {base.measures_phrase(panels)} first reaches the target{smooth}"
            parts.append(f"{TOTAL}: millions of bytes that all participants receive and send {until}")
            parts += base.received_sentence(panels)
            if any(map(_are_timed, panels)):
                parts.append(f"{TIME}: of all rounds, on the machine that trained, which other work may have slowed")
        return [*parts, *base.no_target_sentence(panels, {panel.name: self.targets_at(panel) for panel in panels})]


def _megabytes(row: Mapping[str, str]) -> float:
    """Return the 10^6 bytes that all participants of a round receive and send."""
    return (int(row["bytes_down"]) + int(row["bytes_up"])) / 1e6


def _are_timed(panel: ExperimentView) -> bool:
    """Return whether the seconds of all rounds are known; runs of earlier code did not record them."""
    return all(row.get(SECONDS) for row in panel.results.rows if int(row["round"]))


def _weights(panel: ExperimentView, label: str) -> Number:
    counts = sorted({run["weights"] for run in panel.results.runs(label)})
    return Number(counts[0]) if len(counts) == 1 else Number(placeholder=", ".join(map(str, counts)))


def _multiply_adds(panel: ExperimentView, label: str) -> Row:
    """Return the column of multiply-adds, two operations each; empty if the runs are of code that did not count operations."""
    counts = {run.get("operations") for run in panel.results.runs(label)}
    operations = counts.pop() if len(counts) == 1 else None
    return {} if operations is None else {MULTIPLY_ADDS: significant_cell(operations / 2e6, 4)}


def _bytes(panel: ExperimentView, label: str, direction: str) -> float:
    """Return the bytes of one participant in one round, averaged over rounds and seeds."""
    participants = panel.results.note["training"]["clients_per_round"]
    return mean([run[direction] / max(run["rounds"], 1) / participants for run in panel.results.runs(label)])
