"""The calls of torch's host code for CUDA in our training, on a pretended device
(pretended_cuda/__init__.py)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pretended_cuda
from fedrepro.config import registry
from support.federation import ALGORITHMS

METHODS = [f"{name}, stacked+graph" for name in ALGORITHMS]

why = pretended_cuda.missing()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    return pretended_cuda.build(tmp_path_factory.mktemp("pretended"))


def answered(library: Path, *words: str, **more: str) -> dict:
    """What a Python process to which the device is there printed, as JSON."""
    given = {
        "env": pretended_cuda.environment(library, **more),
        "capture_output": True,
        "text": True,
        "timeout": 600,
    }
    done = subprocess.run([sys.executable, "-W", "ignore", *words], **given)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def rounds(library) -> dict:
    """Of each case what the host did in a local training."""
    return answered(library, "-m", "pretended_cuda.rounds")


def test_every_method_and_every_model_is_tried(rounds):
    tried = {case.split(", ")[0] for case in rounds}
    assert set(METHODS) <= rounds.keys() and set(registry.names("models")) - {"logistic"} <= tried


def test_nobody_waits_and_captures_hold_what_they_may(rounds):
    """No wait for the device in a local training, no synchronising call of torch, nothing in a
    capture that CUDA forbids."""
    assert {name: case["wrong"] for name, case in rounds.items() if case["wrong"]} == {}


def test_a_graph_is_one_launch_beside_its_copies(rounds):
    """In and out of where it was captured, and the optimiser: at most 8, whatever the method."""
    captured = {name: case for name, case in rounds.items() if name.endswith("+graph")}
    assert captured and all(case["nodes"] > 0 for case in captured.values())
    assert {
        name: case["step"]
        for name, case in captured.items()
        if name in METHODS and case["step"] > 8
    } == {}


TAKEN = """
import fcntl, json, sys
from fedrepro.config.params import Gpus
from fedrepro.core import provenance
from fedrepro.training import devices
import torch
from pretended_cuda.device import library

contexts = lambda: [number for number in range(3) if library.pretended_context(number)]
hardware = provenance.hardware(torch.device("cuda"))
planned = [devices.planned_device("auto").type, hardware, contexts()]
other = next(devices.lock_files(Gpus()))[1].open("w")
fcntl.flock(other, fcntl.LOCK_EX)
devices.acquire_device("cuda")
torch.ones(3, device="cuda").sum()
json.dump([planned, contexts()], sys.stdout)
"""


def test_a_plan_opens_no_context_and_a_job_one(library, tmp_path):
    """Of three GPUs the first has its job: a context, which takes memory, is on the second
    alone."""
    planned, used = answered(library, "-c", TAKEN, PRETENDED_DEVICES="3", TMPDIR=str(tmp_path))
    assert planned == ["cuda", "Pretended GPU", []] and used == [1]


FULL = """
import json, sys, tempfile
from pathlib import Path
import fedrepro, torch
from support.federation import a_run, config, images, partition
from fedrepro.training import devices
from fedrepro.training import run as engine
from fedrepro.core.errors import UserError
from pretended_cuda.device import library

settings = {"model": {"name": "pfl_cnn"}, "precision": "float32", "batch_size": 100}
settings |= {"local_epochs": 1, "rounds": 1}
settings |= {"partition": {"name": "iid", "clients": 50}, "clients_per_round": 50, "proxy": None}
given, dataset = config(**settings), images(train=5000, shape=(3, 32, 32))
placed = partition(given, dataset), devices.pick_device("cuda"), engine.Limits(), "stacked"

def train(limit):
    torch.cuda.empty_cache()
    library.pretended_limit(limit)
    try:
        with tempfile.TemporaryDirectory() as folder:
            engine.train(a_run(Path(folder), given), dataset, *placed)
    except UserError as error:
        return str(error)

json.dump([train(2 * 2**30), library.pretended_peak(), train(2**28)], sys.stdout)
"""


def test_a_stack_keeps_within_its_memory(library):
    """50 clients with batches of 100 on pfl-research's CNN, as one stack 4.6 GiB; where memory is
    full all the same, one message says what to do."""
    nothing, peak, message = answered(library, "-c", FULL)
    assert nothing is None and 2**28 < peak < 2 * 2**30
    words = (
        "memory is full on cuda, with executor stacked, 50 clients a round and batches of "
        "100: choose executor: sequential"
    )
    assert message.startswith(words)
