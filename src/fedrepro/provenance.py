"""What a result came from: a digest of the code that it executes, the commit, the machine."""

import ast
import functools
import hashlib
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent
ENTRY = "fedrepro.engine.federation"  # everything that computes a number is reached from here or named in the config
# data count by their own checksum
NOT_NUMERIC = tuple(f"fedrepro.{name}" for name in ("config", "errors", "registry", "files", "datasets"))


def digest(value: Any, length: int = 10) -> str:
    """Short hash of plain values, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@functools.cache
def code_digest(modules: tuple[str, ...], entry: str = ENTRY) -> str:
    """Hash of the code that a run which names these modules ("models.logistic") executes, or what starts from another `entry`;
    comments, docstrings and layout do not count."""
    closure = _closure((entry, *(f"fedrepro.{module}" for module in modules)))
    return digest({module: _essence(_file(module)) for module in closure})


@functools.cache
def partition_digest(name: str) -> str:
    """Hash of the code that draws a partition."""
    return digest(
        {module: _essence(_file(module)) for module in _closure((f"fedrepro.partitions.{name}", "fedrepro.partitions"))}
    )


def report_digest() -> str:
    """Hash of the code that makes artifacts from results."""
    sources = sorted([*PACKAGE.glob("report/**/*.py"), PACKAGE / "measures.py", PACKAGE / "metrics.py", PACKAGE / "results.py"])
    templates = {path.name: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.glob("report/templates/*"))}
    return digest({str(path.relative_to(PACKAGE)): _essence(path) for path in sources} | templates)


def _closure(entries: tuple[str, ...]) -> list[str]:
    """The package's modules that the entries import, directly or not."""
    found, waiting = set(), list(entries)
    while waiting:
        module = waiting.pop()
        if module in found or module.startswith(NOT_NUMERIC):
            continue
        found.add(module)
        waiting += _imports(_file(module))
    return sorted(found)


def _file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def _imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fedrepro"):
            submodules = (f"{node.module}.{alias.name}" for alias in node.names)
            found += [node.module, *(name for name in submodules if _file(name).exists())]
    return [module for module in found if module != "fedrepro"]


@functools.cache
def _essence(path: Path) -> str:
    """The source as the interpreter sees it: parsed and written out again without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


@functools.cache
def commit() -> str:
    """The checkout's commit, "-dirty" where tracked files differ; the variable FEDREPRO_COMMIT where there is no checkout."""
    command = ["git", "-C", str(PACKAGE), "describe", "--always", "--abbrev=10", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("FEDREPRO_COMMIT", "unknown")


def environment(device: Any) -> dict[str, Any]:
    """Versions and hardware that a run's numbers may depend on in their last digits."""
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return {
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "system": platform.system(),
        "device": device.type,
        "hardware": name,
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
