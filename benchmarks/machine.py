"""What the numbers were measured on: hardware, versions, and how fast it multiplies matrices."""

import importlib.metadata
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

PACKAGES = ("torch", "numpy", "fedrepro", "flwr", "ray", "pfl")
SIDE = {"cpu": 1024, "cuda": 8192}  # of the square float32 matrices
SECONDS = 1.0  # of measuring, after a warm-up of a fifth of it


def versions() -> dict[str, str]:
    """Of Python and the packages that are installed here."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def hardware(device: str) -> dict[str, str | int | float]:
    """Processor, cores, memory in GiB and, where one is used, the GPU."""
    import psutil

    found = {
        "processor": _processor(),
        "cores": psutil.cpu_count() or 1,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }
    return found | ({"gpu": torch.cuda.get_device_name()} if device == "cuda" else {})


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def matrix_rate(device: str, meet: Callable[[], None]) -> dict[str, float]:
    """Floating-point operations per second of a float32 matrix product on one thread (or the GPU): the median over `SECONDS`,
    begun when all processes have met."""
    torch.set_num_threads(1)
    side = SIDE[device]
    left, right = torch.rand(side, side, device=device), torch.rand(side, side, device=device)
    _products(left, right, SECONDS / 5)
    meet()
    return {"rate": 2 * side**3 / statistics.median(_products(left, right, SECONDS))}


def _products(left: torch.Tensor, right: torch.Tensor, budget: float) -> list[float]:
    """Seconds of each product, for about `budget` seconds."""
    spent: list[float] = []
    while sum(spent) < budget:
        began = time.perf_counter()
        torch.mm(left, right)
        if left.is_cuda:
            torch.cuda.synchronize()
        spent.append(time.perf_counter() - began)
    return spent
