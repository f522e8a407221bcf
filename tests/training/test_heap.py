"""Freed memory stays with the process: a step that allocates it again causes no page faults."""

import platform
import subprocess
import sys

import pytest

from fedrepro.training import devices

CHILD = """
import ctypes, resource, sys
from fedrepro.training.devices import disable_malloc_trim
if sys.argv[1] == "set":
    assert disable_malloc_trim()
take = ctypes.CDLL(None).malloc
give = ctypes.CDLL(None).free
take.restype, take.argtypes, give.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def step():
    blocks = [take(15 << 20) for _ in range(3)]
    for block in blocks:
        ctypes.memset(block, 0, 15 << 20)
    for block in blocks:
        give(block)

give(take(20 << 20))  # by itself, glibc from now on takes away what is above 40 MiB at the end of its heap
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    return int(subprocess.run([sys.executable, "-c", CHILD, mode], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc here, whose heap this is about")
def test_what_a_step_frees_is_there_for_the_next():
    assert faults("set") < 100 < faults("by itself")


def test_malloc_settings_need_glibc(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not devices.disable_malloc_trim()
