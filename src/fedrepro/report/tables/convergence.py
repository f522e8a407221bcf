"""Series by panels: the mean of the last rounds, beside it what the paper reports, the best of each column marked."""

from fedrepro.config import Count, NonNegative
from fedrepro.metrics import mean_last
from fedrepro.report.evidence import Evidence, Panel
from fedrepro.report.known import Known
from fedrepro.report.numbers import NONE, factor, mean, shown, unit
from fedrepro.report.tables import base

BEST = " *"


class Table(base.Table):
    """`reported`: what the paper's table prints, series -> {panel: value}, 0..1, of a loss in nats."""

    last: Count
    reported: dict[str, dict[str, NonNegative]] = {}

    def check(self, known: Known) -> None:
        super().check(known)
        panels = {ref.key: ref for ref in self.panels}
        for label, values in self.reported.items():
            known.at("reported").names("panel of this table", values, panels)
            for key, value in values.items():
                shown = known.at("reported").ref(panels[key], [label])
                known.at("reported", label, key).values(shown.measure, [value])

    def rows(self, panels: list[Panel], evidence: Evidence) -> list[dict[str, str]]:
        if all(panel.skipped for panel in panels):
            return [{"Series": base.NOT_RUN}]
        rows = {label: {"Series": label} for panel in panels for label in panel.results.labels}
        for panel in panels:
            told = {label: values[panel.key] for label, values in self.reported.items() if panel.key in values}
            told = told if panel.full else {}
            best, highest, title = _best(self._finals(panel), panel), _best(told, panel), unit(panel.measure)
            for label, row in rows.items():
                row[f"{panel.key} ({title})"] = self._final(panel, label) + BEST * (label in best)
                if self.reported:
                    value = shown(panel.measure, [told[label]]) if label in told else NONE
                    row[f"{panel.key}, paper ({title})"] = value + BEST * (label in highest)
        return list(rows.values())

    def _final(self, panel: Panel, label: str) -> str:
        """Mean over seeds, their standard deviation and number; what became of those that diverged."""
        if panel.skipped or label not in panel.results.labels:
            return base.NOT_RUN if panel.skipped else NONE
        values = self._last(panel, label)
        number = f"{shown(panel.measure, values)} (n = {len(values)})" if values else NONE
        lost = panel.results.diverged(label)
        return "; ".join(([number] if values or not lost else []) + lost)

    def _finals(self, panel: Panel) -> dict[str, float]:
        """Series -> mean over seeds, of those that lost no run: the seeds that are left do not speak for the one that is
        lost."""
        whole = [label for label in panel.results.labels if not panel.results.diverged(label)]
        found = {label: self._last(panel, label) for label in whole}
        return {label: mean(values) for label, values in found.items() if values}

    def _last(self, panel: Panel, label: str) -> list[float]:
        """The reduction of each seed. A run that is shorter gives the mean of its rounds, without the untrained model."""
        return [mean_last(curve, min(self.last, curve[-1][0])) for curve in panel.curves(label).values()]

    def told(self, panels: list[Panel]) -> list[str]:
        parts = [f"Mean of the last {'round' if self.last == 1 else f'{self.last} rounds'}: {base.measured(panels)}"]
        ends = {panel.key: min(_ends(panel), default=self.last) for panel in panels}
        parts += [f"{key} has {end} rounds only, all of which count" for key, end in ends.items() if end < self.last]
        return [*parts, "* is the best of its column, of the series that lost no run"]


def _ends(panel: Panel) -> list[int]:
    """The last round of every finished run."""
    return [curve[-1][0] for label in panel.results.labels for curve in panel.curves(label).values()]


def _best(values: dict[str, float], panel: Panel) -> set[str]:
    """Who is first among several, at the digits that are shown."""
    sign = -1 if panel.measure.score == "loss" else 1
    seen = {
        label: sign * round(factor(panel.measure) * value, 2 if panel.measure.percent else 4) for label, value in values.items()
    }
    return {label for label, value in seen.items() if value == max(seen.values())} if len(seen) > 1 else set()
