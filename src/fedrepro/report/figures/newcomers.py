"""Bars of the study `newcomers`: epochs of local training that new clients need until their own-test accuracy is at the target;
mean over new clients with their standard deviation, beside it what the paper reports."""

from typing import Any, ClassVar

from fedrepro.config.types import NonNegative
from fedrepro.report.figures import base
from fedrepro.report.figures._style import PAPER_LABEL, PAPER_MARKER, bar_style, draw_grid_lines, mean_bar, wrap_label
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.palette import SeriesStyle
from fedrepro.report.quantities.epochs import STUDY, epochs_to_target
from fedrepro.report.statistics import Estimate, estimate

COMPARED = ("Paper's mean", "Paper's low", "Paper's high")
OPEN = "////"  # the hatch of a mean over some of the clients only


class Figure(base.Figure):
    """`bars`: series -> the paper's mean, lowest and highest epochs; `bars_from`: where it has them; `receives`: what new
    clients of a method have beside the final global model."""

    experiment: str
    bars: dict[str, tuple[NonNegative, NonNegative, NonNegative]] = {}
    bars_from: str = "its figure"
    receives: str = ""
    alt_text: ClassVar = "epochs that new clients need, one bar per method"
    height: ClassVar = 2.4
    study: ClassVar = STUDY

    def check(self, checker: ReferenceChecker) -> None:
        checker.check_study(self.experiment, STUDY, self.bars)

    def draw(self, axes: Any, evidence: PaperData) -> None:
        results = self.first_results(evidence)
        looks, compared = evidence.styles_of(results), results.compare == "full" and bool(self.bars)
        for place, label in enumerate(results.labels):
            _bar(axes, place, results, label, looks[label])
            if compared and label in self.bars:
                mean, low, high = self.bars[label]
                axes.errorbar([place + 0.38], [mean], [[mean - low], [high - mean]], linewidth=0.9, capsize=2, **PAPER_MARKER)
        if compared:
            axes.errorbar([], [], [], label=PAPER_LABEL, **PAPER_MARKER)
        target = f"{100 * results.settings['target']:g} %"
        axes.set(ylabel=f"epochs to {target} own-test accuracy", xlim=(-0.6, len(results.labels) - 0.4), ylim=(0, None))
        axes.set_xticks(range(len(results.labels)), [wrap_label(label, len(results.labels)) for label in results.labels])
        axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
        draw_grid_lines(axes)

    def csv_rows(self, evidence: PaperData) -> list[list]:
        results = self.first_results(evidence)
        rows: list[list] = [["Series", "Mean epochs", "Standard deviation", "New clients", "Arrived", *COMPARED]]
        for label in results.labels:
            found, arrived, clients = summary(results, label)
            reported = self.bars.get(label, ("", "", "")) if results.compare == "full" else ("", "", "")
            spread = "" if found is None or found.std is None else f"{found.std:.2f}"
            rows.append([label, "" if found is None else f"{found.mean:.2f}", spread, clients, arrived, *reported])
        return rows

    def explanations(self, evidence: PaperData) -> list[str]:
        """What was measured and how, that the protocol is ours, and which clients do not arrive."""
        results = self.first_results(evidence)
        settings, seeds = results.settings, len({run["seed"] for run in results.runs()})
        whose = "of one run" if seeds == 1 else f"of each of {seeds} seeds' runs"
        text = f"Epochs of local training until the own-test accuracy first is at {100 * settings['target']:g} %; "
        sentences = [f"{text}mean and s.d. (whisker) over {settings['clients']} new clients {whose}.", self._protocol(settings)]
        for label in results.labels:
            sentences += [f"{label}: {told}, not shown." for told in results.diverged_runs(label)]
            _, arrived, clients = summary(results, label)
            if arrived < clients:
                absent = f"{clients - arrived} of {clients} new clients did not arrive within {settings['epochs']} epochs"
                rest = "; the mean (hatched) is over the others, so too low" if arrived else ""
                sentences.append(f"{label}: {absent}{rest}.")
        if results.compare == "full" and self.bars:
            sentences.append(f"Diamonds: the paper's means and ranges, read from {self.bars_from}.")
        return [*sentences, *base.emphasis_sentence(evidence, [results], "Framed"), base.data_sentence([results])]

    def _protocol(self, settings: dict[str, Any]) -> str:
        images = settings["images"]
        own = f"{images} training images" if images else "as many training images as a client of the run"
        beside = f" ({self.receives})" if self.receives else ""
        return (
            "The paper does not say how it measured this, the protocol is our reading: a new client has a fresh order of "
            f"pixels, {own}, drawn at random, and an equal share of its test images; it receives the final global "
            f"model{beside} and trains as the run's clients do, at the learning rate of the first round and with one optimiser "
            "for all epochs."
        )


def summary(results: Results, label: str) -> tuple[Estimate | None, int, int]:
    """Mean and standard deviation of the epochs over the new clients of all seeds that arrive, how many do, and of how many."""
    epochs = [epoch for clients in epochs_to_target(results, label).values() for epoch in clients.values()]
    known = [float(epoch) for epoch in epochs if epoch is not None]
    return (estimate(known) if known else None), len(known), len(epochs)


def _bar(axes: Any, place: int, results: Results, label: str, drawn: SeriesStyle) -> None:
    found, arrived, clients = summary(results, label)
    if found is not None:
        partly = {"hatch": OPEN, "fill": False, "edgecolor": drawn.colour, "linewidth": 0.8}
        mean_bar(axes, place, 0.5, found, partly if arrived < clients else bar_style(drawn))
    if arrived < clients or not clients:
        text = f"{arrived} of {clients}\narrive" if clients else "diverged"
        top = 0 if found is None else found.mean + (found.std or 0)
        axes.annotate(text, (place, top), (0, 3), textcoords="offset points", ha="center", fontsize=6, color="0.3")
