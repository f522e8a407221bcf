"""Reproduction of four federated-learning papers, from raw data to verdicts; `fedrepro.results`
returns the results, `fedrepro.simulate` trains a federation of your own, and `fedrepro.load_run`
loads a finished run."""

import importlib
import os
from typing import Any

# torch reads this on import: otherwise it compiles its own CUDA kernel for batches of one image,
# with a C compiler that many machines lack
os.environ.setdefault("TORCH_DISABLE_NATIVE_JIT", "1")
# cuBLAS reads this at the first product in a process, also one of the user's
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def __getattr__(name: str) -> Any:
    """Return `__version__` of the installed package, the module `results`, or a function of
    `simulation`.

    Modules are imported on first use."""
    if name == "__version__":
        return importlib.import_module("fedrepro.core.version").package_version()
    if name == "results":
        return importlib.import_module("fedrepro.results")
    if name in ("simulate", "load_run"):
        return getattr(importlib.import_module("fedrepro.simulation"), name)
    raise AttributeError(f"module 'fedrepro' has no attribute '{name}'")
