"""Hooks, and the fixtures that several files ask for; what else they share lies in `support`."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fedrepro.core import provenance
from fedrepro.runs.paths import Paths
from fedrepro.training.devices import pick_device

# before it is imported: a failed comparison there shows its two sides, too
pytest.register_assert_rewrite("support")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest begin first: at the end one of two cores would wait for them."""
    slow = (
        "test_snakemake",
        "test_dvc",
        "test_executors",
        "test_committed",
        "test_studies",
        "test_models",
        "test_terminal",
    )
    items.sort(key=lambda item: slow.index(item.path.stem) if item.path.stem in slow else len(slow))


@pytest.fixture(autouse=True)
def figures_closed():
    """Those of a test, where it drew any."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture(autouse=True, scope="session")
def signals() -> None:
    """Those of a terminal: a shell lets what it starts in the background ignore them, and so would
    all that tests start."""
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(autouse=True, scope="session")
def folder() -> None:
    """The working folder of tests that choose no other: a copy of the checkout."""
    from support.checkout import ROOT

    os.chdir(ROOT)


def pytest_unconfigure() -> None:
    from support import checkout

    checkout.remove()


@pytest.fixture(autouse=True, scope="session")
def device() -> torch.device:
    """The processor, with one thread and repeatable sums."""
    return pick_device("cpu")


@pytest.fixture
def paths(tmp_path) -> Paths:
    return Paths(tmp_path / "data", tmp_path / "results", tmp_path / "reports")


@pytest.fixture
def package(tmp_path, monkeypatch) -> Iterator[Path]:
    """A copy of the package that may be changed."""
    from support.code import forget

    copy = tmp_path / "fedrepro"
    shutil.copytree(provenance.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "PACKAGE", copy)
    forget()
    yield copy
    forget()
