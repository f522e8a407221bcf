"""Rounds until each target, and the saving against a baseline: one row for each panel, target and series."""

from typing import Annotated

from pydantic import Field

from fedrepro.config import Count
from fedrepro.metrics import mean_last
from fedrepro.report.evidence import Evidence, Panel
from fedrepro.report.known import Known
from fedrepro.report.numbers import NONE, column, mean, megabytes, shown
from fedrepro.report.tables import base

FINAL = 5  # rounds whose mean is the final accuracy


class Table(base.WithTargets):
    """`reported`: what the paper's table prints of a series, [rounds, ...], one number for each target of the scale that is
    compared in full; where nothing is, the first crossing of its curve stands there."""

    reported: dict[str, Annotated[tuple[Count, ...], Field(min_length=1)]] = {}

    def check(self, known: Known) -> None:
        super().check(known)
        if self.reported and len(self.panels) != 1:
            known.at("reported").refuse("numbers of rounds need a table of one panel")
        for label, values in self.reported.items():
            shown = known.at("reported").ref(self.panels[0], [label])
            for scale in known.full:
                if len(self.targets.get(scale, [scale] if scale in shown.target else [])) != len(values):
                    known.at("reported", label).refuse(f"needs one number for each target at scale {scale}")

    def rows(self, panels: list[Panel], evidence: Evidence) -> list[dict[str, str]]:
        rows = []
        for panel in panels:
            targets = () if panel.skipped else self.at(panel)
            if not targets:
                rows.append({"Panel": panel.key, "Series": base.NOT_RUN if panel.skipped else "no target at this scale"})
            for index, target in enumerate(targets):
                rows += [self._row(panel, label, index, target, evidence.curves) for label in panel.results.labels]
        return rows

    def _row(self, panel: Panel, label: str, index: int, target: float, curves: dict) -> dict[str, str]:
        row = {"Panel": panel.key, "Series": label, **base.target(panel, target)}
        row["Rounds"] = base.rounds(panel, label, target, 1)
        if self.smooth > 1:
            row[f"Rounds, mean of {self.smooth}"] = base.rounds(panel, label, target, self.smooth)
        row["Saved vs " + self.baseline] = base.saved(panel, label, self.baseline, target)
        row |= (
            self._printed(panel, label, index) if self.reported else {"Paper's rounds": _plotted(panel, label, target, curves)}
        )
        row[column("Final", panel.measure)] = shown(panel.measure, [mean_last(c, FINAL) for c in panel.curves(label).values()])
        row["MB per round"] = f"{mean([megabytes(run) for run in panel.results.runs(label)]):.3g}"
        return row | {"Seeds": panel.seeds(label)}

    def _printed(self, panel: Panel, label: str, index: int) -> dict[str, str]:
        """What the paper's table says, and the saving that follows from it; only where ours may be held against it."""
        told = {name: values[index] for name, values in self.reported.items()} if panel.full else {}
        pair = (told.get(label), told.get(self.baseline))
        reduced = NONE if label == self.baseline or None in pair else f"{100 * (1 - pair[0] / pair[1]):z.1f} %"
        return {"Paper's rounds": str(told.get(label, NONE)), "Paper's saving": reduced}

    def told(self, panels: list[Panel]) -> list[str]:
        smooth = f", or in which its mean with the {self.smooth - 1} rounds before does" if self.smooth > 1 else ""
        parts = [f"Rounds: the first in which {base.measured(panels)} reaches the target{smooth}"]
        parts.append(f"Saved: 1 - rounds / rounds of {self.baseline}, seed by seed")
        if panels[0].full:
            parts.append("Paper's rounds: " + ("as it prints them" if self.reported else "the first crossing of its curve"))
        parts += [f"{name}: mean of the last {FINAL} rounds" for name in dict.fromkeys(_final(panel) for panel in panels)]
        return [*parts, "MB: millions of bytes, down and up, of all participants of a round"]


def _final(panel: Panel) -> str:
    return column("Final", panel.measure).rpartition(" (")[0]


def _plotted(panel: Panel, label: str, target: float, curves: dict) -> str:
    """From the paper's curve, and only where our numbers may be held against it."""
    if not panel.full or label not in panel.shown.reported:
        return NONE
    round = panel.rounds_to(curves[panel.shown.reported[label]], target)
    return "never" if round is None else f"{round:g}"
