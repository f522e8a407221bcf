"""What artifacts are made from: an experiment in one measure, with its results and what the paper shows of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

from fedrepro.config import Frozen, NonNegative
from fedrepro.measures import MEASURES, Measure
from fedrepro.metrics import Curve, rounds_to
from fedrepro.report.loading import Results


def _known(name: str) -> str:
    if name not in MEASURES:
        raise ValueError(f"unknown measure '{name}': choose from {', '.join(MEASURES)}")
    return name


Measured = Annotated[str, AfterValidator(_known)]


class Shown(Frozen):
    """How an experiment is shown by every artifact that does not say otherwise."""

    measure: Measured = "test_accuracy"
    target: dict[str, NonNegative] = {}  # by scale; 0..1, of a loss in nats
    reported: dict[str, str] = {}  # series -> key in the file of digitised curves


class Ref(Frozen):
    """An experiment in one measure. What is left out is as in the paper's section `experiments`; its target and curves belong
    to the measure that is named there, so that they do not hold for another one."""

    experiment: str
    measure: Measured | None = None
    target: dict[str, NonNegative] | None = None
    reported: dict[str, str] | None = None
    name: str | None = None  # of the panel; else the experiment's

    @property
    def key(self) -> str:
        return self.name or self.experiment

    def resolved(self, experiments: Mapping[str, Shown]) -> Shown:
        """With all that is left out."""
        usual = experiments.get(self.experiment, Shown())
        base = usual if self.measure in (None, usual.measure) else Shown(measure=self.measure)
        own = {"target": self.target, "reported": self.reported}
        return base.model_copy(update={key: value for key, value in own.items() if value is not None})


@dataclass(frozen=True)
class Panel:
    """An experiment's results as one artifact shows them; every curve that is read from them is in its measure."""

    key: str
    shown: Shown
    results: Results

    @property
    def measure(self) -> Measure:
        return MEASURES[self.shown.measure]

    @property
    def skipped(self) -> str | None:
        return self.results.skipped

    @property
    def scale(self) -> str:
        return self.results.note["scale"]

    @property
    def target(self) -> float | None:
        """At this scale."""
        return self.shown.target.get(self.scale)

    @property
    def full(self) -> bool:
        """Whether our numbers may be held against the paper's."""
        return self.results.compare == "full"

    def curves(self, label: str) -> dict[int, Curve]:
        """Seed -> (round, value) of the finished runs; 0..1, of a loss in nats."""
        return self.results.curves(label, self.shown.measure)

    def seeds(self, label: str) -> str:
        """How many there are, and what became of those that diverged."""
        return "; ".join([str(len(self.curves(label))), *self.results.diverged(label)])

    def rounds_to(self, curve: Curve, target: float, smooth: int = 1) -> int | None:
        """First round at the target; a loss comes down to it."""
        if self.measure.score == "loss":
            return rounds_to([(round, -value) for round, value in curve], -target, smooth)
        return rounds_to(curve, target, smooth)


@dataclass(frozen=True)
class Evidence:
    """All that a paper's artifacts may be made from at one scale."""

    experiments: Mapping[str, Shown]
    results: Mapping[str, Results]  # by experiment, and by `<experiment>-<study>`
    curves: Mapping[str, Curve]  # the paper's digitised ones
    figures: Mapping[str, Any]  # for figures of several panels

    def panel(self, ref: Ref) -> Panel:
        return Panel(ref.key, ref.resolved(self.experiments), self.results[ref.experiment])

    def study(self, experiment: str, study: str) -> Results:
        return self.results[source(experiment, study)]


def source(experiment: str, study: str | None) -> str:
    """The name of gathered results."""
    return f"{experiment}-{study}" if study else experiment
