"""What a result came from: a digest of the code that it executes, the commit, the machine."""

import ast
import functools
import io
import json
import logging
import os
import platform
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedrepro.core import files
from fedrepro.core.errors import UserError

log = logging.getLogger(__name__)
PACKAGE = Path(__file__).parents[1]
UNKNOWN = "unknown"
DIRTY = "-dirty"  # at the end of a commit's name: the code that ran is not the commit's
HASH = re.compile("[0-9a-f]{7,40}")
COMMIT = re.compile(f"{UNKNOWN}|{HASH.pattern}({DIRTY})?")
# set by hooks and `git rebase --exec`, they name the repository of whoever set them, not that of the package
REDIRECTING = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE", "GIT_SHALLOW_FILE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE"),
)
ENTRY_MODULE = "fedrepro.training.federation"  # everything that computes a number is reached from here or named in the config
# data count by their own checksum
NOT_NUMERIC_NAMES = ("config", "core.errors", "core.files", "core.moved", "core.provenance", "runs", "data.datasets")
NOT_NUMERIC = tuple(f"fedrepro.{name}" for name in NOT_NUMERIC_NAMES)
DATASETS = "fedrepro.data.datasets"
CPU_FIELDS = {"cpu family": "family", "model": "model", "stepping": "stepping"}  # of a processor, in /proc/cpuinfo


def clear_caches() -> None:
    """Look at files, git and machine anew."""
    for function in globals().values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def value_digest(value: Any, length: int = 10) -> str:
    """Short hash of plain values, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return files.sha256(text)[:length]


@functools.cache
def code_digest(modules: tuple[str, ...], entry: str = ENTRY_MODULE) -> str:
    """Hash of the code that a run which names these modules ("models.logistic") executes, or what starts from another `entry`;
    comments, docstrings and layout do not count."""
    return _digest_in(PACKAGE, (entry, *(f"fedrepro.{module}" for module in modules)))


@functools.cache
def partition_digest(name: str) -> str:
    """Hash of the code that draws a partition."""
    return _digest_in(PACKAGE, (f"fedrepro.data.partitions.{name}", "fedrepro.data.partitions"))


@functools.cache
def dataset_digest(name: str) -> str:
    """Hash of the code that reads a data set's files, or draws it."""
    entries = (f"{DATASETS}.{name}", f"{DATASETS}._prepared")
    aside = (*(other for other in NOT_NUMERIC if other != DATASETS), f"{DATASETS}._fetch")
    return _digest_in(PACKAGE, entries, aside, {DATASETS, f"{DATASETS}.base"})


def modules(config: Any) -> tuple[str, ...]:
    """The modules that a run's config names, below the package."""
    named = {
        "partition": "data.partitions",
        "model": "models",
        "algorithm": "algorithms",
    }  # tasks and schedules: one module each
    return tuple(f"{package}.{getattr(config, kind).name}" for kind, package in named.items())


@functools.cache
def committed_digest(commit: str, modules: tuple[str, ...], entry: str = ENTRY_MODULE) -> str | None:
    """`code_digest` of a commit's files; None where there is no such commit, or it lacks one of the modules."""
    if not HASH.fullmatch(commit):
        return None
    packed, _ = _git("archive", "--format=tar", "--end-of-options", commit, ".")
    if packed is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(folder, filter="data")
            return _digest_in(Path(folder), (entry, *(f"fedrepro.{module}" for module in modules)))
        except (FileNotFoundError, tarfile.ReadError):  # an archive is empty where git's attributes leave all files out
            return None


def _digest_in(
    package: Path, entries: tuple[str, ...], aside: tuple[str, ...] = NOT_NUMERIC, alone: Collection[str] = ()
) -> str:
    return value_digest(
        {module: normalised_ast(_file(module, package)) for module in imported_modules(entries, package, aside, alone)}
    )


def report_digest() -> str:
    """Hash of the files that make artifacts from results, comments included: unlike a training, a drawing costs seconds."""
    names = ("core/formatting", "core/metrics", "data/source_label", "results")
    names += ("runs/gather", "runs/integrity", "runs/kept", "runs/reasons")
    beside = (PACKAGE / f"{name}.py" for name in names)
    code = sorted([*PACKAGE.glob("report/**/*.py"), *beside])
    sources = [*code, *sorted(PACKAGE.glob("report/templates/*"))]
    return value_digest({path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in sources})


def heatmap_digest() -> str:
    """Hash of the code that draws a partition's heat map."""
    return value_digest(
        [normalised_ast(PACKAGE / "report" / "figures" / f"{name}.py") for name in ("_layout", "_partition_heatmap")]
    )


def imported_modules(entries: tuple[str, ...], package: Path, aside: tuple[str, ...], alone: Collection[str]) -> list[str]:
    """The package's modules that the entries import, directly or not, without what is left `aside` with all below it, and what
    is left out `alone`."""
    below = tuple(f"{name}." for name in aside)
    found, waiting = set(), list(entries)
    while waiting:
        module = waiting.pop()
        if module in found or module in alone or f"{module}.".startswith(below):
            continue
        found.add(module)
        waiting += _imports(_file(module, package), package)
    return sorted(found)


def _file(module: str, package: Path) -> Path:
    path = package.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _imports(path: Path, package: Path) -> list[str]:
    found = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fedrepro"):
            submodules = (f"{node.module}.{alias.name}" for alias in node.names)
            found += [node.module, *(name for name in submodules if _file(name, package).exists())]
    return [module for module in found if module != "fedrepro"]


@functools.cache
def normalised_ast(path: Path) -> str:
    """The source as every version of the interpreter sees it: parsed, without docstrings."""
    tree = _tree(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return json.dumps(_plain(tree), sort_keys=True)


def _plain(node: Any) -> Any:
    """A parsed piece as lists and text. What is empty is left out: later versions have more fields that may be, and some more
    empty texts in an f-string. So is what an error or the log says: no number follows from it."""
    if isinstance(node, list):
        return [_plain(part) for part in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Raise):
        return ["Raise", _plain(getattr(node.exc, "func", node.exc))]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func).startswith("log."):
        return ["Expr"]
    if isinstance(node, ast.JoinedStr):
        return ["JoinedStr", [_plain(part) for part in node.values if getattr(part, "value", None) != ""]]
    return [type(node).__name__, {name: _plain(value) for name, value in ast.iter_fields(node) if value not in (None, [])}]


def is_commit(name: Any) -> bool:
    """Whether a text names a commit as `commit` does. Any other may be an option of git's, or a path."""
    return isinstance(name, str) and COMMIT.fullmatch(name) is not None


@functools.cache
def current_commit(modules: tuple[str, ...] = ()) -> str:
    """The checkout's commit, "-dirty" where the code that a run with these modules executes is not the commit's; the variable
    FEDREPRO_COMMIT where there is no checkout. Raises UserError where that names no commit."""
    name = head_commit()[0]
    if name is None:
        name = os.environ.get("FEDREPRO_COMMIT") or UNKNOWN
        if not is_commit(name):
            raise UserError(f"FEDREPRO_COMMIT: {name!r} names no commit; set what `git rev-parse HEAD` prints")
        return name
    changes, _ = _git("status", "--porcelain", "--", ".")
    same = changes == b"" or committed_digest(name, modules) == code_digest(modules)
    return name if same else f"{name}{DIRTY}"


@functools.cache
def head_commit() -> tuple[str | None, str]:
    """The commit of the checkout that the package lies in, or None; then, where git cannot read a checkout that is there, its
    words, which are logged once."""
    if not any(os.path.exists(folder / ".git") for folder in PACKAGE.parents):
        return None, ""
    name, words = _git("rev-parse", "--verify", "--short=10", "HEAD")
    if name is None:
        log.warning("the commit that results come from is not recorded; git: %s", words)
        return None, words
    tracked, _ = _git("ls-files", "--", "__init__.py")  # a copy may lie in another's checkout
    return (name.decode().strip() if tracked else None), ""


@functools.cache
def commit_date(commit: str) -> str | None:
    """When a commit was made, in UTC, as 2026-11-22T17:22:40+00:00 (earlier runs tell the day alone); None where this checkout
    does not have it."""
    name = commit.removesuffix(DIRTY)
    if not HASH.fullmatch(name):
        return None
    # unlike `git show` and `git log`, this prints the same whatever the user's configuration says
    found, _ = _git("rev-list", "--max-count=1", "--timestamp", "--end-of-options", name, "--")
    return datetime.fromtimestamp(int(found.split()[0]), UTC).isoformat() if found else None


def _git(*words: str) -> tuple[bytes | None, str]:
    """Ask git in the package's folder, as `_run_command` does."""
    env = {name: value for name, value in os.environ.items() if name not in REDIRECTING}
    # `git status` would run the program that a configuration may name here
    return _run_command("git", "-C", str(PACKAGE), "-c", "core.fsmonitor=false", *words, env=env)


def _run_command(*command: str, env: dict[str, str] | None = None) -> tuple[bytes | None, str]:
    """What a command prints, or None and why it failed."""
    try:
        return subprocess.run(command, capture_output=True, check=True, timeout=60, env=env).stdout, ""
    except subprocess.CalledProcessError as error:
        return None, " ".join(error.stderr.decode(errors="replace").split())
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)


def environment(device: Any, modules: tuple[str, ...] = ()) -> dict[str, Any]:
    """The commit, versions and hardware that the numbers of a run with these modules may depend on in their last digits."""
    import torch

    name = current_commit(modules)
    return {
        "commit": name,
        "commit_date": commit_date(name),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "system": platform.system(),
        "device": device.type,
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
    }


def hardware(device: Any) -> str:
    """The name of the processor or of the GPU."""
    import torch

    if device.type == "cpu":
        return _processor()
    return torch.cuda.get_device_name(device) if torch.cuda.is_available() else "a GPU elsewhere"


@functools.cache
def _processor() -> str:
    """Its name and kind: those that round sums differently may share a name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        name, _ = _run_command("sysctl", "-n", "machdep.cpu.brand_string")  # macOS
        return (name or b"").decode().strip() or platform.processor() or UNKNOWN
    pairs = (line.partition(":") for line in reversed(lines))  # the first core's come last
    core = {key.strip(): value.strip() for key, _, value in pairs}
    if "model name" not in core:
        return platform.machine()
    kind = ", ".join(
        f"{name} {core[key]}" for key, name in CPU_FIELDS.items() if key in core
    )  # clouds give several kinds one name
    return f"{core['model name']} ({kind})" if kind else core["model name"]
