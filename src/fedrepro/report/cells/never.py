"""That a series does not reach a target (within `round` rounds, where given): a claim that is no number."""

from typing import ClassVar

from fedrepro.config import Count
from fedrepro.measures import Measure
from fedrepro.report.cells import base
from fedrepro.report.evidence import Panel
from fedrepro.report.numbers import amount, factor, unit


class Cell(base.ToTarget):
    round: Count | None = None
    word: ClassVar = "never"
    absolute: ClassVar = "a number of rounds"

    def value(self, panel: Panel, curve, baseline: None) -> float | str:
        return 0.0

    def found(self, panel: Panel) -> tuple[list[float], str]:
        return [], super().found(panel)[1]

    def needs(self, reported: str, tolerance: float) -> int:
        return self.round or 0

    def contradicted(self, panel: Panel) -> tuple[int, int, str]:
        curves = panel.curves(self.series)
        if self.round:
            curves = {seed: [point for point in curve if point[0] <= self.round] for seed, curve in curves.items()}
        reached = {seed: panel.rounds_to(curve, self.target, self.smooth) for seed, curve in curves.items()}
        hits = [f"seed {seed} at round {round}" for seed, round in reached.items() if round is not None]
        if hits:
            return len(hits), len(curves), f"reached: {', '.join(hits)}"
        choose = min if panel.measure.score == "loss" else max
        best = choose(value for curve in curves.values() for _, value in curve)
        shown = f"{factor(panel.measure) * best:.1f} {unit(panel.measure)}"
        return 0, len(curves), f"best value {shown} over {len(curves)} seed(s)"

    def show(self, value: str, measure: Measure, signed: bool = True, digits: int = 1) -> str:
        return value

    def axis(self, measure: Measure) -> str:
        return f"never at {amount(measure, self.target)}"
