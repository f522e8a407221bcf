"""Base class of all kinds of figures, and the sentences that their captions share.

A kind computes what it shows in `data`, which axes, CSV file and caption read. It draws on given
matplotlib axes and does not import matplotlib, so that planning needs none; `_layout.py` creates
axes, legends and files.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from fedrepro.core.formatting import count
from fedrepro.report.inputs.artifact import Artifact, PanelsArtifact
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, PaperData, split_results_name
from fedrepro.report.statistics import estimate, grouped
from fedrepro.runs.reasons import MissingReason

ALL_SCALES = "all"  # key of a remark for every scale
SPREAD_COLUMNS = ("mean", "half_width", "seeds")
F = TypeVar("F")
T = TypeVar("T")


@dataclass(frozen=True)
class FigurePanel:
    """A panel: its title in a figure of several, the function that draws it, and the reason if it
    cannot be drawn."""

    title: str
    draw: Callable[[Any], None]
    missing_reason: MissingReason | None = None


def computed_once(compute: Callable[[F, PaperData], T]) -> Callable[[F, PaperData], T]:
    """Make a figure's `data` compute what it shows once for the same evidence."""

    @functools.wraps(compute)
    def data(figure: F, evidence: PaperData) -> T:
        if id(figure) not in evidence.shown:
            # holding the figure keeps its id from another
            evidence.shown[id(figure)] = figure, compute(figure, evidence)
        return evidence.shown[id(figure)][1]

    return data


class Figure(Artifact):
    """A figure of a paper. `remarks`: sentences added to the caption, by scale or for `all`
    scales."""

    remarks: dict[str, str] = {}

    alt_text: ClassVar[str]
    height: ClassVar[float] = 2.7  # inches, of a single panel
    has_csv: ClassVar[bool] = True  # whether its numbers are also written as .csv

    def is_worth_drawing(self, evidence: PaperData) -> bool:
        """Return whether a drawing of what there is tells a reader something, so that pages show
        it."""
        return True

    def first_results(self, evidence: PaperData) -> Results:
        """Return the first results that are drawn."""
        return self.available(evidence)[0].results

    def grid(self, evidence: PaperData) -> list[list[FigurePanel]]:
        """Return the rows of panels."""
        return [
            [FigurePanel("", lambda axes: self.draw(axes, evidence), self.missing_reason(evidence))]
        ]

    def draw(self, axes: Any, evidence: PaperData) -> None:
        """Draw a figure of one panel; labelled lines and bars are collected into a legend above the
        figure."""
        raise NotImplementedError

    def caption(self, evidence: PaperData) -> str:
        """Return the title and the description."""
        return f"{self.title}. {self.description(evidence)}"

    def description(self, evidence: PaperData) -> str:
        """Return the caption without the title: measure, seeds, data and scale, or why the figure
        is not shown."""
        if reason := self.missing_reason(evidence):
            return f"Not shown at this scale: {reason}."
        results = self.first_results(evidence)
        remarks = filter(None, [self.remarks.get(ALL_SCALES), results.at_scale(self.remarks)])
        scale = evidence.scale_sentence(self.sources(evidence.figures))
        return " ".join(
            [*remarks, *self.explanations(evidence), *unfinished_sentences(self, evidence), scale]
        )

    def explanations(self, evidence: PaperData) -> list[str]:
        """Return the sentences that explain the figure, between remarks and scale."""
        raise NotImplementedError

    def csv_rows(self, evidence: PaperData) -> list[list]:
        """Return the rows of the .csv in the units of the axes, the first with the column names."""
        raise NotImplementedError


class PanelsFigure(PanelsArtifact, Figure):
    """A figure of some experiments, each by name or as `{experiment, measure, name}`."""

    def not_shown_sentences(self, evidence: PaperData) -> list[str]:
        return not_shown_sentences(
            {view.name: self.why_missing(view) for view in self.views(evidence)}
        )


def csv_spread(values: Sequence[float]) -> list:
    """Return mean, half of its 95 % interval (empty for a single value) and number of some values,
    as written to a .csv."""
    if not values:
        return ["", "", 0]
    result = estimate(values)
    return [
        _short(result.mean),
        "" if result.half_width is None else _short(result.half_width),
        len(values),
    ]


def _short(value: float) -> str:
    return f"{value:.6g}"


def seeds_sentence(results: Sequence[Results], mark: str) -> str:
    """Return a sentence on the number of seeds; `mark` is what shows the interval of their mean,
    such as a band."""
    numbers = [
        len(result.runs(label)) - len(result.diverged_runs(label))
        for result in results
        for label in result.labels
    ]
    counts = {*numbers} - {0} or {0}
    if counts <= {0, 1}:
        return f"One seed, so no {mark}."
    fewest = "" if len(counts) == 1 else f"{min(counts)} to "
    return f"Mean with its 95 % interval ({mark}) over {fewest}{max(counts)} seeds."


def emphasis_sentence(evidence: PaperData, results: Sequence[Results], how: str) -> list[str]:
    """Return a sentence on how the paper's own methods are emphasised, if there are other methods
    too."""
    styles = [(evidence.styles_of(result), result.labels) for result in results]
    proposed = [
        style.proposed
        for by_label, labels in styles
        for label, style in by_label.items()
        if label in labels
    ]
    return [f"{how}: the paper's own methods."] if any(proposed) and not all(proposed) else []


def data_sentence(results: Sequence[Results]) -> str:
    return (
        f"Data: "
        f"{', '.join(sorted({run['dataset'] for result in results for run in result.runs()}))}."
    )


def unfinished_sentences(figure: Figure, evidence: PaperData) -> list[str]:
    """Return a sentence for each experiment with unfinished series."""
    found = [
        (source, evidence.results[source].unfinished_series)
        for source in figure.sources(evidence.figures)
    ]
    unfinished = {split_results_name(source)[0]: labels for source, labels in found if labels}
    sentences = []
    for experiment, labels in unfinished.items():
        name = evidence.experiments.get(experiment, DisplayOptions()).name or experiment
        where = f" ({name})" if len(figure.experiments(evidence.figures)) > 1 else ""
        sentences.append(f"Not finished{where}: {', '.join(labels)}.")
    return sentences


def not_shown_sentences(reasons: Mapping[str, MissingReason | None]) -> list[str]:
    """Return a sentence for each reason why some parts, given by name, are not shown; None stands
    for a shown part."""
    groups = grouped((reason, name) for name, reason in reasons.items() if reason).items()
    return [
        f"{'; '.join(names)} {'are' if len(names) > 1 else 'is'} not shown: {reason}."
        for reason, names in groups
    ]


def diverged_sentences(results: Results) -> list[str]:
    """Return a sentence for each series with diverged runs."""
    texts = {label: results.diverged_runs(label) for label in results.labels}
    return [f"{label}: {', '.join(runs)}, not shown." for label, runs in texts.items() if runs]


def training_sentences(results: Sequence[Results], how: str = "") -> list[str]:
    """Return a sentence on the length of training, for all series or for each if they differ,
    followed by `how`."""
    configs = {
        label: series.get("config", {})
        for result in results
        for label, series in result.note["series"].items()
    }
    lengths = {
        label: f"{count(config['rounds'], 'round')} of "
        f"{count(config['local_epochs'], 'local epoch')}"
        for label, config in configs.items()
        if config.keys() >= {"rounds", "local_epochs"}
    }
    labels_by_length = grouped((length, label) for label, length in lengths.items())
    if len(labels_by_length) > 1:
        text = ", ".join(
            f"{length} ({', '.join(labels)})" for length, labels in labels_by_length.items()
        )
    else:
        text = next(iter(labels_by_length), "")
    return [f"Trained{' for ' * bool(text)}{text}{how}."] if text or how else []
