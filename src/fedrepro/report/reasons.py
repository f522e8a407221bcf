"""Why a quantity has no number, and why a verdict is what it is: kinds, which code decides on, with the sentences that show
them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class ReasonKind(StrEnum):
    """A kind of reason; its value is the sentence, with the reason's values in braces."""

    # of runs
    DIVERGED = "{series}, {run}"
    UNMEASURED = "no {what} of {series}"
    UNPAIRED = "seed {seed}: no run of {series} with this seed"
    TOO_SHORT = "a run that was measured in {rounds} has no mean of {smooth}"
    NO_ROUND = "no value of {series} at round {round}"
    DEAD = "in most rounds the activations of {series} do not differ at all, as where every unit is dead"
    ONE_CLASS = "{series} answers with one class: {value} in the last {rounds} rounds of all seeds"
    NO_TRAINING = "the new clients of {series} need no training"
    NOT_REACHED = "{series} does not reach {target} within {rounds} rounds"
    ONE_REACHES = "{series} does not reach {target} within {rounds} rounds; {other} does at {reached}"
    CLIENTS_LATE = "{missing} of {total} new clients of {series} are not at {target} within {epochs} epochs"
    # what cannot be compared
    NOT_RUN = "{text}"
    NOT_TESTABLE = "{text}"
    ENDS_EARLY = "our runs end at round {end}, the claim is about round {needed}"
    PAPER_ONLY = "only differences are compared at this scale"
    NO_SIGN = "a claim of no difference has no sign; its size is judged at scale paper only"
    UNSTEADY = "the paper's own curves have this sign in {percent} % of their rounds: shorter runs say nothing about the end"
    # what the interval shows
    ONE_SEED = "one seed has no interval"
    CONTAINS_ZERO = "the interval of the difference contains zero"
    ONE_CONTAINS_ZERO = "of the two differences that must exclude zero, the interval of at least one contains it"
    NO_LEAD = "the interval contains zero and no lead as large as {least}"
    NONE_AS_LARGE = "the interval contains zero and no difference as large as is reported"
    AS_CLAIMED = "the direction is as claimed"
    OPPOSITE = "the direction is not as claimed"
    WIDE_TOLERANCE = "the direction is as reported; so wide a tolerance (over half of the difference) says no more"
    DIRECTION = "the direction is as reported"
    BEYOND_TOLERANCE = "the direction is as reported, the interval reaches beyond what is allowed"
    OVER_EDGE = "the interval reaches over the edge of the tolerance"
    # what else is told
    SIGN_ONLY = "only the sign is judged at this scale"
    AT = "{text}"
    DISTANCE = "{gap} from the reported value, {allowed} allowed"
    POWERED = "one as large as is reported would mostly show with {seeds} seeds"
    SEEDS_NEEDED = "one as large as is reported would take {seeds} seeds to show"
    CALIBRATED = "{series}: {text}"
    COPIES = "on {data}"
    POOLED = "{panels} panels; {ahead} of {pairs} pairs of one seed ahead; probability of improvement {probability}"
    SEEDS_ADDED = "{seeds} added after a look at {looked}"
    LISTED_LATE = "listed after its runs had been seen"


@dataclass(frozen=True)
class Reason:
    """One reason; `str` makes the sentence. `seeds`: those that it holds for, where it does not hold for all runs."""

    kind: ReasonKind
    values: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()

    def __str__(self) -> str:
        text = self.kind.format(**self.values)
        return f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}: {text}" if self.seeds else text


def make_reason(why: ReasonKind, **values: Any) -> Reason:
    """A reason; several series are joined, numbers of rounds and seeds counted."""
    return Reason(why, {key: " and ".join(value) if isinstance(value, list) else value for key, value in values.items()})


def reasons_sentence(reasons: list[Reason]) -> str:
    """All of them, each once."""
    return "; ".join(dict.fromkeys(map(str, reasons)))
