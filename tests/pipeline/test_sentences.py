"""Three snapshots hold the sentences that users read; other tests assert kinds and values.

`python -m tests.pipeline.test_sentences` writes them again; the difference is then reviewed like
code.
"""

from pathlib import Path

import pytest
import yaml

from fedrepro.config.params import RunConfig
from fedrepro.config.types import parse
from fedrepro.core.errors import UserError
from fedrepro.report.reasons import ReasonKind
from fedrepro.report.verdicts.rules import NO_CLAIM, NONE_LISTED, SPREAD
from fedrepro.runs.reasons import MissingKind

FOLDER = Path(__file__).parents[1] / "snapshots"
RUN = {
    "dataset": "digits",
    "partition": {"name": "iid", "clients": 2},
    "model": "logistic",
    "clients_per_round": 1,
    "rounds": 2,
    "local_epochs": 1,
    "batch_size": 5,
    "lr": 0.1,
    "algorithm": "fedavg",
    "seed": 0,
}
MISTAKES = [
    {"rounds": -1},
    {"rounds": "two"},
    {"lr": True},
    {"sed": 1},
    {"measures": ["accuracy"]},
    {"precision": "float8"},
    {"augment": ["mirror"]},
    {"pixel_scaling": {"name": "unit", "mean": [0.1], "std": [0.2]}},
]


def reasons() -> dict[str, str]:
    return {
        f"{type(kind).__name__}.{kind.name}": kind.value for kind in (*ReasonKind, *MissingKind)
    }


def verdicts() -> dict[str, str]:
    """What a verdict means stands in docs/verdicts.md."""
    return {"±": SPREAD, "no claim": NO_CLAIM, "none": NONE_LISTED}


def mistakes() -> dict[str, str]:
    messages = {}
    for change in MISTAKES:
        with pytest.raises(UserError) as error:
            parse(RunConfig, RUN | change, "settings.yaml")
        messages[str(change)] = str(error.value)
    return messages


SNAPSHOTS = {"reasons": reasons, "verdicts": verdicts, "mistakes": mistakes}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_sentences_are_those_of_the_snapshot(name):
    assert SNAPSHOTS[name]() == yaml.safe_load(
        (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    )


if __name__ == "__main__":
    for key, make in SNAPSHOTS.items():
        text = yaml.safe_dump(make(), allow_unicode=True, width=120, sort_keys=False)
        (FOLDER / f"{key}.yaml").write_text(text, encoding="utf-8")
