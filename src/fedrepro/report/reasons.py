"""Reasons why a quantity has no value or a verdict is what it is: kinds for the code, sentences for
readers."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class ReasonKind(StrEnum):
    """A kind of reason, with its sentence as a format string for the values of the reason."""

    # why there is no value
    DIVERGED = "{series}, {run}"
    UNMEASURED = "no {what} of {series}"
    UNPAIRED = "seed {seed}: no run of {series} with this seed"
    TOO_SHORT = "a mean of {smooth} measured rounds needs longer runs (measured: {rounds})"
    NO_ROUND = "no value of {series} at round {round}"
    DEAD = (
        "in most rounds the activations of {series} do not differ between devices, as in a "
        "dead network"
    )
    ONE_CLASS = "{series} predicts a single class: {value} in the last {rounds} rounds of all seeds"
    NO_TRAINING = (
        "the new clients of {series} reach the target without training, so nothing can be saved"
    )
    NOT_REACHED = "{series} does not reach {target} within {rounds} rounds"
    ONE_REACHES = (
        "{series} does not reach {target} within {rounds} rounds; {other} does at {reached}"
    )
    CLIENTS_LATE = (
        "{missing} of {total} new clients of {series} do not reach {target} within {epochs} epochs"
    )
    # why the claim cannot be tested
    NOT_RUN = "{text}"
    NOT_TESTABLE = "{text}"
    ENDS_EARLY = "our runs end at round {end}, but the claim is about round {needed}"
    PAPER_ONLY = "only differences between series are compared at this scale"
    NO_SIGN = (
        "a claim of no difference has no direction, and its size is judged at scale paper only"
    )
    UNSTEADY = (
        "the paper's curves have this direction in only {percent} % of the rounds read "
        "off, so shorter runs cannot test it"
    )
    # what the interval shows
    ONE_SEED = "a single seed has no interval"
    BELOW_LEAST = "the whole interval lies below {least}, the smallest lead that counts"
    CONTAINS_REPORTED = "the 95 % interval contains the reported {reported}"
    EXCLUDES_REPORTED = "the 95 % interval excludes the reported {reported}"
    CONTAINS_ZERO = "the interval of the difference contains zero"
    ONE_CONTAINS_ZERO = "at least one of the two differences has an interval that contains zero"
    FAR = "the reported value is further away than tolerance and chance explain"
    NOT_AFTER_HOLM = "the interval excludes zero, but not after Holm's correction (p = {p})"
    AS_CLAIMED = "the direction is as claimed"
    OPPOSITE = "the direction is opposite to the claim"
    WIDE_TOLERANCE = (
        "the direction is as reported; the tolerance, over half of the difference, "
        "is too wide to judge the size"
    )
    BEYOND_TOLERANCE = (
        "the direction is as reported, but the interval is not entirely within the tolerance"
    )
    OVER_EDGE = "our runs show neither agreement within the tolerance nor a difference beyond it"
    # remarks
    AT = "{text}"
    DISTANCE = "{gap} from the reported value, {allowed} allowed"
    POWERED = "{seeds} seeds would usually suffice to detect a difference of the reported size"
    SEEDS_NEEDED = "{seeds} seeds would be needed to detect a difference of the reported size"
    CALIBRATED = "{series}: {text}"
    COPIES = "on {data}"
    POOLED = (
        "{panels} panels, each with its mean and number of seeds: {means}; "
        "{ahead} of {pairs} pairs of runs with the same seed ahead"
    )


@dataclass(frozen=True)
class Reason:
    """A reason; `str` gives its sentence. `seeds`: the seeds that it applies to; empty if it
    applies to all."""

    kind: ReasonKind
    values: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()

    def __str__(self) -> str:
        text = self.kind.format(**self.values)
        return (
            f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}: {text}"
            if self.seeds
            else text
        )


def make_reason(why: ReasonKind, **values: Any) -> Reason:
    """Return a reason; lists among the values, such as several series, are joined by "and"."""
    return Reason(
        why,
        {
            key: " and ".join(value) if isinstance(value, list) else value
            for key, value in values.items()
        },
    )


def reasons_sentence(reasons: list[Reason]) -> str:
    """Join the sentences of reasons, each once."""
    return "; ".join(dict.fromkeys(map(str, reasons)))
