"""Bars of the study `newcomers`: local training that new clients need to reach the target on their own test data, in epochs.

A bar is the mean over new clients and seeds with its interval over seeds; the paper's mean and range are next to it.
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Any, ClassVar

from fedrepro.config.types import NonNegative
from fedrepro.report.figures import base
from fedrepro.report.figures._style import PAPER_LABEL, PAPER_MARKER, bar_style, draw_grid_lines, draw_mean_bar, wrap_label
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.palette import SeriesStyle
from fedrepro.report.quantities.studies import NEWCOMERS as STUDY
from fedrepro.report.quantities.studies import epochs_to_target
from fedrepro.report.statistics import Estimate, estimate

MARKER = PAPER_MARKER | {"linestyle": "none"}
PAPER_COLUMNS = ("Paper's mean", "Paper's low", "Paper's high")
PARTIAL_HATCH = "////"  # of a mean over only those clients that reach the target


class Figure(base.Figure):
    """Bars of new clients' epochs. `bars`: series -> the paper's mean, lowest and highest number of epochs; `bars_from`: where
    the paper reports them; `receives`: what new clients receive in addition to the final global model."""

    experiment: str
    bars: dict[str, tuple[NonNegative, NonNegative, NonNegative]] = {}
    bars_from: str = "its figure"
    receives: str = ""
    alt_text: ClassVar = "epochs that new clients need, one bar per method"
    height: ClassVar = 2.4
    study: ClassVar = STUDY

    def check(self, checker: ReferenceChecker) -> None:
        checker.check_study(self.experiment, STUDY, self.bars)

    def experiments(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [self.experiment]

    def draw(self, axes: Any, evidence: PaperData) -> None:
        results = self.first_results(evidence)
        styles, compared = evidence.styles_of(results), results.compare == "full" and bool(self.bars)
        for place, label in enumerate(results.labels):
            _draw_bar(axes, place, results, label, styles[label])
            if compared and label in self.bars:
                mean, low, high = self.bars[label]
                axes.errorbar([place + 0.38], [mean], [[mean - low], [high - mean]], linewidth=0.9, capsize=2, **MARKER)
        if compared:
            axes.errorbar([], [], [], label=PAPER_LABEL, **MARKER)
        elif self.bars and results.compare != "none":
            means = [f"{self.bars[label][0]:g}" for label in results.labels if label in self.bars]
            text = f"in the paper {', '.join(means)}"
            axes.text(0.99, 0.99, text, transform=axes.transAxes, fontsize=6, color="0.4", ha="right", va="top")
        target = f"{100 * results.settings['target']:g} %"
        axes.set(ylabel=f"epochs to {target} own-test accuracy", xlim=(-0.6, len(results.labels) - 0.4), ylim=(0, None))
        axes.set_xticks(range(len(results.labels)), [wrap_label(label, len(results.labels)) for label in results.labels])
        axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
        draw_grid_lines(axes)

    def csv_rows(self, evidence: PaperData) -> list[list]:
        results = self.first_results(evidence)
        rows: list[list] = [["Series", "Mean epochs", "Half width", "New clients", "Arrived", *PAPER_COLUMNS]]
        for label in results.labels:
            epochs, reached, clients = summarise_epochs(results, label)
            reported = self.bars.get(label, ("", "", "")) if results.compare == "full" else ("", "", "")
            half_width = "" if epochs is None or epochs.half_width is None else f"{epochs.half_width:.2f}"
            rows.append([label, "" if epochs is None else f"{epochs.mean:.2f}", half_width, clients, reached, *reported])
        return rows

    def explanations(self, evidence: PaperData) -> list[str]:
        """Return sentences on the measure, our protocol, and clients that do not reach the target."""
        results = self.first_results(evidence)
        settings = results.settings
        text = (
            f"Epochs of local training until the own-test accuracy first reaches {100 * settings['target']:g} %, as the mean "
        )
        sentences = [f"{text}over {settings['clients']} new clients of a run.", base.seeds_sentence([results], "whisker")]
        sentences.append(self._protocol(settings))
        for label in results.labels:
            sentences += [f"{label}: {run}, not shown." for run in results.diverged_runs(label)]
            _, reached, clients = summarise_epochs(results, label)
            if reached < clients:
                missed = f"{clients - reached} of {clients} new clients do not reach it within {settings['epochs']} epochs"
                mean = "; the mean (hatched) is over the others and so too low" if reached else ""
                sentences.append(f"{label}: {missed}{mean}.")
        if results.compare == "full" and self.bars:
            sentences.append(f"Diamonds: the paper's means and ranges, read from {self.bars_from}.")
        return [*sentences, *base.emphasis_sentence(evidence, [results], "Framed"), base.data_sentence([results])]

    def _protocol(self, settings: dict[str, Any]) -> str:
        images = (
            f"{settings['images']} training images" if settings["images"] else "as many training images as a client of the run"
        )
        received = f"the final global model ({self.receives})" if self.receives else "the final global model"
        return (
            "The paper does not describe how it measured this. In our protocol, a new client has a new order of pixels, "
            f"{images}, drawn at random, and an equal share of the test images; it receives {received} and trains as the run's "
            "clients do, with the learning rate of the first round and one optimiser for all epochs."
        )


def summarise_epochs(results: Results, label: str) -> tuple[Estimate | None, int, int]:
    """Return the mean over seeds of the epochs of new clients that reach the target, the number of these clients, and the
    number of all new clients."""
    seeds = [list(clients.values()) for clients in epochs_to_target(results, label).values()]
    reached = [[epoch for epoch in epochs if epoch is not None] for epochs in seeds]
    means = [fmean(epochs) for epochs in reached if epochs]
    return (estimate(means) if means else None), sum(map(len, reached)), sum(map(len, seeds))


def _draw_bar(axes: Any, place: int, results: Results, label: str, style: SeriesStyle) -> None:
    epochs, reached, clients = summarise_epochs(results, label)
    if epochs is not None:
        partial = {"hatch": PARTIAL_HATCH, "fill": False, "edgecolor": style.colour, "linewidth": 0.8}
        draw_mean_bar(axes, place, 0.5, epochs, partial if reached < clients else bar_style(style))
    if reached < clients or not clients:
        text = f"{reached} of {clients}\nreach it" if clients else "diverged"
        top = 0 if epochs is None else epochs.mean + (epochs.half_width or 0)
        axes.annotate(text, (place, top), (0, 3), textcoords="offset points", ha="center", fontsize=6, color="0.3")
