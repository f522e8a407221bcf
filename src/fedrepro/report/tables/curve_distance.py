"""How far our curves lie from the paper's: every series that has one there, with its root mean squared distance from it."""

import math

from fedrepro.config.types import Count
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, difference_unit_name, measure_cell
from fedrepro.report.statistics import curve_distance
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row, mark_best

CURVE = "Paper's curve"


class Table(base.Table):
    """Both curves averaged over `smooth` rounds, over the first `rounds` (None: all that both have)."""

    smooth: Count = 1
    rounds: Count | None = None
    best_among = "of those that are compared with the same curve"

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for ref in self.panels:
            if not ref.resolved(checker.display_options).reported:
                compared = [name for name, shown in checker.display_options.items() if shown.reported]
                checker.at("panels").check_names("experiment with reported curves", [ref.experiment], compared)

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        found: list[Row] = []
        for panel in panels:
            if panel.comparable:
                for label, key in panel.display.reported.items():
                    reported = [point for point in evidence.curves[key] if point[0] <= (self.rounds or math.inf)]
                    found.append(self._row(panel, label, evidence.curve_name(key), reported))
        gone = {(panel.name, label) for panel in panels for label in base.diverged_series(panel)}
        whole = [row for row in found if (row["Panel"], row["Series"]) not in gone]
        for curve in dict.fromkeys(row[CURVE] for row in whole):
            for title in {_title(panel) for panel in panels}:
                mark_best([row for row in whole if row[CURVE] == curve], title, lowest=True)
        return found

    def _row(self, panel: ExperimentView, label: str, curve: str, reported: list) -> Row:
        pairs = [curve_distance(found, reported, self.smooth) for found in panel.curves(label).values()]
        values, counts = [both[0] for both in pairs if both], sorted({both[1] for both in pairs if both})
        row: Row = {"Panel": panel.name, "Series": label, CURVE: curve, _title(panel): measure_cell(panel.measure, values)}
        row["Rounds compared"] = (
            Number(counts[0]) if len(counts) == 1 else Number(placeholder=" or ".join(map(str, counts)) or "none")
        )
        return row

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        smooth = f", both averaged over {self.smooth} measured rounds" if self.smooth > 1 else ""
        rounds = f", in the first {self.rounds} rounds" if self.rounds else ""
        parts = [f"Root mean squared difference of {base.measures_sentence(panels)} from the paper's curve{smooth}{rounds}"]
        return parts if panels[0].comparable else [f"Scale {panels[0].scale} is not held against the paper's curves", *parts]


def _title(panel: ExperimentView) -> str:
    return f"Distance ({difference_unit_name(panel.measure)})"
