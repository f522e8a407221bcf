"""What the numbers were measured on: hardware and versions."""

import importlib.metadata
import platform
from pathlib import Path

import torch

PACKAGES = ("torch", "numpy", "fedrepro", "flwr", "ray", "pfl", "jax")


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
