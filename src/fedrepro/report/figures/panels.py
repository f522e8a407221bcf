"""One figure of several: rows of other figures of the paper, each of which is there alone as well."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from fedrepro.report.evidence import Evidence
from fedrepro.report.figures import base
from fedrepro.report.known import Known


class Figure(base.Figure):
    """`rows`: names of figures. Each is called by its `name`, else by its title."""

    rows: tuple[tuple[str, ...], ...] = Field(min_length=1)
    shows: ClassVar = "several panels, each of which is shown alone too"

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def members(self, figures: Mapping[str, base.Figure]) -> list[base.Figure]:
        return [figures[name] for name in self.names]

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(dict.fromkeys(name for figure in self.members(figures) for name in figure.experiments(figures)))

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(dict.fromkeys(name for figure in self.members(figures) for name in figure.sources(figures)))

    def parts(self, figures: Mapping[str, base.Figure]) -> list[base.Figure]:
        return [self, *self.members(figures)]

    def check(self, known: Known) -> None:
        single = [name for name, figure in known.figures.items() if figure.kind != self.kind]
        known.at("rows").names("figure", self.names, single)

    def grid(self, evidence: Evidence) -> list[list[base.Part]]:
        return [[part for name in row for part in self._titled(evidence, name)] for row in self.rows]

    def _titled(self, evidence: Evidence, name: str) -> list[base.Part]:
        figure = evidence.figures[name]
        parts = [part for row in figure.grid(evidence) for part in row]
        called = getattr(figure, "name", None) or figure.title
        return [base.Part(part.title or called, part.draw, part.skipped) for part in parts]

    def skipped(self, evidence: Evidence) -> str | None:
        reasons = [figure.skipped(evidence) for figure in self.members(evidence.figures)]
        return None if None in reasons else reasons[0]

    def told(self, evidence: Evidence) -> list[str]:
        """What the first panel that was run tells; which were not run."""
        members = {name: evidence.figures[name] for name in self.names}
        missing = {name: reason for name, figure in members.items() if (reason := figure.skipped(evidence))}
        first = next(figure for name, figure in members.items() if name not in missing)
        return [*first.told(evidence), *(f"{name} was not run: {reason}." for name, reason in missing.items())]

    def first(self, evidence: Evidence):
        return next(results for name in self.sources(evidence.figures) if not (results := evidence.results[name]).skipped)
