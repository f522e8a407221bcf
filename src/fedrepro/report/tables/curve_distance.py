"""How far our curves lie from the paper's: every series that has one there, with its root mean squared distance from it."""

import math

from fedrepro.config import Count
from fedrepro.metrics import distance
from fedrepro.report.evidence import Evidence, Panel
from fedrepro.report.known import Known
from fedrepro.report.numbers import NONE, mean, shown, unit
from fedrepro.report.tables import base


class Table(base.Table):
    """Both curves averaged over `smooth` rounds, over the first `rounds` (None: all that both have)."""

    smooth: Count = 1
    rounds: Count | None = None

    def check(self, known: Known) -> None:
        super().check(known)
        for ref in self.panels:
            if not ref.resolved(known.shown).reported:
                compared = [name for name, shown in known.shown.items() if shown.reported]
                known.at("panels").names("experiment with reported curves", [ref.experiment], compared)

    def rows(self, panels: list[Panel], evidence: Evidence) -> list[dict[str, str]]:
        rows = []
        for panel in panels:
            if panel.skipped or not panel.full:
                rows.append({"Panel": panel.key, "Series": base.NOT_RUN if panel.skipped else "not compared"})
                continue
            for label, name in panel.shown.reported.items():
                reported = [point for point in evidence.curves[name] if point[0] <= (self.rounds or math.inf)]
                rows.append(self._row(panel, label, name, reported))
        return _nearest(rows)

    def _row(self, panel: Panel, label: str, name: str, reported: list) -> dict:
        found = [distance(curve, reported, self.smooth) for curve in panel.curves(label).values()]
        values, counts = [both[0] for both in found if both], sorted({both[1] for both in found if both})
        row = {"Panel": panel.key, "Series": label, "Paper's curve": name}
        title = f"Distance ({'points' if panel.measure.percent else unit(panel.measure)})"
        row[title] = shown(panel.measure, values) if values else "; ".join(panel.results.diverged(label)) or NONE
        row["Rounds compared"] = " or ".join(map(str, counts)) or "none"
        return row | {"Seeds": str(len(values)), "mean": mean(values) if values else math.inf}

    def told(self, panels: list[Panel]) -> list[str]:
        smooth = f", both averaged over {self.smooth} rounds" if self.smooth > 1 else ""
        rounds = f", in the first {self.rounds} rounds" if self.rounds else ""
        parts = [f"Root mean squared difference of {base.measured(panels)} from the paper's curve{smooth}{rounds}"]
        return parts if panels[0].full else [f"Scale {panels[0].scale} is not held against the paper's curves", *parts]


def _nearest(rows: list[dict]) -> list[dict]:
    """Mark, among the rows that compare with the same curve of the paper, the nearest."""
    for row in rows:
        rivals = [other["mean"] for other in rows if "mean" in other and other["Paper's curve"] == row.get("Paper's curve")]
        row[""] = "nearest" if len(rivals) > 1 and row["mean"] == min(rivals) < math.inf else ""
    return [{name: value for name, value in row.items() if name != "mean"} for row in rows]
