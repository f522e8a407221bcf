"""Reasons why an experiment, a study or an artifact has no numbers, as data for code and as a
sentence for pages."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from fedrepro.core.formatting import count

UNFINISHED = "not finished"


class MissingKind(StrEnum):
    LEFT_OUT = "left out"  # the scale does not list it; `text` names the scales that do
    DATA_MISSING = "data missing"  # `text` says how to get the data
    # `series` have no chosen values, or of other settings; `text` is the command that chooses
    NOT_TUNED = "not tuned"
    NOT_FINISHED = "not finished"  # only training is missing, so pages show the command
    NO_STUDY = "no study"  # the settings request no study
    WEIGHTS_GONE = "weights gone"  # a study needs the weights of runs that were kept without them
    NO_TARGET = "no target"  # the settings have no target accuracy at this scale
    NO_VALUES = "no values"  # the finished runs lack the measured columns


@dataclass(frozen=True)
class MissingReason:
    """A reason; `str()` makes its sentence. `missing` and `total` count runs, or the studies named
    `study`."""

    kind: MissingKind
    text: str = ""
    missing: int = 0
    total: int = 0
    study: str = ""
    series: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.kind:
            case MissingKind.DATA_MISSING:
                return f"data not available: {self.text}"
            case MissingKind.NOT_TUNED:
                first, rest = self.series[:3], len(self.series) - 3
                named = ", ".join(first) + (f" and {rest} more" if rest > 0 else "")
                return (
                    f"no values are chosen with these settings for {named}. Choose them: "
                    f"{self.text}"
                )
            case MissingKind.NOT_FINISHED if self.series:
                return f"the runs of {', '.join(self.series)} are {UNFINISHED}"
            case MissingKind.NOT_FINISHED if self.study:
                return f"{self.missing} of {self.total} studies of {self.study} are {UNFINISHED}"
            case MissingKind.NOT_FINISHED:
                return (
                    f"{self.missing} of {count(self.total, 'run')} "
                    f"{'is' if self.missing == 1 else 'are'} {UNFINISHED}"
                )
            case MissingKind.NO_STUDY:
                return f"no {self.study} at this scale"
            case MissingKind.WEIGHTS_GONE:
                return (
                    f"{self.missing} of {self.total} runs are kept without their weights, "
                    f"which {self.study} need"
                )
            case MissingKind.NO_TARGET:
                return "no target at this scale"
            case MissingKind.NO_VALUES:
                return "no finished run has what it shows"
        return self.text


def unfinished(series: Sequence[str]) -> MissingReason:
    """Return the reason that no run of these series is finished."""
    return MissingReason(MissingKind.NOT_FINISHED, series=tuple(series))


def to_note(reason: MissingReason | None) -> dict[str, Any]:
    """Return the entries of a reason in the JSON of gathered results: the sentence and the
    fields."""
    if reason is None:
        return {"skipped": None}
    return {
        "skipped": str(reason),
        "reason": {key: value for key, value in asdict(reason).items() if value},
    }


def from_note(note: Mapping[str, Any]) -> MissingReason | None:
    """Return the reason that `to_note` stored in the JSON of gathered results, or None."""
    if note["skipped"] is None:
        return None
    stored = note["reason"]
    return MissingReason(
        **stored | {"kind": MissingKind(stored["kind"]), "series": tuple(stored.get("series", ()))}
    )
