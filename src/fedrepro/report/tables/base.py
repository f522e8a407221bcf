"""Base classes of all kinds of tables, and the sentences that their captions and notes share."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from fedrepro.report.inputs.artifact import PanelsArtifact
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.statistics import grouped
from fedrepro.report.tables._grid import PANEL, SERIES, Grid, Row, mark_best


class Table(PanelsArtifact):
    """A table over some experiments."""

    of_runs: ClassVar = True  # whether its numbers are of the panels' runs
    best_among: ClassVar[str]  # the numbers that the bold one is the best of, in words

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        names = [ref.resolved(checker.display_options).name or ref.key for ref in self.panels]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            checker.at("panels").fail(
                f"{', '.join(repeated)}: give panels of one experiment a name each"
            )

    def build(self, evidence: PaperData) -> Grid:
        panels = self.available(evidence)
        return Grid.from_rows(self.rows(panels, evidence), self.reported_columns(panels))

    def paper_ends(self, ref: ExperimentRef) -> dict[str, float]:
        """Return series -> the value that the paper prints for the end of a run."""
        return {}

    def paper_savings(self, ref: ExperimentRef) -> dict[str, float]:
        """Return series -> the share of the baseline's rounds that the paper says it saves."""
        return {}

    def reported_columns(self, panels: list[ExperimentView]) -> dict[str, str]:
        """Return column of the paper's values -> column of ours."""
        return {}

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        """Return the rows of panels that have results, by default one for each panel, target and
        series; mark the best."""
        rows: list[Row] = []
        for panel in panels:
            for place, target in enumerate(self.targets_at(panel) or (None,)):
                cells = {
                    label: self.cells(panel, label, place, target, evidence)
                    for label in panel.results.labels
                }
                group = [
                    {PANEL: panel.name, SERIES: label} | own for label, own in cells.items() if own
                ]
                for column, lowest in self.best_columns(panel).items():
                    mark_best(group, column, lowest, diverged_series(panel))
                rows += group
        return rows

    def targets_at(self, panel: ExperimentView) -> tuple[float, ...]:
        """Return the targets at the panel's scale that have rows; empty if there are none."""
        return ()

    def cells(
        self,
        panel: ExperimentView,
        label: str,
        place: int,
        target: float | None,
        evidence: PaperData,
    ) -> Row:
        """Return the columns of a row; `place`: the target's among those of the panel. Empty: there
        is no such row."""
        raise NotImplementedError

    def best_columns(self, panel: ExperimentView) -> dict[str, bool]:
        """Return the columns whose best number is marked, with whether that is the lowest."""
        return {}

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        """Return sentences that explain the numbers of panels with results (at least one panel)."""
        raise NotImplementedError

    def caption(self, evidence: PaperData) -> str:
        """Return the text above the table: title, panel if there is only one, number of seeds."""
        panels = self.available(evidence)
        panel_titles = [panels[0].title] if len(panels) == 1 and panels[0].display.about else []
        return join_sentences([self.title, *panel_titles, *self._seeds(panels)])

    def notes(self, evidence: PaperData) -> str:
        """Return the text below the table: explanations, missing results, data, scale."""
        panels = self.views(evidence)
        shown = self.available(evidence)
        parts = [panel.title for panel in shown if panel.display.about and len(shown) > 1]
        parts += self.explanations(shown) if shown else []
        if self.build(evidence).best_cells:
            lost = any(diverged_series(panel) for panel in shown)
            rest = "; series with a diverged run are left out" if lost else ""
            test = "a paired test over seeds (95 %) separates it from every other one"
            parts.append(f"Bold: the best {self.best_among}, where {test}{rest}")
        for panel in shown if self.of_runs else ():
            for label in panel.results.labels:
                parts += [
                    f"{panel.name}, {label}: {text}" for text in panel.results.diverged_runs(label)
                ]
        parts += not_run_sentence(panels)
        if data := sorted({run["dataset"] for panel in shown for run in panel.results.runs()}):
            parts.append(f"Data: {', '.join(data)}")
        return join_sentences([*parts, evidence.scale_sentence(self.experiments({}))])

    def description(self, evidence: PaperData) -> str:
        """Return caption and notes, without the title."""
        return " ".join(
            filter(
                None, [join_sentences(self._seeds(self.available(evidence))), self.notes(evidence)]
            )
        )

    def _seeds(self, panels: list[ExperimentView]) -> list[str]:
        return seeds_sentence(panels) if self.of_runs else []


def join_sentences(parts: list[str]) -> str:
    """Join parts into one text and end each with a full stop, unless it ends with a punctuation
    mark."""
    sentences = [part if part[-1:] in ".?!" else f"{part}." for part in parts]
    return " ".join(" ".join(sentences).split())


def measures_phrase(panels: list[ExperimentView]) -> str:
    """Return the panels' measures in words, such as "test accuracy"."""
    words = {panel.name: _measure_phrase(panel) for panel in panels}
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    return ", ".join(f"{text} ({name})" for name, text in words.items())


def _measure_phrase(panel: ExperimentView) -> str:
    measure = panel.measure
    return f"the {measure.over}' mean {measure.title}" if measure.over else measure.title


def not_run_sentence(panels: Sequence[ExperimentView]) -> list[str]:
    """Return sentences on the panels that were not run, grouped by reason, and on unfinished
    series."""
    groups = grouped((panel.missing_reason, panel.name) for panel in panels if panel.missing_reason)
    not_run = [f"{', '.join(names)} ({reason})" for reason, names in groups.items()]
    labels_by_panel = {panel.name: panel.results.unfinished_series for panel in panels}
    unfinished = [
        f"{', '.join(labels)} ({name})" for name, labels in labels_by_panel.items() if labels
    ]
    sentences = [f"Not run: {'; '.join(not_run)}"] if not_run else []
    return [*sentences, f"Not finished: {'; '.join(unfinished)}"] if unfinished else sentences


def seeds_sentence(panels: Sequence[ExperimentView]) -> list[str]:
    """Return a sentence on the number of seeds: the most frequent one, and the series or panels
    with another one."""
    counts = {
        panel.name: {label: len(panel.curves(label)) for label in panel.results.labels}
        for panel in panels
    }
    frequencies = Counter(count for by_label in counts.values() for count in by_label.values())
    del frequencies[0]
    if not frequencies:
        return []
    usual = max(frequencies, key=lambda count: (frequencies[count], count))
    exceptions = []
    for name, by_label in counts.items():
        exceptions += _other_counts(name, by_label, usual, len(panels) > 1)
    text = f"n = {usual} seed{'s' if usual > 1 else ''}" + (
        f" ({'; '.join(exceptions)})" if exceptions else ""
    )
    return [
        f"{text}; ± is half of the 95 % interval of the mean"
        if max(frequencies) > 1
        else f"{text}, so without intervals"
    ]


def _other_counts(
    panel: str, counts: Mapping[str, int], usual: int, several_panels: bool
) -> list[str]:
    """Return the series of a panel whose number of seeds is not the usual one; the panel itself if
    all have the same number."""
    suffix = f" of {panel}" if several_panels else ""
    if several_panels and len(set(counts.values())) == 1:
        counts, suffix = {panel: next(iter(counts.values()))}, ""
    return [
        f"{label}{suffix}: {count}" for label, count in counts.items() if count not in (0, usual)
    ]


def diverged_series(panel: ExperimentView) -> list[str]:
    """Return the labels of series with a diverged run."""
    return [label for label in panel.results.labels if panel.results.diverged_runs(label)]
