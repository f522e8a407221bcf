"""What is installed is pinned twice: versions in pyproject.toml, and the hash of every file in requirements.txt."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_versions_and_hashes_are_of_the_same_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = set(project["tool"]["uv"]["constraint-dependencies"])
    lines = re.sub(r" *\\\n", "", (ROOT / "requirements.txt").read_text(encoding="utf-8")).splitlines()
    hashed = {line.split()[0] for line in lines}
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}$", line) for line in lines)
    assert hashed == pinned, f"only in one of them: {', '.join(sorted(hashed ^ pinned))}"


def test_every_package_of_ours_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    ours = {f"src/{path.parent.name}" for path in (ROOT / "src").glob("*/__init__.py")}
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == ours
