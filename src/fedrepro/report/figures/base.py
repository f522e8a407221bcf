"""What every kind of figure has. A figure is a grid of panels; a kind draws on matplotlib's axes that it is given and imports
nothing of it, so that planning needs no matplotlib; `report/drawing.py` makes the axes, the frame around them and the files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedrepro.config.types import Frozen
from fedrepro.core.formatting import count
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, PaperData, results_name, split_results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.statistics import estimate
from fedrepro.runs.reasons import MissingReason

ALL_SCALES = "all"  # scales, of a remark


@dataclass(frozen=True)
class FigurePanel:
    """One panel: its title in a figure of several, how it is drawn, and why it is not."""

    title: str
    draw: Callable[[Any], None]
    missing_reason: MissingReason | None = None


class Figure(Frozen):
    """`name`: what it is called among others, after its number in the paper. `remarks`: sentences that belong into its caption,
    by scale or at `all` of them. A kind with one panel of one experiment overrides `draw` and `told`; others `sources`, `grid`
    and more."""

    title: str
    kind: str
    name: str | None = None
    remarks: dict[str, str] = {}

    alt_text: ClassVar[str]  # in words, for those who cannot see it
    height: ClassVar[float] = 2.7  # inches, of a single panel
    has_csv: ClassVar[bool] = True  # whether its numbers are written beside it, as .csv
    study: ClassVar[str | None] = None  # whose results are drawn; None: the experiment's own

    def experiments(self, figures: Mapping[str, "Figure"]) -> list[str]:
        """Whose runs are behind it."""
        return [self.experiment]

    def sources(self, figures: Mapping[str, "Figure"]) -> list[str]:
        """The gathered results that it is made from."""
        return [results_name(name, self.study) for name in self.experiments(figures)]

    def check(self, checker: ReferenceChecker) -> None:
        """That all that it names exists."""
        raise NotImplementedError

    def grid(self, evidence: PaperData) -> list[list[FigurePanel]]:
        """Rows of panels."""
        return [[FigurePanel("", lambda axes: self.draw(axes, evidence), self.missing_reason(evidence))]]

    def missing_reason(self, evidence: PaperData) -> MissingReason | None:
        """Why nothing is drawn: it was not run, as the notes of the results say before anything is."""
        return self.first_results(evidence).missing_reason

    def first_results(self, evidence: PaperData) -> Results:
        return evidence.results[self.sources(evidence.figures)[0]]

    def draw(self, axes: Any, evidence: PaperData) -> None:
        """The panel. A legend that is not drawn here is put above the figure."""
        raise NotImplementedError

    def caption(self, evidence: PaperData) -> str:
        """The title, and what a reader must know beside the picture."""
        return f"{self.title}. {self.description(evidence)}"

    def description(self, evidence: PaperData) -> str:
        """What was measured, seeds, data, scale; or why it is not shown."""
        if reason := self.missing_reason(evidence):
            return f"Not shown at this scale: {reason}."
        note = self.first_results(evidence).note
        remark = filter(None, [self.remarks.get(ALL_SCALES), self.first_results(evidence).at_scale(self.remarks)])
        scale = f"Scale {note['scale']}: {note['scale_note']}."
        return " ".join([*remark, *self.explanations(evidence), *unfinished_sentences(self, evidence), scale])

    def explanations(self, evidence: PaperData) -> list[str]:
        """Whole sentences between title and scale."""
        raise NotImplementedError

    def csv_rows(self, evidence: PaperData) -> list[list]:
        """Rows of the .csv: what is drawn, in the units of the axes; the first are the columns."""
        raise NotImplementedError


def csv_spread(values: Sequence[float]) -> list:
    """Mean, standard deviation (of one value none) and number of some values, as a .csv has them."""
    found = estimate(values)
    return [_short(found.mean), "" if found.std is None else _short(found.std), len(values)]


def _short(value: float) -> str:
    return f"{value:.6g}"


def seeds_sentence(results: list[Results], mark: str) -> str:
    """A sentence on what is drawn of the seeds; `mark` is what shows their standard deviation, such as a band."""
    left = {len(found.runs(label)) - len(found.diverged_runs(label)) for found in results for label in found.labels}
    counts = left - {0} or {0}
    if counts <= {0, 1}:
        return f"One seed, so no {mark}."
    few = "" if len(counts) == 1 else f"{min(counts)} to "
    return f"Mean and s.d. ({mark}) over {few}{max(counts)} seeds."


def emphasis_sentence(evidence: PaperData, results: list[Results], how: str) -> list[str]:
    """A sentence on how the paper's own methods are emphasised, where there are others beside them."""
    own = [look.proposed for found in results for label, look in evidence.styles_of(found).items() if label in found.labels]
    return [f"{how}: the paper's own methods."] if any(own) and not all(own) else []


def data_sentence(results: list[Results]) -> str:
    return f"Data: {', '.join(sorted({run['dataset'] for found in results for run in found.runs()}))}."


def unfinished_sentences(figure: Figure, evidence: PaperData) -> list[str]:
    """A sentence for each experiment of which series are not finished."""
    sources = figure.sources(evidence.figures)
    missing = {split_results_name(name)[0]: own for name in sources if (own := evidence.results[name].unfinished_series)}
    where = {name: evidence.experiments.get(name, DisplayOptions()).name or name for name in missing}
    alone = len(figure.experiments(evidence.figures)) == 1
    return [f"Not finished{'' if alone else f' ({where[name]})'}: {', '.join(own)}." for name, own in missing.items()]


def not_shown_sentences(reasons: Mapping[str, MissingReason]) -> list[str]:
    """A sentence for each reason why parts, by their names, are not shown."""
    alike: dict[MissingReason, list[str]] = {}
    for name, reason in reasons.items():
        alike.setdefault(reason, []).append(name)
    return [f"{'; '.join(own)} {'are' if len(own) > 1 else 'is'} not shown: {reason}." for reason, own in alike.items()]


def diverged_sentences(results: Results) -> list[str]:
    """A sentence for each series of which runs diverged."""
    found = {label: results.diverged_runs(label) for label in results.labels}
    return [f"{label}: {', '.join(texts)}, not shown." for label, texts in found.items() if texts]


def training_sentences(results: list[Results], how: str = "") -> list[str]:
    """A sentence on how long, and `how`, was trained: all series, or each where they differ."""
    told = {
        label: f"{count(config['rounds'], 'round')} of {count(config['local_epochs'], 'local epoch')}"
        for found in results
        for label in found.labels
        if (config := found.note["series"][label].get("config", {})).keys() >= {"rounds", "local_epochs"}
    }
    if len(set(told.values())) > 1:
        who = {text: ", ".join(label for label, own in told.items() if own == text) for text in told.values()}
        text = ", ".join(f"{text} ({labels})" for text, labels in who.items())
    else:
        text = next(iter(told.values()), "")
    return [f"Trained{' for ' * bool(text)}{text}{how}."] if text or how else []
