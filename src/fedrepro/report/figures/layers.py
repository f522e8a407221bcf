"""Lines over categories, such as a network's layers: y is a column of a study, mean over seeds with a band of one standard
deviation; one line for each series of each experiment."""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from fedrepro.errors import UserError
from fedrepro.report.evidence import Evidence, source
from fedrepro.report.figures import base
from fedrepro.report.figures._style import LINES, MARKERS, colours, grid, scale_note
from fedrepro.report.known import Known
from fedrepro.report.loading import Results


class Figure(base.Figure):
    """`names`: experiments, with what they are called in the legend. Categories come in the order of the rows."""

    names: dict[str, str] = Field(min_length=1)
    of: str  # the study
    series: tuple[str, ...] = ()
    x: str
    y: str
    label: str  # of the vertical axis, with its unit
    log: bool = False
    shows: ClassVar = "a number by layer, one line per method"

    def check(self, known: Known) -> None:
        for name in self.names:
            known.at("names").study(name, self.of, self.series)

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(self.names)

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [source(name, self.of) for name in self.names]

    def _found(self, evidence: Evidence) -> dict[str, Results]:
        found = {name: evidence.study(name, self.of) for name in self.names}
        return {name: results for name, results in found.items() if not results.skipped}

    def skipped(self, evidence: Evidence) -> str | None:
        return None if self._found(evidence) else evidence.study(next(iter(self.names)), self.of).skipped

    def first(self, evidence: Evidence) -> Results:
        return next(iter(self._found(evidence).values()))

    def draw(self, axes: Any, evidence: Evidence) -> None:
        found = self._found(evidence)
        lines = [(name, label) for name, results in found.items() for label in self.series or results.labels]
        places: dict[str, int] = {}
        colour = colours(list(found.values()))
        for name, label in lines:
            values = self._values(found[name], label)
            xs = [places.setdefault(category, len(places)) for category in values]
            means = [statistics.fmean(own) for own in values.values()]
            called = ", ".join(part for part in (self.names[name] if len(found) > 1 else "", label) if part)
            place = list(found).index(name)
            [line] = axes.plot(xs, means, marker=MARKERS[place], markersize=3.5, linewidth=1, color=colour[label], label=called)
            line.set_dashes(LINES[place % len(LINES)] or (None, None))
            if any(len(own) > 1 for own in values.values()):
                wide = [statistics.stdev(own) if len(own) > 1 else 0.0 for own in values.values()]
                band = ([mean + sign * by for mean, by in zip(means, wide, strict=True)] for sign in (-1, 1))
                axes.fill_between(xs, *band, color=colour[label], alpha=0.15, linewidth=0)
        axes.set(xlabel=self.x, ylabel=self.label, yscale="log" if self.log else "linear")
        slanted = sum(map(len, places)) > 30
        axes.set_xticks(range(len(places)), list(places), rotation=45 * slanted, ha="right" if slanted else "center")
        scale_note(axes, self.first(evidence))
        grid(axes)

    def _values(self, results: Results, label: str) -> dict[str, list[float]]:
        """Category -> the value of each seed."""
        found = defaultdict(list)
        for row in results.good(label):
            if missing := [column for column in (self.x, self.y) if column not in row]:
                raise UserError(f"{self.title}: no column '{missing[0]}' in the study: choose from {', '.join(row)}")
            found[row[self.x]].append(float(row[self.y]))
        return found

    def told(self, evidence: Evidence) -> list[str]:
        results = list(self._found(evidence).values())
        count = base.seeds(results)
        band = ", band of one standard deviation" if "mean" in count else ""
        return [
            f"{count[:1].upper()}{count[1:]}{band}.",
            *(text for one in results for text in base.lost(one)),
            base.data(results),
        ]
