"""What every kind of table has. A row maps column titles to text; what there is no number for is told in its place."""

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from fedrepro.config import Count, Frozen, NonNegative
from fedrepro.metrics import estimate
from fedrepro.report.evidence import Evidence, Panel, Ref
from fedrepro.report.known import Known
from fedrepro.report.numbers import NONE, arrivals, factor, spread, unit

NOT_RUN = "not run"  # why stands below the table
Refs = Annotated[
    tuple[Annotated[Ref, BeforeValidator(lambda given: {"experiment": given} if isinstance(given, str) else given)], ...],
    Field(min_length=1),
]


class Table(Frozen):
    """Rows over some experiments, each in its own measure: by name, or as `{experiment, measure, name}`."""

    title: str
    kind: str
    panels: Refs
    labels: ClassVar[tuple[str, ...]] = ()  # the settings that name a series

    def sources(self, figures: dict) -> list[str]:
        """The gathered results that it is made from."""
        return list(dict.fromkeys(ref.experiment for ref in self.panels))

    def parts(self, figures: dict) -> list["Table"]:
        """All that says what stands in it."""
        return [self]

    @property
    def experiments(self) -> list[str]:
        return self.sources({})

    def check(self, known: Known) -> None:
        """That all that it names exists."""
        named = [getattr(self, key) for key in self.labels]
        for ref in self.panels:
            known.at("panels").ref(ref, named)
        keys = [ref.key for ref in self.panels]
        if repeated := sorted({key for key in keys if keys.count(key) > 1}):
            known.at("panels").refuse(f"{', '.join(repeated)}: give panels of one experiment a name each")

    def build(self, evidence: Evidence) -> list[dict[str, str]]:
        return self.rows([evidence.panel(ref) for ref in self.panels], evidence)

    def rows(self, panels: list[Panel], evidence: Evidence) -> list[dict[str, str]]:
        raise NotImplementedError

    def told(self, panels: list[Panel]) -> list[str]:
        """Sentences on what the numbers are, for panels that were run."""
        raise NotImplementedError

    def caption(self, evidence: Evidence) -> str:
        """Title, and what a reader must know beside the numbers: reductions, measure, seeds, data, scale."""
        return f"{self.title}{'' if self.title[-1] in '.?!' else '.'} {self.remark(evidence)}"

    def remark(self, evidence: Evidence) -> str:
        """The caption without the title."""
        panels = [evidence.panel(ref) for ref in self.panels]
        shown = [panel for panel in panels if not panel.skipped]
        parts = [*self.told(shown), _seeds(shown)] if shown else []
        parts += [f"{panel.key} was not run: {panel.skipped}" for panel in panels if panel.skipped]
        if data := sorted({run["dataset"] for panel in shown for run in panel.results.runs()}):
            parts.append(f"Data: {', '.join(data)}")
        note = panels[0].results.note
        parts.append(f"Scale {note['scale']}: {note['scale_note']}")
        return " ".join(" ".join(f"{part}." for part in parts).split())


class WithTargets(Table):
    """A table whose rows belong to targets: its own by scale, else each experiment's."""

    baseline: str
    smooth: Count = 1
    targets: dict[str, tuple[NonNegative, ...]] = {}
    labels: ClassVar = ("baseline",)

    def check(self, known: Known) -> None:
        super().check(known)
        known.at("targets").names("scale", self.targets, known.scales)

    def at(self, panel: Panel) -> tuple[float, ...]:
        """Targets at the panel's scale; none where nobody has any."""
        return self.targets.get(panel.scale, () if panel.target is None else (panel.target,))


def measured(panels: list[Panel]) -> str:
    """The panels' measures in words."""
    words = {panel.key: _whose(panel) for panel in panels}
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    return ", ".join(f"{text} ({key})" for key, text in words.items())


def _whose(panel: Panel) -> str:
    measure = panel.measure
    return f"the {measure.over}' mean {measure.title}" if measure.over else measure.title


def _seeds(panels: list[Panel]) -> str:
    counts = sorted({len({run["seed"] for run in panel.results.runs()}) for panel in panels})
    if counts == [1]:
        return "One seed"
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Means over n = {number} seeds, ± one standard deviation"


def target(panel: Panel, value: float) -> dict[str, str]:
    """The column of targets."""
    return {f"Target ({unit(panel.measure)})": f"{factor(panel.measure) * value:g}"}


def rounds(panel: Panel, label: str, target: float, smooth: int) -> str:
    """Rounds until the target."""
    reached = [panel.rounds_to(curve, target, smooth) for curve in panel.curves(label).values()]
    return arrivals(reached, 1 if len(reached) > 1 else 0)


def saved(panel: Panel, label: str, baseline: str, target: float) -> str:
    """Mean over seeds of the paired saving of rounds, in percent; only where every seed of both series arrives."""
    if label == baseline or panel.results.diverged(label) or panel.results.diverged(baseline):
        return NONE
    ours, theirs = panel.curves(label), panel.curves(baseline)
    pairs = [
        (panel.rounds_to(curve, target), panel.rounds_to(theirs[seed], target))
        for seed, curve in ours.items()
        if seed in theirs
    ]
    if not pairs or any(None in pair for pair in pairs):
        return NONE
    return f"{spread(estimate([100 * (1 - mine / base) for mine, base in pairs]), 1)} %"
