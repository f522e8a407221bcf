"""Choice of a job's device: the processor, or a GPU that is not used by more of our jobs than
allowed.

A job acquires a GPU by a lock on a file that is named after the GPU's own id, so that jobs that see
different GPUs of a machine agree. The lock ends with the process, however that ends. Planning
acquires no GPU and opens no context, which takes memory.
"""

import ctypes
import itertools
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, get_args

import torch

from fedrepro.config.params import Device, Gpus
from fedrepro.core.errors import UserError
from fedrepro.core.files import lock
from fedrepro.core.formatting import count

log = logging.getLogger(__name__)

ANY_GPU = Gpus()
POLL_SECONDS = 1.0  # between two attempts to lock a GPU
# folder of the lock files in the system's temporary folder
LOCK_FOLDER = f"fedrepro-gpus-{os.getuid()}"
held_locks: list[IO[str]] = []  # the lock of this process


def pick_device(name: str) -> torch.device:
    """Return the named device; auto is CUDA if available. Also sets up the process for repeatable
    bits and fast allocation."""
    valid = get_args(Device)
    if name not in valid:
        raise UserError(f"device: expected one of {', '.join(valid)} (got {name})")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device: cuda is not available to torch. Choose auto or cpu.")
    device = torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
    disable_malloc_trim()
    # on networks this small processes beat threads, and sums keep their order
    torch.set_num_threads(1)
    # like use_deterministic_algorithms, which first imports a compiler for 2 s
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False  # pyright: ignore[reportAttributeAccessIssue]  (a property of the module; no code here reads uninitialised memory)
    torch.backends.cudnn.benchmark = False
    return device


def planned_device(name: str) -> torch.device:
    """Return the device for planned work; `cuda` need not be available here, since the work may run
    elsewhere."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def max_parallel_jobs(name: str, gpus: Gpus, cores: int) -> int:
    """Return how many jobs may run at a time: one per core, or as many as the GPUs here may
    have."""
    uses_gpus = planned_device(name).type == "cuda" and torch.cuda.is_available()
    return min(cores, len(gpu_indices(gpus)) * gpus.jobs) if uses_gpus else cores


def gpu_indices(gpus: Gpus = ANY_GPU) -> list[int]:
    """Return the usable GPUs by torch's numbers, which count the GPUs in CUDA_VISIBLE_DEVICES from
    0.

    Raises UserError for a number without a GPU."""
    # the driver may be too old for those it counts
    available = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if unknown := [number for number in gpus.numbers or () if number >= available]:
        raise UserError(
            f"devices: torch sees {_list(range(available)) or 'none'} (got {_list(unknown)})"
        )
    return list(range(available) if gpus.numbers is None else gpus.numbers)


def acquire_device(
    name: str, gpus: Gpus = ANY_GPU, forbid: Callable[[float], bool] = lambda seconds: False
) -> torch.device | None:
    """Return the named device, set up. A GPU is locked until the process ends: the one with the
    fewest jobs.

    Waits while all GPUs have as many jobs as allowed; returns None once `forbid(seconds of a
    further wait)` is true."""
    device = pick_device(name)
    if device.type == "cuda" and not held_locks:
        state = (
            f"every GPU ({_list(gpu_indices(gpus))}) has {count(gpus.jobs, 'job')}, the "
            f"limit by gpu_jobs_per_device"
        )
        for waited in itertools.count():
            if (number := _lock_gpu(gpus)) is not None:
                break
            if forbid(POLL_SECONDS):
                log.warning("%s, and the time limit is reached", state)
                return None
            if not waited:
                log.info("%s: waiting", state)
            time.sleep(POLL_SECONDS)
        torch.cuda.set_device(number)  # from here on `cuda` means this one
    return device


def _lock_gpu(gpus: Gpus) -> int | None:
    """Return a GPU that could be locked; None if all are in use."""
    for number, path in lock_files(gpus):
        file = path.open("w", encoding="utf-8")
        locked = lock(file)
        if locked:
            held_locks.append(file)
            return number
        file.close()
        if locked is None:
            log.warning(
                "%s supports no locks, so jobs may share a GPU; set TMPDIR to a folder that does",
                path.parent,
            )
            return gpu_indices(gpus)[os.getpid() % len(gpu_indices(gpus))]
    return None


def lock_files(gpus: Gpus) -> Iterator[tuple[int, Path]]:
    """Yield GPUs and lock files: the first of every GPU, then the second of every GPU."""
    folder = Path(tempfile.gettempdir(), LOCK_FOLDER)
    folder.mkdir(mode=0o700, exist_ok=True)
    for place, number in itertools.product(range(gpus.jobs), gpu_indices(gpus)):
        yield number, folder / f"{torch.cuda.get_device_properties(number).uuid}-{place}"


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt(3)
NO_TRIM = -1
# bytes: glibc accepts no more; larger blocks come from the system each time
LARGEST_THRESHOLD = 2**25


def disable_malloc_trim() -> bool:
    """Keep freed memory in this process, and reuse it for all but the largest blocks. Returns
    whether the C library can do so; only glibc can.

    By default glibc decides by what was freed before: the same training either keeps its blocks, or
    returns them and gets them again page by page in every step. That made steps of FedCL's MNIST
    network 1.38 times as long, of VGG9 1.11 times. Bits and peak memory stay the same.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(
        [mallopt(TRIM_THRESHOLD, NO_TRIM), mallopt(MMAP_THRESHOLD, LARGEST_THRESHOLD)]
    )
