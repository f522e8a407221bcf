"""Figures of one quantity: grouped bars, and lines over a setting of the series; and the bars of new clients."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

from fedrepro.config.types import NonNegative
from fedrepro.report import quantities
from fedrepro.report.figures import base
from fedrepro.report.figures._style import (
    PAPER_LABEL,
    PAPER_MARKER,
    bar_style,
    category_colours,
    draw_grid_lines,
    draw_mean_bar,
    series_styles,
    wrap_label,
)
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentView, PaperData, results_name
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import ROUNDS, format_target
from fedrepro.report.palette import DASHES, MARKERS, METHOD_NAMES, SeriesStyle
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.quantities.studies import NEWCOMERS, epochs_to_target
from fedrepro.report.reasons import Reason, reasons_sentence
from fedrepro.report.statistics import Estimate, estimate
from fedrepro.runs.reasons import MissingKind, MissingReason

GROUP_WIDTH = 0.8
MOST = 2.2  # height of the axis, as a multiple of the highest bar; longer whiskers are cut
NEAR_END = 0.7  # of the last round: the height of a bar from which the length of the runs may limit it
PAPER_COLUMNS = ("Paper's mean", "Paper's low", "Paper's high")
PARTIAL_HATCH = "////"  # of a mean over only those clients that reach the target


@dataclass(frozen=True)
class Measured:
    """The quantity of a series of one panel, seed by seed in the unit of the axis, or the reasons why there is none."""

    view: ExperimentView
    label: str
    values: list[float]
    reasons: list[Reason]

    @property
    def mean(self) -> Estimate | None:
        return estimate(self.values) if self.values else None


class QuantityFigure(base.PanelsFigure):
    """A figure of one quantity for every series. `quantity`: its settings without `series`; a target that it needs is by
    default the experiment's target at the scale."""

    quantity: dict[str, Any]

    def quantity_of(self, label: str = "", target: float | None = 0, where: str = "quantity") -> Quantity:
        """Return the quantity of a series; `where` is the key that errors name."""
        values: dict[str, Any] = {"series": label}
        if target is not None and self.needs_target:
            values["target"] = target
        return quantities.parse_quantity(values | self.quantity, where)

    @property
    def needs_target(self) -> bool:
        fields = quantities.quantity_class(self.quantity.get("kind"), "quantity").model_fields
        return "target" in fields and "target" not in self.quantity

    def check(self, checker: ReferenceChecker) -> None:
        where = f"{checker.file}: {checker.key}.quantity"
        quantities.quantity_class(self.quantity.get("kind"), where)
        for ref in self.panels:
            checker.at("panels").check_experiment(ref.experiment)
            target = next(iter(ref.resolved(checker.display_options).target.values()), None)
            for label in checker.experiments[ref.experiment].get("series", {}):
                self.quantity_of(label, target, where).check(checker.at("quantity"), ref)

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        names = super().sources(figures)
        return list(dict.fromkeys([*names, *(results_name(name, self.quantity_of().study_name) for name in names)]))

    def views(self, evidence: PaperData) -> list[ExperimentView]:
        """Return the panels with the results that the quantity is computed from: the experiment's or its study's."""
        study = self.quantity_of().study_name
        return [
            replace(evidence.panel(ref), results=evidence.results[results_name(ref.experiment, study)]) for ref in self.panels
        ]

    def why_missing(self, view: ExperimentView) -> MissingReason | None:
        no_target = MissingReason(MissingKind.NO_TARGET) if self.needs_target and view.target is None else None
        return view.missing_reason or no_target

    @base.computed_once
    def data(self, evidence: PaperData) -> list[list[Measured]]:
        """Return the quantity of each series of each panel that is shown."""
        return [[self._measured(view, label) for label in view.results.labels] for view in self.available(evidence)]

    def _measured(self, view: ExperimentView, label: str) -> Measured:
        quantity = self.quantity_of(label, view.target)
        values, reasons = quantity.evaluate(view)
        return Measured(view, label, [quantity.unit(view.measure).factor * value for value in values], reasons)

    def settings_of(self, one: Measured) -> dict[str, Any]:
        """Return the settings of a series that are columns of the .csv."""
        return {}

    def csv_rows(self, evidence: PaperData) -> list[list]:
        every = [one for panel in self.data(evidence) for one in panel]
        rows = [[one.view.name, one.label, *self.settings_of(one).values(), *base.csv_spread(one.values)] for one in every]
        return [["experiment", "series", *self.settings_of(every[0]), *base.SPREAD_COLUMNS], *rows]

    def axis_label(self, view: ExperimentView) -> str:
        return self.quantity_of("", view.target or 0).label(view.measure)

    def explanations(self, evidence: PaperData) -> list[str]:
        """Return sentences on the quantity, seeds, training, targets, panels that are not shown and series without a number."""
        data = self.data(evidence)
        views = [panel[0].view for panel in data]
        results = [view.results for view in views]
        sentences = [*filter(None, [self.quantity_of().description(self.views(evidence)[0].measure)])]
        sentences += [base.seeds_sentence(results, "whisker"), *base.training_sentences(results)]
        if self.needs_target:
            targets = {view.name: format_target(view.measure, view.target or 0) for view in views}
            texts = [f"{target} ({name})" for name, target in targets.items()]
            sentences.append(f"Target at this scale: {', '.join(texts)}.")
        sentences += self.not_shown_sentences(evidence)
        for one in (one for panel in data for one in panel if one.reasons):
            sentences.append(f"No number for {one.label} ({one.view.name}): {reasons_sentence(one.reasons)}.")
        return [*sentences, base.data_sentence(results)]


class Bars(QuantityFigure):
    """Grouped bars: one group per experiment, one bar per series, whose height is a quantity."""

    alt_text: ClassVar = "one bar per method, grouped by experiment"
    height: ClassVar = 2.5

    def is_worth_drawing(self, evidence: PaperData) -> bool:
        """Return whether there is more than one of several groups, and not all bars are rounds that end with the runs."""
        data = self.data(evidence)
        lasts = self._last_rounds(data) or [math.inf] * len(data)
        free = [
            one
            for panel, last in zip(data, lasts, strict=True)
            for one in panel
            if one.mean and one.mean.mean < NEAR_END * last
        ]
        return bool(free) and not len(data) == 1 < len(self.panels)

    def draw(self, axes: Any, evidence: PaperData) -> None:
        data = self.data(evidence)
        views = [panel[0].view for panel in data]
        labels = list(dict.fromkeys(one.label for panel in data for one in panel))
        means = [{one.label: one.mean for one in panel if one.mean} for panel in data]
        styles, width = series_styles(evidence, [view.results for view in views]), GROUP_WIDTH / len(labels)
        shifts = {label: (place - (len(labels) - 1) / 2) * width for place, label in enumerate(labels)}
        for label, shift in shifts.items():
            for place, by_label in enumerate(means):
                if label in by_label:
                    draw_mean_bar(axes, place + shift, 0.92 * width, by_label[label], bar_style(styles[label]))
                else:
                    offset = {"xytext": (0, 2), "textcoords": "offset points"}
                    axes.annotate("none", (place + shift, 0), **offset, ha="center", fontsize=5, rotation=90)
            axes.scatter([], [], marker="s", color=styles[label].colour, label=label)
        for place, (view, by_label) in enumerate(zip(views, means, strict=True)):
            savings = self._paper_savings(evidence, view)
            baseline = next((label for label, share in savings.items() if share == 0), "")
            rounds = by_label.get(baseline)
            for label, share in savings.items():  # the rounds that a series would need if it saved what the paper reports
                if rounds and label != baseline and label in shifts:
                    axes.plot([place + shifts[label]], [(1 - share) * rounds.mean], linestyle="none", zorder=4, **PAPER_MARKER)
            if savings and not place:
                axes.plot([], [], linestyle="none", label=PAPER_LABEL, **PAPER_MARKER)
        for place, last in enumerate(self._last_rounds(data)):
            axes.plot([place - 0.48, place + 0.48], [last, last], color="0.5", linewidth=0.6, zorder=0)
        axes.set(ylabel=self.axis_label(self.views(evidence)[0]), xlim=(-0.6, len(views) - 0.4))
        names = [wrap_label(view.name, len(views)) for view in views]
        if self.needs_target:
            targets = [format_target(view.measure, view.target or 0) for view in views]
            names = [f"{name}\n{target}" for name, target in zip(names, targets, strict=True)]
        axes.set_xticks(range(len(views)), names)
        axes.margins(y=0.12)
        heights = [mean.mean for by_label in means for mean in by_label.values()]
        axes.set_ylim(0, min(axes.get_ylim()[1], MOST * max(heights, default=1)))
        draw_grid_lines(axes)

    def explanations(self, evidence: PaperData) -> list[str]:
        views = self.available(evidence)
        sentences = base.emphasis_sentence(evidence, [view.results for view in views], "Framed")
        if any(self._paper_savings(evidence, view) for view in views):
            sentences.append("Diamonds: the shares of the baseline's rounds that the paper reports, times ours.")
        if self._last_rounds(self.data(evidence)):
            sentences.append("Grey line: the last round of the runs.")
        return [*sentences, *super().explanations(evidence)]

    def _paper_savings(self, evidence: PaperData, view: ExperimentView) -> dict[str, float]:
        """Return series -> the share of the baseline's rounds that the paper says it saves, if bars are rounds to a target."""
        is_rounds = self.quantity.get("kind") == "rounds_to" and view.results.compare != "none"
        return dict(evidence.savings.get(view.results.note["experiment"], {})) if is_rounds else {}

    def _last_rounds(self, data: list[list[Measured]]) -> list[int]:
        """Return the last round of each panel if bars are numbers of rounds and one comes near the last; empty otherwise."""
        if self.quantity_of().unit(data[0][0].view.measure) is not ROUNDS:
            return []
        last_rounds = [max(int(row["round"]) for row in panel[0].view.results.rows) for panel in data]
        heights = [one.mean.mean for panel in data for one in panel if one.mean]
        return last_rounds if max(heights, default=0) > NEAR_END * min(last_rounds) else []


class Sweep(QuantityFigure):
    """A quantity over a setting of the series, such as the learning rate: one line per experiment. `setting`: the path of a
    number in the series' settings, such as `algorithm.beta`. `reference`: series without it, which are horizontal lines with
    their 95 % interval as a band."""

    setting: str
    label: str | None = None  # of the horizontal axis; None: the setting
    log: bool = False
    reference: tuple[str, ...] = ()
    alt_text: ClassVar = "a measure over a setting, one line per experiment or method"

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        for ref in self.panels:
            checker.at("reference").check_experiment(ref.experiment, self.reference)
            checker.at("setting").check_numeric_setting(ref.experiment, self.setting, self.reference, self.log)

    def settings_of(self, one: Measured) -> dict[str, Any]:
        return {self.setting: one.view.setting(one.label, self.setting)}

    def draw(self, axes: Any, evidence: PaperData) -> None:
        data = self.data(evidence)
        points = {panel[0].view.name: self._points(panel) for panel in data}
        lines = {name: values for name, values in points.items() if values}
        colours, several = category_colours(list(lines)), len(data) > 1
        method = self._method_name(data[0])
        looks = {name: look for by_series in evidence.styles.values() for name, look in by_series.items()}
        for place, (name, values) in enumerate(lines.items()):
            xs, means, half_widths = zip(*sorted(values), strict=True)
            style = SeriesStyle(colours[name], MARKERS[place % len(MARKERS)])
            if len(lines) == 1:  # the style that the swept method has in the paper's other figures, if any
                style = looks.get(method, style)
            label = name if several else method
            axes.plot(xs, means, color=style.colour, linewidth=style.line_width, label=label, **style.marker_options)
            if any(half_widths):
                axes.errorbar(xs, means, half_widths, fmt="none", ecolor=style.colour, elinewidth=0.8, capsize=2)
        for number, panel in enumerate(data):
            for one, mean in self._references(panel):
                name = f"{one.label}, {one.view.name}" if several else one.label
                colour = evidence.styles_of(one.view.results)[one.label].colour
                dashes = DASHES[1 + (self.reference.index(one.label) + number) % 2]
                axes.axhline(mean.mean, linestyle=(0, dashes), color=colour, linewidth=1, label=name)
                if mean.half_width:
                    axes.axhspan(mean.low, mean.high, color=colour, alpha=0.1, linewidth=0)
        axes.set(xlabel=self.label or self.setting, ylabel=self.axis_label(self.views(evidence)[0]))
        ticks = sorted({x for values in lines.values() for x, *_ in values})
        if self.log:
            axes.set_xscale("log")
            axes.minorticks_off()
        while not ticks_fit([math.log10(x) for x in ticks] if self.log else ticks):
            ticks = ticks[::2]
        axes.set_xticks(ticks, [_tick_text(x) for x in ticks])
        if "%" in axes.get_ylabel():
            view, (low, high) = data[0][0].view, axes.get_ylim()
            bounds = self.quantity_of("", view.target).bounds(view.measure)
            axes.set_ylim(max(low, 102 * bounds[0]), min(high, 102 * bounds[1]))
        draw_grid_lines(axes)

    def _points(self, panel: list[Measured]) -> list[tuple[float, float, float]]:
        """Return setting, mean and half of its interval for each series that has both the setting and a value."""
        swept = [(one.view.setting(one.label, self.setting), one.mean) for one in panel if one.label not in self.reference]
        return [(float(x), mean.mean, mean.half_width or 0.0) for x, mean in swept if x is not None and mean]

    def _references(self, panel: list[Measured]) -> list[tuple[Measured, Estimate]]:
        """Return the reference series that have a value, with their means."""
        by_label = {one.label: one for one in panel}
        return [(by_label[label], mean) for label in self.reference if label in by_label and (mean := by_label[label].mean)]

    def _method_name(self, panel: list[Measured]) -> str:
        """Return the name of the method that the swept series share, otherwise "ours"."""
        names = {one.view.setting(one.label, "algorithm.name") for one in panel if one.label not in self.reference}
        return METHOD_NAMES.get(names.pop(), "ours") if len(names) == 1 else "ours"

    def explanations(self, evidence: PaperData) -> list[str]:
        axis, setting, data = self.axis_label(self.views(evidence)[0]), self.label or self.setting, self.data(evidence)
        sentences = [f"{axis[0].upper()}{axis[1:]} over {setting}."]
        if self.reference:
            dashes = "Dashed and dotted" if len(self.reference) * len(data) > 1 else "Dashed"
            drawn = any(mean.half_width for panel in data for _, mean in self._references(panel))
            band = ", with the interval as a band" if drawn else ""
            sentences.append(f"{dashes}: {' and '.join(self.reference)}, without {setting}{band}.")
        return [*sentences, *super().explanations(evidence)]


def _tick_text(x: float) -> str:
    """Return a number on the horizontal axis, as a power of ten if it is long."""
    exponent = math.log10(x) if x > 0 else 0.0
    return f"$10^{{{exponent:.0f}}}$" if not -3 <= exponent < 4 and exponent == round(exponent) else f"{x:g}"


def ticks_fit(ticks: Sequence[float]) -> bool:
    """Return whether each tick has space for its number."""
    gaps = [after - before for before, after in zip(ticks, ticks[1:], strict=False)]
    return not gaps or min(gaps) * 10 >= ticks[-1] - ticks[0]


@dataclass(frozen=True)
class Arrivals:
    """The new clients of a series: the mean over seeds of the epochs of those that reach the target, and their numbers."""

    epochs: Estimate | None
    reached: int
    clients: int


class NewClients(base.Figure):
    """Bars of the study `newcomers`: local training that new clients need to reach the target on their own test data, in
    epochs, as the mean over new clients and seeds with its interval over seeds. `bars`: series -> the paper's mean, lowest and
    highest number of epochs; `bars_from`: where the paper reports them; `receives`: what new clients receive in addition to the
    final global model."""

    experiment: str
    bars: dict[str, tuple[NonNegative, NonNegative, NonNegative]] = {}
    bars_from: str = "its figure"
    receives: str = ""
    alt_text: ClassVar = "epochs that new clients need, one bar per method"
    height: ClassVar = 2.4

    def sources(self, figures: Mapping[str, base.Figure]) -> list[str]:
        return [results_name(self.experiment, NEWCOMERS)]

    def check(self, checker: ReferenceChecker) -> None:
        checker.check_study(self.experiment, NEWCOMERS, self.bars)

    def views(self, evidence: PaperData) -> list[ExperimentView]:
        return [ExperimentView(self.experiment, DisplayOptions(), evidence.study(self.experiment, NEWCOMERS))]

    @base.computed_once
    def data(self, evidence: PaperData) -> tuple[Results, dict[str, Arrivals]]:
        """Return the results and the new clients of each series."""
        results = self.first_results(evidence)
        return results, {label: arrivals(results, label) for label in results.labels}

    def draw(self, axes: Any, evidence: PaperData) -> None:
        results, data = self.data(evidence)
        styles, compared = evidence.styles_of(results), results.compare == "full" and bool(self.bars)
        marker = PAPER_MARKER | {"linestyle": "none"}
        for place, (label, found) in enumerate(data.items()):
            _draw_arrivals(axes, place, found, styles[label])
            if compared and label in self.bars:
                mean, low, high = self.bars[label]
                axes.errorbar([place + 0.38], [mean], [[mean - low], [high - mean]], linewidth=0.9, capsize=2, **marker)
        if compared:
            axes.errorbar([], [], [], label=PAPER_LABEL, **marker)
        elif self.bars and results.compare != "none":
            means = [f"{self.bars[label][0]:g}" for label in data if label in self.bars]
            text = f"in the paper {', '.join(means)}"
            axes.text(0.99, 0.99, text, transform=axes.transAxes, fontsize=6, color="0.4", ha="right", va="top")
        target = f"{100 * results.settings['target']:g} %"
        axes.set(ylabel=f"epochs to {target} own-test accuracy", xlim=(-0.6, len(data) - 0.4), ylim=(0, None))
        axes.set_xticks(range(len(data)), [wrap_label(label, len(data)) for label in data])
        axes.set_ylim(0, axes.get_ylim()[1] * 1.15)
        draw_grid_lines(axes)

    def csv_rows(self, evidence: PaperData) -> list[list]:
        results, data = self.data(evidence)
        rows: list[list] = [["Series", "Mean epochs", "Half width", "New clients", "Arrived", *PAPER_COLUMNS]]
        for label, found in data.items():
            reported = self.bars.get(label, ("", "", "")) if results.compare == "full" else ("", "", "")
            numbers = [found.epochs and found.epochs.mean, found.epochs and found.epochs.half_width]
            texts = ["" if number is None else f"{number:.2f}" for number in numbers]
            rows.append([label, *texts, found.clients, found.reached, *reported])
        return rows

    def explanations(self, evidence: PaperData) -> list[str]:
        """Return sentences on the measure, our protocol, and clients that do not reach the target."""
        results, data = self.data(evidence)
        settings = results.settings
        images = (
            f"{settings['images']} training images" if settings["images"] else "as many training images as a client of the run"
        )
        received = f"the final global model ({self.receives})" if self.receives else "the final global model"
        sentences = [
            f"Epochs of local training until the own-test accuracy first reaches {100 * settings['target']:g} %, as the mean "
            f"over {settings['clients']} new clients of a run.",
            base.seeds_sentence([results], "whisker"),
            "The paper does not describe how it measured this. In our protocol, a new client has a new order of pixels, "
            f"{images}, drawn at random, and an equal share of the test images; it receives {received} and trains as the run's "
            "clients do, with the learning rate of the first round and one optimiser for all epochs.",
        ]
        for label, found in data.items():
            sentences += [f"{label}: {run}, not shown." for run in results.diverged_runs(label)]
            if missing := found.clients - found.reached:
                missed = f"{missing} of {found.clients} new clients do not reach it within {settings['epochs']} epochs"
                mean = "; the mean (hatched) is over the others and so too low" if found.reached else ""
                sentences.append(f"{label}: {missed}{mean}.")
        if results.compare == "full" and self.bars:
            sentences.append(f"Diamonds: the paper's means and ranges, read from {self.bars_from}.")
        return [*sentences, *base.emphasis_sentence(evidence, [results], "Framed"), base.data_sentence([results])]


def arrivals(results: Results, label: str) -> Arrivals:
    seeds = [list(clients.values()) for clients in epochs_to_target(results, label).values()]
    reached = [[epoch for epoch in epochs if epoch is not None] for epochs in seeds]
    means = [fmean(epochs) for epochs in reached if epochs]
    return Arrivals(estimate(means) if means else None, sum(map(len, reached)), sum(map(len, seeds)))


def _draw_arrivals(axes: Any, place: int, found: Arrivals, style: SeriesStyle) -> None:
    epochs = found.epochs
    if epochs is not None:
        partial = {"hatch": PARTIAL_HATCH, "fill": False, "edgecolor": style.colour, "linewidth": 0.8}
        draw_mean_bar(axes, place, 0.5, epochs, partial if found.reached < found.clients else bar_style(style))
    if found.reached < found.clients or not found.clients:
        text = f"{found.reached} of {found.clients}\nreach it" if found.clients else "diverged"
        top = 0 if epochs is None else epochs.mean + (epochs.half_width or 0)
        axes.annotate(text, (place, top), (0, 3), textcoords="offset points", ha="center", fontsize=6, color="0.3")
