"""Table of tuning: what was chosen for each series, of how many trials, and how much the choice mattered."""

from statistics import median
from typing import ClassVar

from fedrepro.core.metrics import MEASURES
from fedrepro.report.inputs.panel import ExperimentView, PaperData
from fedrepro.report.numbers import Number, display_factor, measure_unit_name
from fedrepro.report.tables import base
from fedrepro.report.tables._grid import Row


class Table(base.Table):
    """Chosen values of the tuned series of some experiments, with the best, the median and the worst score of the trials."""

    of_runs: ClassVar = False

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        rows: list[Row] = []
        for panel in panels:
            for label, series in panel.results.note["series"].items():
                if tuned := series.get("tuned"):
                    rows.append({"Panel": panel.name, "Series": label} | _cells(tuned))
        return rows

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        tuned = [series["tuned"] for panel in panels for series in panel.results.note["series"].values() if "tuned" in series]
        names = ", ".join(dict.fromkeys(MEASURES[one["by"]].title for one in tuned))
        return (
            [f"Best, median and worst: {names} of the trials, the mean over their seeds"] if tuned else ["No series is tuned"]
        )


def _cells(tuned: dict) -> Row:
    """Return the cells of a series; a diverged trial is the worst, and has no number."""
    measure = MEASURES[tuned["by"]]
    factor, digits = display_factor(measure), 1 if measure.percent else 3
    finite = sorted((score for score in tuned["scores"] if score is not None), reverse=measure.percent)
    scores = {"Best": finite[0], "Median": median(finite), "Worst": finite[-1]}
    if len(finite) < len(tuned["scores"]):
        scores["Worst"] = None
    numbers = {
        f"{name} ({measure_unit_name(measure)})": Number(placeholder="diverged")
        if score is None
        else Number(factor * score, digits)
        for name, score in scores.items()
    }
    chosen: Row = {
        "Chosen": ", ".join(f"{name} {value}" for name, value in tuned["values"].items()),
        "At the edge": ", ".join(name for name in tuned["at_edge"] if len(tuned["grid"][name]) > 2) or "-",  # two: only edges
        "Trials": Number(tuned["trials"]),
    }
    return chosen | numbers
