"""The provenance of a result: digests of the code that computes it, the git commit, versions and
hardware."""

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
DIRTY = "-dirty"  # suffix of a commit's name: the code that ran differs from the commit's
HASH = re.compile("[0-9a-f]{7,40}")
COMMIT = re.compile(f"{UNKNOWN}|{HASH.pattern}({DIRTY})?")
# variables that hooks and `git rebase --exec` set: they would redirect git to a repository other
# than the package's
REDIRECTING = (
    *(
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_COMMON_DIR",
        "GIT_PREFIX",
        "GIT_NAMESPACE",
        "GIT_SHALLOW_FILE",
    ),
    *(
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_GRAFT_FILE",
        "GIT_REPLACE_REF_BASE",
    ),
)
# everything that computes a number is reached from here or named in the config
ENTRY_MODULE = "fedrepro.training.round"
# modules that no number depends on; data sets count by their own checksum
NOT_NUMERIC_NAMES = (
    "config",
    "core.errors",
    "core.files",
    "core.provenance",
    "runs",
    "data.datasets",
)
NOT_NUMERIC = tuple(f"fedrepro.{name}" for name in NOT_NUMERIC_NAMES)
DATASETS = "fedrepro.data.datasets"
# of a processor, in /proc/cpuinfo
CPU_FIELDS = {"cpu family": "family", "model": "model", "stepping": "stepping"}


def clear_caches() -> None:
    """Forget all cached digests, commits and hardware names."""
    for function in globals().values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def value_digest(value: Any, length: int = 10) -> str:
    """Return a short hash of JSON values, independent of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return files.sha256(text)[:length]


@functools.cache
def code_digest(modules: tuple[str, ...], entry: str = ENTRY_MODULE) -> str:
    """Return the hash of the code that a run with these modules ("models.logistic") executes,
    starting at the module `entry`.

    Comments, docstrings and layout do not count.
    """
    return _digest_in(PACKAGE, (entry, *(f"fedrepro.{module}" for module in modules)))


@functools.cache
def partition_digest(name: str) -> str:
    """Return the hash of the code that draws a partition."""
    return _digest_in(PACKAGE, (f"fedrepro.data.partitions.{name}", "fedrepro.data.partitions"))


@functools.cache
def dataset_digest(module: str) -> str:
    """Return the hash of the code that reads or draws the data sets of a module."""
    entries = (module, f"{DATASETS}._prepared")
    excluded = (*(other for other in NOT_NUMERIC if other != DATASETS), f"{DATASETS}._fetch")
    return _digest_in(PACKAGE, entries, excluded, {DATASETS, f"{DATASETS}.base"})


def modules(config: Any) -> tuple[str, ...]:
    """Return the modules, below the package, that a run's config selects; all tasks are in one
    module, as are schedules."""
    packages = {"partition": "data.partitions", "model": "models", "algorithm": "algorithms"}
    return tuple(f"{package}.{getattr(config, kind).name}" for kind, package in packages.items())


@functools.cache
def committed_digest(
    commit: str, modules: tuple[str, ...], entry: str = ENTRY_MODULE
) -> str | None:
    """Return the `code_digest` of a commit's files; None if the commit is unknown or lacks one of
    the modules."""
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
        # git's attributes may exclude all files: the archive is then empty
        except (FileNotFoundError, tarfile.ReadError):
            return None


def _digest_in(
    package: Path,
    entries: tuple[str, ...],
    excluded: tuple[str, ...] = NOT_NUMERIC,
    excluded_alone: Collection[str] = (),
) -> str:
    modules = imported_modules(entries, package, excluded, excluded_alone)
    parts = (f"{json.dumps(module)}:{_encoded_ast(_file(module, package))}" for module in modules)
    # the `value_digest` of module -> source, each encoded once
    return files.sha256("{", ",".join(parts), "}")[:10]


def report_digest() -> str:
    """Return the hash of the files that make artifacts from results, with comments, since drawing
    again costs seconds."""
    names = ("core/formatting", "core/metrics", "data/source_label", "results")
    names += ("runs/gather", "runs/reasons", "runs/records")
    code = sorted([*PACKAGE.glob("report/**/*.py"), *(PACKAGE / f"{name}.py" for name in names)])
    sources = [*code, *sorted(PACKAGE.glob("report/templates/*"))]
    return value_digest(
        {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in sources}
    )


def heatmap_digest() -> str:
    """Return the hash of the code that draws a partition's heat map."""
    return value_digest(
        [
            normalised_ast(PACKAGE / "report" / "figures" / f"{name}.py")
            for name in ("_layout", "_partition_heatmap")
        ]
    )


def imported_modules(
    entries: tuple[str, ...],
    package: Path,
    excluded: tuple[str, ...],
    excluded_alone: Collection[str],
) -> list[str]:
    """Return the package's modules that the entries import directly or indirectly, and the entries.

    Modules in `excluded` are left out with all submodules, those in `excluded_alone` without their
    submodules.
    """
    prefixes = tuple(f"{name}." for name in excluded)
    imported, waiting = set(), list(entries)
    while waiting:
        module = waiting.pop()
        if module in imported or module in excluded_alone or f"{module}.".startswith(prefixes):
            continue
        imported.add(module)
        waiting += _imports(_file(module, package), package)
    return sorted(imported)


def _file(module: str, package: Path) -> Path:
    path = package.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _imports(path: Path, package: Path) -> list[str]:
    modules = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fedrepro"):
            submodules = (f"{node.module}.{alias.name}" for alias in node.names)
            modules += [
                node.module,
                *(name for name in submodules if _file(name, package).exists()),
            ]
    return [module for module in modules if module != "fedrepro"]


@functools.cache
def normalised_ast(path: Path) -> str:
    """Return the parsed source of a file as JSON, without docstrings and equal for all supported
    versions of Python."""
    tree = _tree(path)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return json.dumps(_plain(tree), sort_keys=True)


@functools.cache
def _encoded_ast(path: Path) -> str:
    return json.dumps(normalised_ast(path))


def _plain(node: Any) -> Any:
    """Return a syntax tree as lists and texts.

    Empty fields and empty texts in f-strings are left out, since later versions of Python have more
    of them; so are messages of errors and of the log, which no number depends on.
    """
    if isinstance(node, list):
        return [_plain(part) for part in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Raise):
        return ["Raise", _plain(getattr(node.exc, "func", node.exc))]
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).startswith("log.")
    ):
        return ["Expr"]
    if isinstance(node, ast.JoinedStr):
        return [
            "JoinedStr",
            [_plain(part) for part in node.values if getattr(part, "value", None) != ""],
        ]
    return [
        type(node).__name__,
        {name: _plain(value) for name, value in ast.iter_fields(node) if value not in (None, [])},
    ]


def is_commit(name: Any) -> bool:
    """Return whether a text has the form of `current_commit`. Any other text may be an option of
    git, or a path."""
    return isinstance(name, str) and COMMIT.fullmatch(name) is not None


@functools.cache
def current_commit(modules: tuple[str, ...] = ()) -> str:
    """Return the checkout's commit, with "-dirty" if the code that a run with these modules
    executes differs from it.

    Outside a checkout return the variable FEDREPRO_COMMIT. Raises UserError if that names no
    commit.
    """
    name = head_commit()[0]
    if name is None:
        name = os.environ.get("FEDREPRO_COMMIT") or UNKNOWN
        if not is_commit(name):
            raise UserError(
                f"FEDREPRO_COMMIT: {name!r} names no commit; set what `git rev-parse HEAD` prints"
            )
        return name
    changes, _ = _git("status", "--porcelain", "--", ".")
    same = changes == b"" or committed_digest(name, modules) == code_digest(modules)
    return name if same else f"{name}{DIRTY}"


def check_commit_variable() -> None:
    """Raise UserError if runs would record FEDREPRO_COMMIT, and it names no commit; call it before
    the first of them."""
    if head_commit()[0] is None:
        current_commit()


@functools.cache
def head_commit() -> tuple[str | None, str]:
    """Return the commit of the package's checkout, or None, and git's error if it cannot read the
    checkout (logged once)."""
    if not any(os.path.exists(folder / ".git") for folder in PACKAGE.parents):
        return None, ""
    name, git_error = _git("rev-parse", "--verify", "--short=10", "HEAD")
    if name is None:
        log.warning("the commit that results come from is not recorded; git: %s", git_error)
        return None, git_error
    # the package may be an untracked copy in another repository
    tracked, _ = _git("ls-files", "--", "__init__.py")
    return (name.decode().strip() if tracked else None), ""


@functools.cache
def commit_date(commit: str) -> str | None:
    """Return the time of a commit in UTC, as 2026-11-22T17:22:40+00:00.

    None if this checkout does not have the commit.
    """
    name = commit.removesuffix(DIRTY)
    if not HASH.fullmatch(name):
        return None
    # unlike that of `git show` and `git log`, this output does not depend on the user's
    # configuration
    output, _ = _git("rev-list", "--max-count=1", "--timestamp", "--end-of-options", name, "--")
    return datetime.fromtimestamp(int(output.split()[0]), UTC).isoformat() if output else None


def file_at(commit: str, path: str) -> str | None:
    """Return the text of a file in a commit, or None. `path` is from the top of the repository."""
    if not HASH.fullmatch(commit.removesuffix(DIRTY)):
        return None
    content, _ = _git("cat-file", "blob", f"{commit.removesuffix(DIRTY)}:{path}")
    return None if content is None else content.decode(errors="replace")


@functools.cache
def file_history(path: str) -> tuple[str, ...]:
    """Return the commits of HEAD's history that changed a file, the oldest first. `path` is from
    the top of the repository."""
    output, _ = _git("log", "--reverse", "--format=%h", "--abbrev=10", "HEAD", "--", f":/{path}")
    return tuple((output or b"").decode().split())


def _git(*arguments: str) -> tuple[bytes | None, str]:
    """Run git in the package's folder; return as `_run_command` does."""
    env = {name: value for name, value in os.environ.items() if name not in REDIRECTING}
    # without this option `git status` would run a program that the configuration may name
    return _run_command(
        "git", "-C", str(PACKAGE), "-c", "core.fsmonitor=false", *arguments, env=env
    )


def _run_command(*command: str, env: dict[str, str] | None = None) -> tuple[bytes | None, str]:
    """Return the output of a command, or None and the error."""
    try:
        return subprocess.run(
            command, capture_output=True, check=True, timeout=60, env=env
        ).stdout, ""
    except subprocess.CalledProcessError as error:
        return None, " ".join(error.stderr.decode(errors="replace").split())
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)


def environment(device: Any, modules: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return commit, versions and hardware, on which the last digits of a run's numbers may depend.

    Args:
        device: the torch device that trains the run.
        modules: of the run, as `modules` returns them.
    """
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
    """Return the name of the processor or of the GPU."""
    import torch

    if device.type == "cpu":
        return _processor()
    return torch.cuda.get_device_name(device) if torch.cuda.is_available() else "a GPU elsewhere"


@functools.cache
def _processor() -> str:
    """Return the processor's name, family and model: processors that round sums differently may
    share a name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        name, _ = _run_command("sysctl", "-n", "machdep.cpu.brand_string")  # macOS
        return (name or b"").decode().strip() or platform.processor() or UNKNOWN
    # so that the first core's values overwrite the others
    pairs = (line.partition(":") for line in reversed(lines))
    core = {key.strip(): value.strip() for key, _, value in pairs}
    if "model name" not in core:
        return platform.machine()
    # clouds give several kinds of processors one model name
    details = ", ".join(f"{name} {core[key]}" for key, name in CPU_FIELDS.items() if key in core)
    return f"{core['model name']} ({details})" if details else core["model name"]
