"""Series by panels: the mean of the last rounds, beside it what the paper reports."""

from fedrepro.config import Count, NonNegative
from fedrepro.metrics import mean_last
from fedrepro.report.evidence import Evidence, Panel
from fedrepro.report.grid import Row, mark
from fedrepro.report.known import Known
from fedrepro.report.numbers import Number, level, unit
from fedrepro.report.tables import base


class Table(base.Table):
    """`reported`: what the paper's table prints, series -> {panel: value}, 0..1, of a loss in nats."""

    last: Count
    reported: dict[str, dict[str, NonNegative]] = {}
    best = "of its column"

    def check(self, known: Known) -> None:
        super().check(known)
        panels = {ref.key: ref for ref in self.panels}
        for label, values in self.reported.items():
            known.at("reported").names("panel of this table", values, panels)
            for key, value in values.items():
                shown = known.at("reported").ref(panels[key], [label])
                known.at("reported", label, key).values(shown.measure, [value])

    def rows(self, panels: list[Panel], evidence: Evidence) -> list[Row]:
        """What the paper reports stands there only where ours is held against it."""
        rows: dict[str, Row] = {label: {"Series": label} for panel in panels for label in panel.results.labels}
        for panel in panels:
            told = {label: values[panel.key] for label, values in self.reported.items() if panel.key in values}
            title, loss = unit(panel.measure), panel.measure.score == "loss"
            ours, theirs = f"{panel.name} ({title})", f"{panel.name}, paper ({title})"
            for label, row in rows.items():
                row[ours] = self._final(panel, label)
                if told and panel.full:
                    row[theirs] = _printed(panel, [told[label]] if label in told else [])
            mark(list(rows.values()), ours, loss, base.lost(panel))
            mark(list(rows.values()), theirs, loss)
        return list(rows.values())

    def _final(self, panel: Panel, label: str) -> Number:
        """Over seeds. A run that is shorter gives the mean of its rounds, without the untrained model."""
        curves = panel.curves(label).values() if label in panel.results.labels else ()
        return level(panel.measure, [mean_last(curve, min(self.last, curve[-1][0])) for curve in curves])

    def told(self, panels: list[Panel]) -> list[str]:
        parts = [f"Mean of the last {'round' if self.last == 1 else f'{self.last} rounds'}: {base.measured(panels)}"]
        ends = {panel.name: min(_ends(panel), default=self.last) for panel in panels}
        return parts + [f"{name} has {end} rounds only, all of which count" for name, end in ends.items() if end < self.last]


def _printed(panel: Panel, values: list[float]) -> Number:
    found = level(panel.measure, values)
    return Number(found.value, found.digits)


def _ends(panel: Panel) -> list[int]:
    """The last round of every finished run."""
    return [curve[-1][0] for label in panel.results.labels for curve in panel.curves(label).values()]
