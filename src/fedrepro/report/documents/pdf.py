"""Typesetting of report.tex as report.pdf, if LaTeX is installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from fedrepro.core.errors import UserError

PROGRAM = "pdflatex"
RARE = "siunitx.sty"  # small installations lack it, and those from before May 2021 have version 2
HELP = (
    "Install texlive-latex-base, texlive-latex-recommended and texlive-science, or similar "
    "packages."
)


def is_available() -> bool:
    """Return whether LaTeX is installed, with the packages that the report needs."""
    if shutil.which(PROGRAM) is None:
        return False
    finder = shutil.which("kpsewhich")  # MiKTeX may lack it, and installs missing packages itself
    if finder is None:
        return True
    search = subprocess.run([finder, RARE], capture_output=True, timeout=60)
    if search.returncode:
        return False
    text = Path(os.fsdecode(search.stdout).strip()).read_text(encoding="utf-8", errors="replace")
    version = re.search(r"\\ProvidesExplPackage\s*\{siunitx\}\s*\{[^}]*\}\s*\{(\d+)", text)
    return version is not None and int(version[1]) >= 3


def typeset(source: Path) -> None:
    """Write the PDF next to `source`. Raise UserError if LaTeX fails; its log is kept then."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise UserError(f"{source}: {PROGRAM} is not installed. {HELP}")
    if not is_available():
        raise UserError(f"{source}: {PROGRAM} lacks {RARE}, version 3. {HELP}")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", source.name]
    settings = os.environ | {"SOURCE_DATE_EPOCH": "0"}  # else the bytes depend on the date
    for _ in range(2):  # the second pass resolves the references
        run = subprocess.run(
            command, cwd=source.parent, capture_output=True, timeout=300, env=settings
        )
        if run.returncode:
            errors = [
                line
                for line in run.stdout.decode(errors="replace").splitlines()
                if line.startswith("!")
            ]
            raise UserError(
                f"{source}: {PROGRAM} failed: {' '.join(errors)}; see {source.with_suffix('.log')}"
            )
    for suffix in (".aux", ".log", ".out"):
        source.with_suffix(suffix).unlink(missing_ok=True)
