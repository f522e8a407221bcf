"""The campaigns' helpers: drawn inputs are wrong, and a failure is reported with the command that repeats it."""

import argparse
import random
import re
import subprocess
import sys

import pytest

from support.checkout import ROOT

sys.path.insert(0, str(ROOT))
from tests.campaigns import cases, hostile
from tests.campaigns.cases import Ended, Failed


def test_a_failed_case_is_told_with_how_to_repeat_it(monkeypatch, capsys):
    def case(number: int, draw: random.Random) -> str:
        if number == 2:
            raise Failed(f"drew {draw.random()}")
        return "well"

    monkeypatch.setattr(cases, "warm", lambda folder: None)
    options = argparse.Namespace(seed=7, count=3, only=None)
    assert cases.run_campaign("x", lambda: case, options) == 1
    output = capsys.readouterr().out
    assert "again: python -m tests.campaigns.x --seed 7 --only 2" in output and ": 2 well; 1 failed" in output
    options.only = 2
    assert cases.run_campaign("x", lambda: case, options) == 1
    assert output.splitlines()[0] == capsys.readouterr().out.splitlines()[0]
    options.only = 0
    assert cases.run_campaign("x", lambda: case, options) == 0


@pytest.mark.parametrize(("code", "text"), [
    (0, "error: x\n"), (1, "x\n"), (2, "error: x\nerror: y\n"), (1, "Traceback (most recent call last)\nerror: x\n"),
])  # fmt: skip
def test_what_is_not_one_message(code, text):
    assert cases.one_message(Ended(2, "warning\nerror: x\n")) == "error: x"
    with pytest.raises(Failed):
        cases.one_message(Ended(code, text))


def test_what_is_drawn_is_not_what_was_right():
    draw = random.Random(0)
    for values in hostile.RIGHT.values():
        assert all(repr(hostile.spoiled(values, draw)[0]) != repr(values) for _ in range(30))
    for damage, change in hostile.DAMAGES.items():
        assert damage == "zeros" or change(b"some 12\nbytes 3\n", draw) != b"some 12\nbytes 3\n"  # which may be there already


def test_one_case_of_each_topic():
    """In a process of its own, since cases are forked; it trains what is spoiled, which takes seconds."""
    command = [sys.executable, "-m", "tests.campaigns.hostile", "--seed", "1", "--count", str(len(hostile.TOPICS))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    topics = set(re.findall("[0-9] (\\w+): (?:allowed|one message)", done.stdout))
    assert topics == hostile.TOPICS.keys() and "; 0 failed" in done.stdout
