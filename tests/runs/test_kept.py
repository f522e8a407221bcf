"""Committed results stay found: today's settings name every one of them, whatever was renamed since."""

import json
from pathlib import Path

from fedrepro.config.params import read_params, renamed
from fedrepro.core.files import text_digest
from fedrepro.data import datasets
from fedrepro.experiments import plan
from fedrepro.runs import integrity
from fedrepro.runs.integrity import is_kept
from fedrepro.runs.paths import Paths

ROOT = Path(__file__).parents[2]
KEPT = sorted((ROOT / "results/kept").glob("*/*/config.json"))


def test_every_kept_result_is_named_by_todays_settings(monkeypatch):
    """Planned with the data that each was made from."""
    monkeypatch.chdir(ROOT)
    assert KEPT
    records = {path.parent.relative_to(ROOT): json.loads(path.read_text(encoding="utf-8")) for path in KEPT}
    data = {datasets.key(record["config"]["dataset"]): record["data"] for record in records.values()}
    monkeypatch.setattr(datasets, "known", lambda choice, *where: data.get(datasets.key(choice), "unknown"))
    found = set()
    for scale in ("small", "paper"):
        planned = plan.plan(read_params(overrides={"scale": scale}), Paths())
        found |= {run.folder for run in plan.unique(plan.every(planned)) if is_kept(run.folder)}
    assert {str(folder) for folder in records} == {str(folder) for folder in found}


def test_every_kept_file_is_listed_as_it_is():
    """And no other; `fedrepro keep` sorts the lines and takes those of two branches together."""
    kept = ROOT / "results/kept"
    sums = {path.relative_to(kept).as_posix(): text_digest(path.read_bytes()) for path in kept.glob("*/*/*")}
    listed = integrity.sums(kept)
    assert listed.keys() == sums.keys()
    assert [name for name in sums if sums[name] != listed[name]] == []
    assert integrity.sum_lines((kept / integrity.SUMS).read_bytes()) == integrity.written_sums(sums).splitlines(), "not sorted"


def test_earlier_names_of_a_schedule():
    old = {"lr": 0.1, "lr_decay": 0.9, "lr_floor": 0.01}
    assert renamed(old) == {"lr": 0.1, "schedule": {"name": "exponential", "decay": 0.9, "floor": 0.01}}
    assert old == {"lr": 0.1, "lr_decay": 0.9, "lr_floor": 0.01}, "what was given is not changed"
    assert renamed(old | {"lr_decay": 1.0}) == renamed({"lr": 0.1}) == {"lr": 0.1}
