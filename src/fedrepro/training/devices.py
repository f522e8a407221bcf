"""Which device a job trains on: the processor, or one GPU that no other job of ours uses.

A GPU is taken by a lock on a file that is named by the GPU itself, so that jobs which see other parts of a machine mean the
same one; the lock ends with the process, however that ends. To plan takes nothing and opens no context, which would cost memory
on a GPU.
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
POLL_SECONDS = 1.0  # between two looks at GPUs that are all taken
LOCK_FOLDER = f"fedrepro-gpus-{os.getuid()}"  # folder of the lock files, where temporary files lie
held_locks: list[IO[str]] = []  # the lock of this process


def pick_device(name: str) -> torch.device:
    """auto takes CUDA where there is one. The settings of a process are made here: those that make a device repeat its bits,
    and what becomes of freed memory."""
    if name not in (known := get_args(Device)):
        raise UserError(f"device: one of {', '.join(known)} (got {name})")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device: cuda was asked for but torch sees none; choose auto or cpu")
    device = torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
    disable_malloc_trim()
    torch.set_num_threads(1)  # several processes beat several threads on networks this small, and sums keep their order
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("error")  # as use_deterministic_algorithms, which imports a compiler first: 2 s
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads what it has not written
    torch.backends.cudnn.benchmark = False
    return device


def planned_device(name: str) -> torch.device:
    """The device that work planned here will be done on: `cuda` is taken at its word, since it may be done elsewhere."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def max_parallel_jobs(name: str, gpus: Gpus, cores: int) -> int:
    """How many jobs may be at work at once: as many as there are cores for, or places on GPUs where those are here."""
    here = planned_device(name).type == "cuda" and torch.cuda.is_available()
    return min(cores, len(gpu_indices(gpus)) * gpus.jobs) if here else cores


def gpu_indices(gpus: Gpus = ANY_GPU) -> list[int]:
    """The GPUs that may be taken, by torch's numbers, which count from 0 what CUDA_VISIBLE_DEVICES leaves. Raises UserError for
    one that is not there."""
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0  # the driver may be too old for those that it counts
    if unknown := [number for number in gpus.numbers or () if number >= there]:
        raise UserError(f"devices: torch sees {_list(range(there)) or 'none'} (got {_list(unknown)})")
    return list(range(there) if gpus.numbers is None else gpus.numbers)


def acquire_device(
    name: str, gpus: Gpus = ANY_GPU, forbid: Callable[[float], bool] = lambda seconds: False
) -> torch.device | None:
    """The named device, made ready. A GPU is this process's for as long as it lives: one of those that have fewer jobs than
    they may have, the emptiest first. Where there is none it waits; `forbid` is told the seconds of a further wait, and may end
    it: None."""
    device = pick_device(name)
    if device.type == "cuda" and not held_locks:
        told = f"every GPU ({_list(gpu_indices(gpus))}) has its {count(gpus.jobs, 'job')}, the most by gpu_jobs_per_device"
        for waited in itertools.count():
            if (number := _lock_gpu(gpus)) is not None:
                break
            if forbid(POLL_SECONDS):
                log.warning("%s, and the time is over", told)
                return None
            if not waited:
                log.info("%s: waiting", told)
            time.sleep(POLL_SECONDS)
        torch.cuda.set_device(number)  # from here on `cuda` is this one
    return device


def _lock_gpu(gpus: Gpus) -> int | None:
    """The GPU of which a lock could be had."""
    for number, path in lock_files(gpus):
        file = path.open("w", encoding="utf-8")
        if taken := lock(file):
            held_locks.append(file)
            return number
        file.close()
        if taken is None:
            log.warning("%s knows no locks, so that jobs may share a GPU; TMPDIR may name a folder that does", path.parent)
            return gpu_indices(gpus)[os.getpid() % len(gpu_indices(gpus))]
    return None


def lock_files(gpus: Gpus) -> Iterator[tuple[int, Path]]:
    """Every GPU's first place, then every GPU's second."""
    folder = Path(tempfile.gettempdir(), LOCK_FOLDER)
    folder.mkdir(mode=0o700, exist_ok=True)
    for place, number in itertools.product(range(gpus.jobs), gpu_indices(gpus)):
        yield number, folder / f"{torch.cuda.get_device_properties(number).uuid}-{place}"


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt(3)
NO_TRIM = -1
LARGEST_THRESHOLD = 2**25  # bytes: glibc takes no larger threshold; what is larger still comes from the system each time


def disable_malloc_trim() -> bool:
    """Never give freed blocks back to the system while this process runs, and serve all but the largest from them. Returns
    whether the C library can be told so; only glibc can.

    By itself glibc decides by what was freed before: the same training either keeps its blocks, or has them taken away and
    handed out anew in every step, page after page. That made steps of FedCL's MNIST network 1.38 times as long, of VGG9 1.11
    times. Bits and peak memory stay the same.
    """
    if not sys.platform.startswith("linux"):
        return False
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    return tell is not None and all([tell(TRIM_THRESHOLD, NO_TRIM), tell(MMAP_THRESHOLD, LARGEST_THRESHOLD)])
