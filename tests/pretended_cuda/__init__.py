"""A GPU that is only pretended, so that what torch does on the host for CUDA can be tested where
there is none.

The package index has torch's CUDA build, whose host code runs anywhere once something answers in
the place of CUDA's runtime. `runtime.h` does, with the files that include it: what lies on the
device lies in host memory, copies are made, kernels have names and do nothing, captures follow
CUDA's main rules. torch's own allocator, streams, graphs, and its checks for synchronisation and
for repeatable operations are the real ones.

So this shows where tensors lie, who waits for the device, what a capture forbids, how many things
the host starts, how much memory is asked for. It shows nothing of results (numbers on the device
are whatever lay in the memory), of cuDNN, or of times.

    python -m pretended_cuda.rounds        # in tests/, within `environment`: every case with what
    it did, as JSON
"""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
# a symbol of CUDA's that a library takes from elsewhere
ASKED = re.compile(r" U (_*(?:cuda|cublas|cudnn|cu[A-Z])\w*)")
STUB = ("int %s(void) { pretended_unanswered(__func__); return 0; }", "int %s(void) { return 0; }")
QUIET = re.compile("Set|Destroy")  # what has nothing to answer


def missing() -> str | None:
    """What keeps it from being built here."""
    import torch

    if torch.version.cuda is None:
        return "torch is a build without CUDA"
    if missed := [tool for tool in ("g++", "gcc", "nm") if not shutil.which(tool)]:
        return f"there is no {', '.join(missed)}"
    return None if _headers() else "there are no headers of CUDA (Triton brings them)"


def build(folder: Path) -> Path:
    """The library, in an empty folder. It is called as the driver is and takes the runtime's place
    too."""
    torch = Path(importlib.util.find_spec("torch").origin).parent / "lib"
    needed = _symbols(ASKED, *torch.glob("*.so"))
    parts = [folder / f"{path.stem}.o" for path in sorted(HERE.glob("*.cpp"))]
    library, rest = folder / "libcuda.so.1", folder / "rest.c"
    flags = ["-O1", "-fPIC", "-w", f"-I{_headers()}"]
    for part in parts:
        _call("g++", *flags, "-std=c++17", "-c", str(HERE / f"{part.stem}.cpp"), "-o", str(part))
    stubs = sorted(needed - _symbols(re.compile(r" T (\w+)"), *parts, dynamic=False))
    functions = [STUB[bool(QUIET.search(name))] % name for name in stubs]
    rest.write_text("\n".join(["void pretended_unanswered(const char*);", *functions]))
    # found first and no library, so that a real one is not asked
    (folder / "libnvidia-ml.so.1").touch()
    _call(
        "gcc",
        *flags,
        "-shared",
        str(rest),
        *map(str, parts),
        "-Wl,-soname,libcuda.so.1",
        "-lstdc++",
        "-o",
        str(library),
    )
    return library


def environment(library: Path, **more: str) -> dict[str, str]:
    """Of a process to which the device is there. PRETENDED_DEVICES: how many (1)."""
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {
        "LD_PRELOAD": str(library),
        "LD_LIBRARY_PATH": str(library.parent),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    hidden = ("CUDA_VISIBLE_DEVICES", "TORCH_DISABLE_NATIVE_JIT")
    return {key: value for key, value in os.environ.items() if key not in hidden} | own | more


def _headers() -> Path | None:
    found = importlib.util.find_spec("triton")
    folder = Path(found.origin).parent / "backends/nvidia/include" if found else None
    return folder if folder and (folder / "cuda_runtime_api.h").exists() else None


def _symbols(pattern: re.Pattern, *libraries: Path, dynamic: bool = True) -> set[str]:
    return set(pattern.findall(_call("nm", *["-D"] * dynamic, *map(str, libraries))))


def _call(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
