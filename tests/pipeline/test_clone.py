"""A clean clone without data and mirror: what is kept is drawn, which changes nothing that is
committed."""

import os
import subprocess
import sys
from pathlib import Path

from support import checkout, committed

WHO = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
ANEW = "make the reports anew: uv run dvc repro reports/dvc.yaml"


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *words], check=True, capture_output=True, text=True
    ).stdout


def cloned(folder: Path) -> Path:
    """All that git has or would take of the working tree, committed in a clone of the
    repository."""
    subprocess.run(["git", "clone", "-q", "--shared", str(checkout.HERE), str(folder)], check=True)
    checkout.copy(folder)
    git(folder, "add", "-A")
    git(folder, *WHO, "commit", "-q", "--allow-empty", "-m", "one")
    return folder


@committed.needs_history
def test_drawing_what_is_kept_leaves_git_status_clean(tmp_path):
    """It shows runs of a data set that one mirror has. Nothing is trained or downloaded."""
    clone = cloned(tmp_path / "clone")
    environment = {key: value for key, value in os.environ.items() if key != "FEDREPRO_DATA_MIRROR"}
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--cores",
        "1",
        "fig5d_clients_distance",
        "--config",
        "scale=paper",
    ]
    done = subprocess.run(
        command,
        cwd=clone,
        env=environment | {"PYTHONPATH": str(clone / "src")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(clone, "status", "--porcelain") == "", ANEW
    files = {
        str(path.relative_to(clone / "data"))
        for path in (clone / "data").rglob("*")
        if path.is_file()
    }
    assert files == {"README.md", "prepared/.gitignore"}
    assert not (clone / "results" / "runs").exists()
