"""Freed memory stays with the process: a step that allocates it again causes no page faults."""

import platform
import subprocess
import sys

import pytest

from fedrepro.training import devices

CHILD = """
import ctypes, resource
from fedrepro.training.devices import disable_malloc_trim
take = ctypes.CDLL(None).malloc
give = ctypes.CDLL(None).free
take.restype, take.argtypes, give.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def step():
    blocks = [take(15 << 20) for _ in range(3)]
    for block in blocks:
        ctypes.memset(block, 0, 15 << 20)
    for block in blocks:
        give(block)

# by itself, glibc from now on takes away what is above 40 MiB at the end of its heap
give(take(20 << 20))
for _ in range(2):
    step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        step()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    assert disable_malloc_trim()
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="no glibc here, whose heap this is about"
)
def test_what_a_step_frees_is_there_for_the_next():
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    by_itself, after = map(int, done.stdout.split())
    assert after < 100 < by_itself


def test_malloc_settings_need_glibc(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not devices.disable_malloc_trim()
