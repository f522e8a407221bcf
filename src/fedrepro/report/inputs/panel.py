"""What artifacts are made from: an experiment in one measure, with its results and what the paper shows of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from fedrepro.config.types import Count, Frozen, NonNegative
from fedrepro.core.errors import unknown_name_message
from fedrepro.core.metrics import MEASURES, Measure
from fedrepro.data import source_label
from fedrepro.report import palette as looks
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.palette import SeriesStyle
from fedrepro.report.statistics import Curve, best, rounds_to
from fedrepro.runs.reasons import MissingReason


def _known(name: str) -> str:
    if name not in MEASURES:
        raise ValueError(unknown_name_message("measure", name, MEASURES))
    return name


MeasureName = Annotated[str, Field(json_schema_extra={"enum": list(MEASURES)}), AfterValidator(_known)]


class DisplayOptions(Frozen):
    """How an experiment is shown by every artifact that does not say otherwise."""

    name: str = ""  # in the paper, e.g. Fig. 4a
    about: str = ""  # what tells it from the others there, in words; its data are told by its runs
    measure: MeasureName = "test_accuracy"
    target: dict[str, NonNegative] = {}  # by scale; 0..1, of a loss in nats
    reported: dict[str, str] = {}  # series -> key in the file of digitised curves
    seeds_at_first_look: dict[str, Count] = {}  # by scale; how many seeds had been looked at when more were added
    calibrated_on: Literal[False] | str | None = None  # which settings these curves were used to choose; false: none


def calibrated_curves(experiments: Mapping[str, DisplayOptions]) -> dict[str, list[str]]:
    """Digitised curve -> what of ours was chosen by it, and in which experiment."""
    told: dict[str, list[str]] = {}
    for name, shown in experiments.items():
        for curve in dict.fromkeys(shown.reported.values()) if shown.calibrated_on else ():
            told.setdefault(curve, []).append(f"{shown.calibrated_on} ({name})")
    return told


class ExperimentRef(Frozen):
    """An experiment in one measure. What is left out is as in the paper's section `experiments`; its target and curves belong
    to the measure that is named there, so that they do not hold for another one."""

    experiment: str
    measure: MeasureName | None = None
    target: dict[str, NonNegative] | None = None
    reported: dict[str, str] | None = None
    name: str | None = None  # of the panel; else the experiment's

    @property
    def key(self) -> str:
        return self.name or self.experiment

    def resolved(self, experiments: Mapping[str, DisplayOptions]) -> DisplayOptions:
        """With all that is left out."""
        usual = experiments.get(self.experiment, DisplayOptions())
        named = {"name": usual.name, "about": usual.about}
        base = usual if self.measure in (None, usual.measure) else DisplayOptions(measure=self.measure, **named)
        own = {"target": self.target, "reported": self.reported, "name": self.name}
        return base.model_copy(update={key: value for key, value in own.items() if value is not None})


def setting_at(settings: Any, path: str) -> Any:
    """What settings say at a path such as `algorithm.beta`; None where they say nothing."""
    for key in path.split("."):
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings


@dataclass(frozen=True)
class ExperimentView:
    """An experiment's results as one artifact shows them; every curve that is read from them is in its measure."""

    key: str
    display: DisplayOptions
    results: Results
    other_results: Mapping[str, Results] = field(default_factory=dict)  # of the experiments that a claim holds it against

    def sibling(self, experiment: str) -> "ExperimentView":
        """One of these, in the same measure."""
        return ExperimentView(experiment, DisplayOptions(measure=self.display.measure), self.other_results[experiment])

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self.display.name or self.key

    @property
    def title(self) -> str:
        """Its name, data and what it is about."""
        data = (
            sorted({source_label.parse_label(run["dataset"])[0] for run in self.results.runs()}) if self.display.about else []
        )
        about = ", ".join(filter(None, [" and ".join(data), self.display.about]))
        return f"{self.name}: {about}" if about else self.name

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
        """At this scale."""
        return self.results.at_scale(self.display.target)

    @property
    def comparable(self) -> bool:
        """Whether our numbers may be held against the paper's."""
        return self.results.compare == "full"

    def setting(self, label: str, path: str) -> Any:
        """A series' resolved setting by its path; None where it has none."""
        return setting_at(self.results.note["series"][label]["config"], path)

    def curves(self, label: str) -> dict[int, Curve]:
        """Seed -> (round, value) of the finished runs; 0..1, of a loss in nats."""
        return self.results.curves(label, self.display.measure)

    def rounds_to(self, curve: Curve, target: float, smooth: int = 1) -> int | None:
        """First round at the target; a loss comes down to it."""
        return rounds_to(self._rising(curve), self.sign * target, smooth)

    def best(self, curve: Curve, smooth: int = 1) -> float:
        """The highest value, of a loss the lowest, averaged over `smooth` rounds."""
        return self.sign * best(self._rising(curve), smooth)

    @property
    def sign(self) -> int:
        """1, of a loss -1: times it, a value is the better the higher it is."""
        return -1 if self.measure.score == "loss" else 1

    def _rising(self, curve: Curve) -> Curve:
        return [(round, self.sign * value) for round, value in curve]


@dataclass(frozen=True)
class PaperData:
    """All that a paper's artifacts may be made from at one scale."""

    experiments: Mapping[str, DisplayOptions]
    results: Mapping[str, Results]  # by experiment, and by `<experiment>-<study>`
    curves: Mapping[str, Curve]  # the paper's digitised ones
    figures: Mapping[str, Any]  # for figures of several panels
    styles: Mapping[str, Mapping[str, SeriesStyle]] = field(default_factory=dict)  # of each experiment's series
    curves_from: str = ""  # where the digitised ones were read

    def panel(self, ref: ExperimentRef) -> ExperimentView:
        return ExperimentView(ref.key, ref.resolved(self.experiments), self.results[ref.experiment])

    def curve_name(self, key: str) -> str:
        """What a digitised curve is called: its own name of figure and series, `<figure>:<series>`."""
        figure, _, series = key.partition(":")
        return f"Fig. {figure}: {series}" if series else key

    def study(self, experiment: str, study: str) -> Results:
        return self.results[results_name(experiment, study)]

    def styles_of(self, results: Results) -> Mapping[str, SeriesStyle]:
        """Series -> look: the paper's; where it does not know one of them, as if the paper had nothing else."""
        experiment, _ = split_results_name(results.note["experiment"])
        known = self.styles.get(experiment, {})
        if known.keys() >= results.note["series"].keys():
            return known
        own = {label: series["algorithm"] for label, series in results.note["series"].items()}
        return looks.assign_styles({experiment: own})[experiment]


def results_name(experiment: str, study: str | None) -> str:
    """The name of gathered results."""
    return f"{experiment}-{study}" if study else experiment


def split_results_name(source: str) -> tuple[str, str]:
    """Of such a name the experiment, and the study or nothing."""
    experiment, _, study = source.partition("-")
    return experiment, study
