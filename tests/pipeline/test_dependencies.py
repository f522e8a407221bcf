"""What is installed is pinned twice: versions in pyproject.toml, and the hash of every file in
requirements.txt. No file of ours needs one that needs it, and no tests need other tests."""

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

from support.checkout import ROOT


def test_versions_and_hashes_are_of_the_same_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = set(project["tool"]["uv"]["constraint-dependencies"])
    lines = re.sub(
        r" *\\\n", "", (ROOT / "requirements.txt").read_text(encoding="utf-8")
    ).splitlines()
    hashed = {line.split()[0] for line in lines}
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}$", line) for line in lines)
    assert hashed == pinned, f"only in one of them: {', '.join(sorted(hashed ^ pinned))}"


def test_every_package_of_ours_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    ours = {f"src/{path.parent.name}" for path in (ROOT / "src").glob("*/__init__.py")}
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == ours


def test_no_circle_between_files():
    """Imports within functions and for types alone count too."""
    source = ROOT / "src"
    files = {_name(path.relative_to(source)): path for path in source.rglob("*.py")}
    needs = {name: _imported(path, files) - {name} for name, path in files.items()}
    assert needs["fedrepro.report.documents.build"] >= {
        "fedrepro.report.documents.html",
        "fedrepro.report.documents.content",
    }
    # raises CycleError, which names the circle
    order = list(TopologicalSorter(needs).static_order())
    assert order.index("fedrepro.report.documents.content") < order.index(
        "fedrepro.report.documents.html"
    )


# the package's rooms from the ground up: a room imports from the floors below its own
FLOORS = (
    {"core"},
    {"config"},
    {"data"},
    {"models"},
    {"algorithms", "runs"},
    {"training"},
    {"studies"},
    {"report"},
    {"experiments"},
    {"results"},
    {"simulation"},
    {"cli"},
)


def test_rooms_import_from_the_floors_below():
    source = ROOT / "src"
    files = {_name(path.relative_to(source)): path for path in source.rglob("*.py")}
    floors = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
    top = {
        path.stem
        for path in (source / "fedrepro").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert top - {"__init__"} == floors.keys()
    imports = [(name, other) for name, path in files.items() for other in _imported(path, files)]
    upward = [(name, other) for name, other in imports if not _is_below(other, name, floors)]
    assert len(imports) > 500 and upward == []


def _is_below(imported: str, importer: str, floors: dict[str, int]) -> bool:
    """Whether a module may import another: of its own room or of a lower floor; the package itself
    is the top."""
    room, other = (
        name.split(".")[1] if name.startswith("fedrepro.") else "" for name in (importer, imported)
    )
    return room in ("", other) or (other != "" and floors[other] < floors[room])


IMPORTS = """
import sys
import fedrepro.cli.main
assert "shtab" not in sys.modules  # before Ctrl-C is heeded
from fedrepro.report import artifacts, paper
for room in ("figures", "tables", "quantities"):
    for kind in paper.registry.names(f"report.{room}"):
        paper.registry.find(f"report.{room}", kind)
assert not {"torch", "matplotlib", "pandas", "seaborn"} & set(sys.modules)
from fedrepro import results
assert "torch" not in sys.modules
"""


def test_commands_and_planning_import_little():
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)


def test_what_tests_share_lies_in_support():
    """None imports another or conftest.py, nor does source text in one that a process of its own
    executes."""
    files = {
        _name(path.relative_to(top)): path
        for top in (ROOT / "tests", ROOT)
        for path in (ROOT / "tests").rglob("*.py")
    }
    tests = {
        name: path for name, path in files.items() if re.search(r"(^|\.)(test_\w+|conftest)$", name)
    }
    assert "support.federation" in _imported(tests["training.test_run"], files)
    assert {name: found for name, path in files.items() if (found := _imported(path, tests))} == {}
    written = re.compile(r"^ *(from|import) +(test_|conftest)", re.MULTILINE)
    assert [
        name for name, path in files.items() if written.search(path.read_text(encoding="utf-8"))
    ] == []


def _name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path, files: dict[str, Path]) -> set[str]:
    """The modules of ours that a file names; of `from package import name` the module of that name,
    else the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            below = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {whole if whole in files else node.module for whole in below.values()}
    return found & files.keys()
