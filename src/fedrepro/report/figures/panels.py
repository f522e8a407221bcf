"""One figure of several: rows of other figures of the paper, each of which is there alone as well."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from fedrepro.report.figures import base
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.runs.reasons import MissingReason


class Figure(base.Figure):
    """`rows`: names of figures. Each is called by its `name`, else by its title."""

    rows: tuple[tuple[str, ...], ...] = Field(min_length=1)
    has_csv: ClassVar = False  # the others have their numbers
    alt_text: ClassVar = "several panels, each of which is shown alone too"

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
        return [[part for name in row for part in self._titled(evidence, name)] for row in self.rows]

    def _titled(self, evidence: PaperData, name: str) -> list[base.FigurePanel]:
        figure = evidence.figures[name]
        parts = [part for row in figure.grid(evidence) for part in row]
        return [base.FigurePanel(part.title or _called(figure), part.draw, part.missing_reason) for part in parts]

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        reasons = [figure.missing_reason(evidence) for figure in self.members(evidence.figures)]
        return None if None in reasons else reasons[0]

    def explanations(self, evidence: PaperData) -> list[str]:
        """What all panels tell, once; what some of them do, with their names; which were not run."""
        members = self.members(evidence.figures)
        run = {_called(figure): figure.explanations(evidence) for figure in members if not figure.missing_reason(evidence)}
        text = []
        for sentence in dict.fromkeys(sentence for told in run.values() for sentence in told):
            where = [called for called, told in run.items() if sentence in told]
            text.append(sentence if len(where) == len(run) else f"{sentence.rstrip('.')} ({'; '.join(where)}).")
        missing = {_called(figure): reason for figure in members if (reason := figure.missing_reason(evidence))}
        return [*text, *base.not_shown_sentences(missing)]

    def first_results(self, evidence: PaperData):
        results = (evidence.results[name] for name in self.sources(evidence.figures))
        return next(found for found in results if not found.missing_reason)


def _called(figure: base.Figure) -> str:
    return figure.name or figure.title
