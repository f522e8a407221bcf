"""Table of distances: root mean squared difference between our curves and those that the paper plots, by series."""

import math

from fedrepro.config.types import Count
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, difference_unit_name, measure_cell
from fedrepro.report.statistics import Curve, curve_distance
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row, mark_best

CURVE = "Paper's curve"


class Table(base.Table):
    """Distances from the paper's curves; both are averaged over `smooth` measured rounds and compared over the first `rounds`
    (None: all common rounds)."""

    smooth: Count = 1
    rounds: Count | None = None
    best_among = "of the series compared with the same curve"

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for ref in self.panels:
            if not ref.resolved(checker.display_options).reported:
                compared = [name for name, display in checker.display_options.items() if display.reported]
                checker.at("panels").check_names("experiment with reported curves", [ref.experiment], compared)

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        rows: list[Row] = []
        compared: list[Row] = []  # without series that have a diverged run
        for panel in panels:
            diverged = base.diverged_series(panel)
            for label, key in panel.display.reported.items() if panel.comparable else ():
                reported = [point for point in evidence.curves[key] if point[0] <= (self.rounds or math.inf)]
                row = self._row(panel, label, evidence.curve_name(key), reported)
                rows.append(row)
                if label not in diverged:
                    compared.append(row)
        for curve in dict.fromkeys(row[CURVE] for row in compared):
            for title in {_title(panel) for panel in panels}:
                mark_best([row for row in compared if row[CURVE] == curve], title, lowest=True)
        return rows

    def _row(self, panel: ExperimentView, label: str, curve: str, reported: Curve) -> Row:
        results = {seed: curve_distance(ours, reported, self.smooth) for seed, ours in panel.curves(label).items()}
        distances = {seed: result[0] for seed, result in results.items() if result}
        counts = sorted({result[1] for result in results.values() if result})
        rounds = Number(counts[0]) if len(counts) == 1 else Number(placeholder=" or ".join(map(str, counts)) or "none")
        row: Row = {"Panel": panel.name, "Series": label, CURVE: curve, _title(panel): measure_cell(panel.measure, distances)}
        return row | {"Rounds compared": rounds}

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        smooth = f", both averaged over {self.smooth} measured rounds" if self.smooth > 1 else ""
        rounds = f", in the first {self.rounds} rounds" if self.rounds else ""
        parts = [f"Root mean squared difference of {base.measures_phrase(panels)} from the paper's curve{smooth}{rounds}"]
        return parts if panels[0].comparable else [f"Scale {panels[0].scale} is not compared with the paper's curves", *parts]


def _title(panel: ExperimentView) -> str:
    return f"Distance ({difference_unit_name(panel.measure)})"
