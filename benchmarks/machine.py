"""Hardware and versions of a measurement."""

import importlib.metadata
import platform
from pathlib import Path

import torch

PACKAGES = ("torch", "numpy", "fedrepro", "flwr", "ray", "pfl", "jax")


def versions() -> dict[str, str]:
    """Return the versions of Python and the installed ones of `PACKAGES`."""
    result = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            result[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return result


def hardware(device: str) -> dict[str, str | int | float]:
    """Return processor, cores, memory in GiB and, for cuda, the GPU."""
    import psutil

    result = {
        "processor": _processor(),
        "cores": psutil.cpu_count() or 1,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }
    return result | ({"gpu": torch.cuda.get_device_name()} if device == "cuda" else {})


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
