"""What every kind of table has. A row maps column titles to text and numbers; what there is no row for is told below."""

from collections import Counter
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from fedrepro.config.types import Count, Frozen, NonNegative
from fedrepro.report.inputs.panel import ExperimentRef, ExperimentView, PaperData
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.numbers import Number, display_factor, mean_cell, measure_unit_name, reached_cell
from fedrepro.report.quantities import rounds_to
from fedrepro.report.tables._grid import Grid, Row
from fedrepro.runs.reasons import MissingReason

PanelRef = Annotated[
    ExperimentRef,
    BeforeValidator(
        lambda given: {"experiment": given} if isinstance(given, str) else given, json_schema_input_type=str | ExperimentRef
    ),
]
PanelRefs = Annotated[tuple[PanelRef, ...], Field(min_length=1)]


class Table(Frozen):
    """Rows over some experiments, each in its own measure: by name, or as `{experiment, measure, name}`. `name`: what the table
    is called among others, after its number in the paper."""

    title: str
    kind: str
    name: str | None = None
    panels: PanelRefs
    series_settings: ClassVar[tuple[str, ...]] = ()  # the settings that name a series
    best_among: ClassVar[str]  # among what the bold number is the best

    def sources(self, figures: dict) -> list[str]:
        """The gathered results that it is made from."""
        return list(dict.fromkeys(ref.experiment for ref in self.panels))

    @property
    def experiments(self) -> list[str]:
        return self.sources({})

    def check(self, checker: ReferenceChecker) -> None:
        """That all that it names exists."""
        named = [getattr(self, key) for key in self.series_settings]
        for ref in self.panels:
            checker.at("panels").check_ref(ref, named)
        names = [ref.resolved(checker.display_options).name or ref.key for ref in self.panels]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            checker.at("panels").fail(f"{', '.join(repeated)}: give panels of one experiment a name each")

    def available_panels(self, evidence: PaperData) -> list[ExperimentView]:
        """The panels that were run."""
        return [panel for panel in self._panels(evidence) if not panel.missing_reason]

    def _panels(self, evidence: PaperData) -> list[ExperimentView]:
        return [evidence.panel(ref) for ref in self.panels]

    def build(self, evidence: PaperData) -> Grid:
        return Grid.from_rows(self.rows(self.available_panels(evidence), evidence))

    def rows(self, panels: list[ExperimentView], evidence: PaperData) -> list[Row]:
        """Of panels that were run."""
        raise NotImplementedError

    def explanations(self, panels: list[ExperimentView]) -> list[str]:
        """Sentences on what the numbers are, for panels that were run; there is at least one."""
        raise NotImplementedError

    def caption(self, evidence: PaperData) -> str:
        """What stands above it: the title, the panel where it is one only, and how many seeds."""
        panels = self.available_panels(evidence)
        alone = [panels[0].title] if len(panels) == 1 and panels[0].display.about else []
        return join_sentences([self.title, *alone, *seeds_sentence(panels)])

    def notes(self, evidence: PaperData) -> str:
        """What stands below it: what the numbers are, what is not there, data and scale."""
        panels = self._panels(evidence)
        shown = self.available_panels(evidence)
        parts = [panel.title for panel in shown if panel.display.about and len(shown) > 1]
        parts += self.explanations(shown) if shown else []
        if self.build(evidence).best_cells:
            parts.append(f"Bold: the best {self.best_among} among the series that lost no run, even where intervals overlap")
        parts += [f"{panel.name}, {label}: {text}" for panel in shown for label, text in _lost(panel)]
        parts += not_run_sentence(panels)
        if data := sorted({run["dataset"] for panel in shown for run in panel.results.runs()}):
            parts.append(f"Data: {', '.join(data)}")
        parts += _images(shown)
        note = panels[0].results.note
        return join_sentences([*parts, f"Scale {note['scale']}: {note['scale_note']}"])

    def description(self, evidence: PaperData) -> str:
        """Caption and notes without the title."""
        return " ".join(filter(None, [join_sentences(seeds_sentence(self.available_panels(evidence))), self.notes(evidence)]))


class TargetTable(Table):
    """A table whose rows belong to targets: its own by scale, else each experiment's."""

    baseline: str
    smooth: Count = 1
    targets: dict[str, tuple[NonNegative, ...]] = {}
    series_settings: ClassVar = ("baseline",)
    best_among: ClassVar = "of its panel and target (of rounds, where every seed arrives)"

    def check(self, checker: ReferenceChecker) -> None:
        super().check(checker)
        checker.at("targets").check_names("scale", self.targets, checker.scales)

    def targets_at(self, panel: ExperimentView) -> tuple[float, ...]:
        """Targets at the panel's scale; none where nobody has any."""
        return panel.results.at_scale(self.targets, () if panel.target is None else (panel.target,))


def join_sentences(parts: list[str]) -> str:
    return " ".join(" ".join(f"{part}{'' if part[-1:] in '.?!' else '.'}" for part in parts).split())


def measures_sentence(panels: list[ExperimentView]) -> str:
    """The panels' measures in words."""
    words = {panel.name: _whose(panel) for panel in panels}
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    return ", ".join(f"{text} ({name})" for name, text in words.items())


def _whose(panel: ExperimentView) -> str:
    measure = panel.measure
    return f"the {measure.over}' mean {measure.title}" if measure.over else measure.title


def _lost(panel: ExperimentView) -> list[tuple[str, str]]:
    return [(label, text) for label in panel.results.labels for text in panel.results.diverged_runs(label)]


def _images(panels: list[ExperimentView]) -> list[str]:
    """A sentence on training sets that were cut to different sizes: such panels are not to be compared with each other."""
    sizes: dict[str, list[str]] = {}
    for panel in panels:
        own = {str(panel.setting(label, "train_images") or "all") for label in panel.results.labels}
        sizes.setdefault(" or ".join(sorted(own)), []).append(panel.name)
    if len(sizes) < 2:
        return []
    told = [f"{size} ({', '.join(names)})" for size, names in sizes.items()]
    return [f"Training images differ: {'; '.join(told)}"]


def received_sentence(panels: list[ExperimentView]) -> list[str]:
    """A sentence on measures of what clients receive, which is what the rounds before have made."""
    late = any(panel.measure.model == "received" for panel in panels)
    return (
        ["What is received in round r has been trained for r - 1 rounds; it is told as round r, the paper's too"]
        if late
        else []
    )


def not_run_sentence(panels: list[ExperimentView]) -> list[str]:
    """A sentence on the panels that were not run, those with one reason together."""
    reasons: dict[MissingReason, list[str]] = {}
    for panel in panels:
        if panel.missing_reason:
            reasons.setdefault(panel.missing_reason, []).append(panel.name)
    told = [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]
    unfinished = {panel.name: panel.results.unfinished_series for panel in panels}
    own = [f"{', '.join(labels)} ({name})" for name, labels in unfinished.items() if labels]
    return ([f"Not run: {'; '.join(told)}"] if told else []) + ([f"Not finished: {'; '.join(own)}"] if own else [])


def seeds_sentence(panels: list[ExperimentView]) -> list[str]:
    """A sentence on how many seeds there are; where they differ, the usual number with its exceptions."""
    counts = {panel.name: {label: len(panel.curves(label)) for label in panel.results.labels} for panel in panels}
    known = [count for own in counts.values() for count in own.values() if count]
    if not known:
        return []
    usual = max(Counter(known).items(), key=lambda item: (item[1], item[0]))[0]
    others = [text for name, own in counts.items() for text in _other(name, own, usual, len(panels) > 1)]
    exceptions = f" ({'; '.join(others)})" if others else ""
    text = f"n = {usual} seed{'s' if usual > 1 else ''}{exceptions}"
    return [f"{text}; ± is half of the 95 % interval of the mean" if max(known) > 1 else f"{text}, so without intervals"]


def _other(name: str, counts: dict[str, int], usual: int, several: bool) -> list[str]:
    """The series of a panel with another number of seeds than usual; the panel, where all have the same."""
    if several and len(set(counts.values())) == 1:
        counts = {name: next(iter(counts.values()))}
        several = False
    where = f" of {name}" if several else ""
    return [f"{label}{where}: {count}" for label, count in counts.items() if count not in (0, usual)]


def target_cell(panel: ExperimentView, value: float) -> Row:
    """The column of targets, with the digits that it needs."""
    text = f"{display_factor(panel.measure) * value:g}"
    return {
        f"Target ({measure_unit_name(panel.measure)})": Number(
            display_factor(panel.measure) * value, len(text.partition(".")[2])
        )
    }


def rounds_cell(panel: ExperimentView, label: str, target: float, smooth: int) -> Number:
    """Rounds until the target."""
    reached = [panel.rounds_to(curve, target, smooth) for curve in panel.curves(label).values()]
    return reached_cell(reached, 1 if len(reached) > 1 else 0)


def saved_cell(panel: ExperimentView, label: str, baseline: str, target: float) -> Number:
    """Mean over seeds of the paired saving of rounds, in percent; only where every seed of both series arrives."""
    if label == baseline:
        return Number()
    values, _ = rounds_to.Quantity(kind="rounds_to", series=label, baseline=baseline, target=target).evaluate(panel)
    return mean_cell([100 * value for value in values], 1) if values else Number()


def no_target_sentence(panels: list[ExperimentView], targets: dict[str, tuple]) -> list[str]:
    """A sentence on the panels that have none at this scale."""
    names = [panel.name for panel in panels if not targets[panel.name]]
    return [f"No target at this scale: {', '.join(names)}"] if names else []


def diverged_series(panel: ExperimentView) -> list[str]:
    """The series that lost a run."""
    return [label for label in panel.results.labels if panel.results.diverged_runs(label)]
