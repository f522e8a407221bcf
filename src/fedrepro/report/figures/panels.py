"""One figure of several: rows of other figures of the paper, each of which also stands alone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from fedrepro.report.figures.base import Figure, FigurePanel, not_shown_sentences
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.statistics import grouped
from fedrepro.runs.reasons import MissingReason


class Composite(Figure):
    """A figure of several others. `rows`: their keys. The title of a panel is the figure's `name`,
    if it has one, or its title."""

    rows: tuple[tuple[str, ...], ...] = Field(min_length=1)
    has_csv: ClassVar = False  # its parts have one each
    alt_text: ClassVar = "several panels, each of which is also shown alone"

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def sources(self, figures: Mapping[str, Figure]) -> list[str]:
        return list(
            dict.fromkeys(
                source for name in self.names for source in figures[name].sources(figures)
            )
        )

    def check(self, checker: ReferenceChecker) -> None:
        single = [name for name, figure in checker.figures.items() if figure.kind != self.kind]
        checker.at("rows").check_names("figure", self.names, single)

    def grid(self, evidence: PaperData) -> list[list[FigurePanel]]:
        """Return the rows of panels that have results; the caption names the others."""
        grid = [
            [panel for name in row for panel in _titled_panels(evidence.figures[name], evidence)]
            for row in self.rows
        ]
        return [
            shown for row in grid if (shown := [panel for panel in row if not panel.missing_reason])
        ]

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        reasons = [evidence.figures[name].missing_reason(evidence) for name in self.names]
        return None if None in reasons else reasons[0]

    def explanations(self, evidence: PaperData) -> list[str]:
        """Return each sentence of the panels once, with the titles of its panels unless all share
        it."""
        heads = [_short_title(evidence.figures[name]).partition(": ")[0] for name in self.names]
        titles = (
            heads
            if len({*heads}) == len(heads)
            else [_short_title(evidence.figures[name]) for name in self.names]
        )
        members = dict(zip(titles, (evidence.figures[name] for name in self.names), strict=True))
        missing = {title: figure.missing_reason(evidence) for title, figure in members.items()}
        explained = {
            title: figure.explanations(evidence)
            for title, figure in members.items()
            if not missing[title]
        }
        titles_by_sentence = grouped(
            (text, title) for title, texts in explained.items() for text in dict.fromkeys(texts)
        )
        text = [
            sentence
            if len(titles) == len(explained)
            else f"{sentence.rstrip('.')} ({'; '.join(titles)})."
            for sentence, titles in titles_by_sentence.items()
        ]
        return [*text, *not_shown_sentences(missing)]

    def first_results(self, evidence: PaperData) -> Results:
        results = (evidence.results[name] for name in self.sources(evidence.figures))
        return next(result for result in results if not result.missing_reason)


def _titled_panels(figure: Figure, evidence: PaperData) -> list[FigurePanel]:
    panels = [panel for row in figure.grid(evidence) for panel in row]
    return [replace(panel, title=panel.title or _short_title(figure)) for panel in panels]


def _short_title(figure: Figure) -> str:
    return figure.name or figure.title
