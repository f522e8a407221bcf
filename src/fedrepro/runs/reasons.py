"""Why an experiment, a study or an artifact has no numbers: data, which code decides on, and the sentence that shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from fedrepro.core.formatting import count

UNFINISHED = "not finished"


class MissingKind(StrEnum):
    LEFT_OUT = "left out"  # the scale does not list it; the text says which do
    DATA_MISSING = "data missing"  # the text says how to get them
    NOT_FINISHED = "not finished"  # training is all that is missing, so that pages say the command
    NO_STUDY = "no study"  # the settings ask for none
    WEIGHTS_GONE = "weights gone"  # of kept runs, which a study would start from
    NO_TARGET = "no target"  # the settings have none at this scale
    NO_VALUES = "no values"  # the finished runs have none of what is shown
    UNKNOWN = "unknown"  # numbers that earlier code gathered tell the sentence alone


@dataclass(frozen=True)
class MissingReason:
    """`missing` of `total` runs, or of studies called `study`; or all runs of the `series`. `str` makes the sentence."""

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
            case MissingKind.NOT_FINISHED if self.series:
                return f"the runs of {', '.join(self.series)} are {UNFINISHED}"
            case MissingKind.NOT_FINISHED if self.study:
                return f"{self.missing} of {self.total} studies of {self.study} are {UNFINISHED}"
            case MissingKind.NOT_FINISHED:
                return f"{self.missing} of {count(self.total, 'run')} {'is' if self.missing == 1 else 'are'} {UNFINISHED}"
            case MissingKind.NO_STUDY:
                return f"no {self.study} at this scale"
            case MissingKind.WEIGHTS_GONE:
                return f"{self.missing} of {self.total} runs are kept without their weights, which {self.study} need"
            case MissingKind.NO_TARGET:
                return "no target at this scale"
            case MissingKind.NO_VALUES:
                return "no finished run has what it shows"
        return self.text


def unfinished(series: Sequence[str]) -> MissingReason:
    """Why there is nothing of these series."""
    return MissingReason(MissingKind.NOT_FINISHED, series=tuple(series))


def to_note(reason: MissingReason | None) -> dict[str, Any]:
    """What the note of gathered results holds of it: the sentence, and what it was made from."""
    if reason is None:
        return {"skipped": None}
    return {"skipped": str(reason), "reason": {key: value for key, value in asdict(reason).items() if value}}


def from_note(note: Mapping[str, Any]) -> MissingReason | None:
    """What `write` left there."""
    if note["skipped"] is None:
        return None
    stored = note.get("reason", {"kind": MissingKind.UNKNOWN, "text": note["skipped"]})
    return MissingReason(**stored | {"kind": MissingKind(stored["kind"]), "series": tuple(stored.get("series", ()))})
