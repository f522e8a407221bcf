"""One figure of several: rows of other figures of the paper, each of which also stands alone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from fedrepro.report.figures import base
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.runs.reasons import MissingReason


class Figure(base.Figure):
    """A figure of several others. `rows`: their keys. The title of a panel is the figure's `name`, if it has one, or its
    title."""

    rows: tuple[tuple[str, ...], ...] = Field(min_length=1)
    has_csv: ClassVar = False  # its parts have one each
    alt_text: ClassVar = "several panels, each of which is also shown alone"

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def members(self, figures: Mapping[str, base.Figure]) -> list[base.Figure]:
        return [figures[name] for name in self.names]

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(dict.fromkeys(name for figure in self.members(figures) for name in figure.experiments(figures)))

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return list(dict.fromkeys(name for figure in self.members(figures) for name in figure.sources(figures)))

    def check(self, checker: ReferenceChecker) -> None:
        single = [name for name, figure in checker.figures.items() if figure.kind != self.kind]
        checker.at("rows").check_names("figure", self.names, single)

    def grid(self, evidence: PaperData) -> list[list[base.FigurePanel]]:
        """Return the rows of panels that have results; the caption names the others."""
        grid = []
        for row in self.rows:
            panels: list[base.FigurePanel] = []
            for name in row:
                panels += self._titled_panels(evidence, evidence.figures[name])
            grid.append([panel for panel in panels if not panel.missing_reason])
        return [row for row in grid if row]

    def _titled_panels(self, evidence: PaperData, figure: base.Figure) -> list[base.FigurePanel]:
        panels = [panel for row in figure.grid(evidence) for panel in row]
        return [replace(panel, title=panel.title or _short_title(figure)) for panel in panels]

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        reasons = [figure.missing_reason(evidence) for figure in self.members(evidence.figures)]
        return None if None in reasons else reasons[0]

    def explanations(self, evidence: PaperData) -> list[str]:
        """Return each sentence of the panels once, with the titles of its panels unless all share it."""
        members = self.members(evidence.figures)
        missing = {_short_title(figure): figure.missing_reason(evidence) for figure in members}
        drawn = [figure for figure in members if not figure.missing_reason(evidence)]
        explained = {_short_title(figure): figure.explanations(evidence) for figure in drawn}
        titles_by_sentence: dict[str, list[str]] = {}
        for title, sentences in explained.items():
            for sentence in dict.fromkeys(sentences):
                titles_by_sentence.setdefault(sentence, []).append(title)
        text = []
        for sentence, titles in titles_by_sentence.items():
            text.append(sentence if len(titles) == len(explained) else f"{sentence.rstrip('.')} ({'; '.join(titles)}).")
        return [*text, *base.not_shown_sentences(missing)]

    def first_results(self, evidence: PaperData) -> Results:
        results = (evidence.results[name] for name in self.sources(evidence.figures))
        return next(result for result in results if not result.missing_reason)


def _short_title(figure: base.Figure) -> str:
    return figure.name or figure.title
