"""Data behind a paper's artifacts: experiments in one measure, their results, the paper's digitised
curves."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from fedrepro.config.types import Frozen, NonNegative
from fedrepro.core.errors import unknown_name_message
from fedrepro.core.metrics import MEASURES, Measure
from fedrepro.data import source_label
from fedrepro.report import palette
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.palette import SeriesStyle
from fedrepro.report.statistics import Curve, best, grouped, rounds_to
from fedrepro.runs.reasons import MissingReason


def _check_measure(name: str) -> str:
    if name not in MEASURES:
        raise ValueError(unknown_name_message("measure", name, MEASURES))
    return name


MeasureName = Annotated[
    str, Field(json_schema_extra={"enum": list(MEASURES)}), AfterValidator(_check_measure)
]


class DisplayOptions(Frozen):
    """How artifacts show an experiment, unless they say otherwise."""

    name: str = ""  # in the paper, e.g. Fig. 4a
    # what sets the experiment apart from the paper's others, in words; captions add the data
    about: str = ""
    measure: MeasureName = "test_accuracy"
    target: dict[str, NonNegative] = {}  # by scale; 0..1, of a loss in nats
    reported: dict[str, str] = {}  # series -> key in the file of digitised curves
    # the settings chosen with these curves; false: none
    calibrated_on: Literal[False] | str | None = None


def calibrated_curves(experiments: Mapping[str, DisplayOptions]) -> dict[str, list[str]]:
    """Return digitised curve -> the settings that were chosen with the curve, each followed by the
    name of its experiment."""
    chosen: dict[str, list[str]] = {}
    for name, display in experiments.items():
        if display.calibrated_on:
            for curve in dict.fromkeys(display.reported.values()):
                chosen.setdefault(curve, []).append(f"{display.calibrated_on} ({name})")
    return chosen


class ExperimentRef(Frozen):
    """An experiment in one measure. Keys that are left out are taken from the paper's section
    `experiments`, but target and curves only if the measure is the same."""

    experiment: str
    measure: MeasureName | None = None
    target: dict[str, NonNegative] | None = None
    reported: dict[str, str] | None = None
    name: str | None = None  # of the panel; None: the experiment's

    @property
    def key(self) -> str:
        return self.name or self.experiment

    def resolved(self, experiments: Mapping[str, DisplayOptions]) -> DisplayOptions:
        """Return the display options, completed from the paper's section `experiments`."""
        base = experiments.get(self.experiment, DisplayOptions())
        if self.measure is not None and self.measure != base.measure:
            base = DisplayOptions(measure=self.measure, name=base.name, about=base.about)
        changes = {"target": self.target, "reported": self.reported, "name": self.name}
        return base.model_copy(
            update={key: value for key, value in changes.items() if value is not None}
        )


def setting_at(settings: Any, path: str) -> Any:
    """Return the setting at a path such as `algorithm.beta`; None if it is not set."""
    for key in path.split("."):
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings


@dataclass(frozen=True)
class ExperimentView:
    """An experiment's results in one measure, as an artifact shows them."""

    key: str
    display: DisplayOptions
    results: Results
    # of experiments that a claim compares with
    other_results: Mapping[str, Results] = field(default_factory=dict)

    def sibling(self, experiment: str) -> "ExperimentView":
        """Return the view of one of the other experiments, in the same measure."""
        return ExperimentView(
            experiment, DisplayOptions(measure=self.display.measure), self.other_results[experiment]
        )

    @property
    def name(self) -> str:
        """Return the name in tables."""
        return self.display.name or self.key

    @property
    def title(self) -> str:
        """Return name, data and description."""
        if not self.display.about:
            return self.name
        data = sorted({source_label.parse_label(run["dataset"])[0] for run in self.results.runs()})
        return f"{self.name}: {', '.join(filter(None, [' and '.join(data), self.display.about]))}"

    @property
    def measure(self) -> Measure:
        return MEASURES[self.display.measure]

    @property
    def missing_reason(self) -> MissingReason | None:
        return self.results.missing_reason

    @property
    def scale(self) -> str:
        return self.results.note["scale"]

    @property
    def target(self) -> float | None:
        """Return the target at this scale."""
        return self.results.at_scale(self.display.target)

    @property
    def comparable(self) -> bool:
        """Return whether our numbers may be compared with the paper's."""
        return self.results.compare == "full"

    def setting(self, label: str, path: str) -> Any:
        """Return a series' resolved setting by its path; None if it is not set."""
        return setting_at(self.results.note["series"][label]["config"], path)

    def curves(self, label: str) -> dict[int, Curve]:
        """Return seed -> (round, value) of the finished runs; values are 0..1, of a loss in
        nats."""
        return self.results.curves(label, self.display.measure)

    def rounds_to(self, curve: Curve, target: float, smooth: int = 1) -> int | None:
        """Return the first round at the target (for a loss: at or below it), as a mean over
        `smooth` measured rounds."""
        return rounds_to(self._rising(curve), self.sign * target, smooth)

    def best(self, curve: Curve, smooth: int = 1) -> float:
        """Return the highest value (for a loss: the lowest) of means over `smooth` measured
        rounds."""
        return self.sign * best(self._rising(curve), smooth)

    @property
    def sign(self) -> int:
        """Return 1, or -1 for a loss: multiplied by it, a higher value is better."""
        return -1 if self.measure.score == "loss" else 1

    def _rising(self, curve: Curve) -> Curve:
        return [(round, self.sign * value) for round, value in curve]


@dataclass(frozen=True)
class PaperData:
    """All data behind a paper's artifacts at one scale."""

    experiments: Mapping[str, DisplayOptions]
    results: Mapping[str, Results]  # by experiment, and by `<experiment>-<study>`
    curves: Mapping[str, Curve]  # digitised from the paper
    figures: Mapping[str, Any]  # by key, for figures that combine others
    # by experiment and series
    styles: Mapping[str, Mapping[str, SeriesStyle]] = field(default_factory=dict)
    curves_from: str = ""  # where the digitised curves were read
    # that the paper reports, by experiment and series
    ends: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # shares of the baseline's rounds, in the same way
    savings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    sizes: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by experiment and scale
    shown: dict[int, tuple[Any, Any]] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )  # what figures computed, by id

    def paper_ends(self, ref: ExperimentRef) -> dict[str, float]:
        """Return series -> the value that the paper reports for the end of a run, printed or as the
        end of its curve."""
        display = ref.resolved(self.experiments)
        plotted = {
            label: self.curves[key][-1][1]
            for label, key in display.reported.items()
            if key in self.curves
        }
        own = display.measure == self.experiments.get(ref.experiment, DisplayOptions()).measure
        return plotted | dict(self.ends.get(ref.experiment, {}) if own else {})

    def size(self, source: str) -> str:
        """Return what was run at a reduced scale, e.g. "15 of 300 rounds, 10,000 images"; empty at
        the paper's settings.

        `source`: the name of gathered results, of an experiment or of a study of one.
        """
        results, (experiment, _) = self.results[source], split_results_name(source)
        return (
            ""
            if results.compare == "full"
            else self.sizes.get((experiment, results.note["scale"]), "")
        )

    def as_run(self, source: str, name: str) -> str:
        """Return the name of an experiment with the rounds and classes that were run: "96 of 3000
        rounds" for "3000 rounds"."""
        for part in self.size(source).split(", "):
            whole = part.partition(" of ")[2]
            name = re.sub(rf"(?<![\d,]){whole}\b", part, name) if whole else name
        return name

    def scale_sentence(self, sources: Sequence[str]) -> str:
        """Return a sentence on the scale, with what was run of the experiments that have results.
        Reads no others than the `sources`, names of gathered results."""
        scale = self.results[sources[0]].note["scale"]
        made = {
            split_results_name(name)[0]: name
            for name in sources
            if not self.results[name].missing_reason
        }
        shown = {name: self.experiments.get(name, DisplayOptions()).name or name for name in made}
        groups = grouped(
            (size, self.as_run(made[name], shown[name]))
            for name in made
            if (size := self.size(made[name]))
        )
        texts = [
            size if len(groups) == 1 else f"{size} ({', '.join(own)})"
            for size, own in groups.items()
        ]
        return f"Scale {scale}{': ' if texts else ''}{'; '.join(texts)}."

    def panel(self, ref: ExperimentRef) -> ExperimentView:
        display = ref.resolved(self.experiments)
        name = self.as_run(ref.experiment, display.name)
        return ExperimentView(
            ref.key, display.model_copy(update={"name": name}), self.results[ref.experiment]
        )

    def curve_name(self, key: str) -> str:
        """Return the name of a digitised curve with the key `<figure>:<series>`, such as "Fig. 4:
        FedAvg".

        The series has the name that ours has in the first experiment in which one alone is compared
        with the curve.
        """
        figure, colon, series = key.partition(":")
        labels = [
            [label for label, curve in shown.reported.items() if curve == key]
            for shown in self.experiments.values()
        ]
        series = next((names[0] for names in labels if len(names) == 1), series)
        return f"Fig. {figure}: {series}" if colon else key

    def study(self, experiment: str, study: str) -> Results:
        return self.results[results_name(experiment, study)]

    def styles_of(self, results: Results) -> Mapping[str, SeriesStyle]:
        """Return the style of each series: the paper's, or styles for this experiment alone if the
        paper lacks a series."""
        experiment, _ = split_results_name(results.note["experiment"])
        styles = self.styles.get(experiment, {})
        if styles.keys() >= results.note["series"].keys():
            return styles
        algorithms = {
            label: series["algorithm"] for label, series in results.note["series"].items()
        }
        return palette.assign_styles({experiment: algorithms})[experiment]


def results_name(experiment: str, study: str | None) -> str:
    """Return the name of gathered results."""
    return f"{experiment}-{study}" if study else experiment


def split_results_name(name: str) -> tuple[str, str]:
    """Return the experiment and the study (empty: none) in the name of gathered results."""
    experiment, _, study = name.partition("-")
    return experiment, study
