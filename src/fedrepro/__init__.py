"""Reproduction of four federated-learning papers, from raw data to verdicts; `fedrepro.results` has what came out."""

import importlib
import os
import sys
from typing import Any

from fedrepro.core import moved

sys.meta_path.insert(0, moved.MovedModuleFinder())

# torch reads it as it is imported: on CUDA it would write a kernel of its own for batches of one image, for which it calls a C
# compiler that many a machine lacks
os.environ.setdefault("TORCH_DISABLE_NATIVE_JIT", "1")


def __getattr__(name: str) -> Any:
    """`__version__`, of the installed package, and `results` are there when they are asked for."""
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version("fedrepro")
        except metadata.PackageNotFoundError:  # its folder is on the path
            return "(not installed)"
    if name == "results":
        return importlib.import_module("fedrepro.results")
    raise AttributeError(f"module 'fedrepro' has no attribute '{name}'")
