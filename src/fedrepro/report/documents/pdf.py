"""report.tex to report.pdf, where a LaTeX is installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from fedrepro.core.errors import UserError

PROGRAM = "pdflatex"
RARE = "siunitx.sty"  # what its smallest installation lacks, and old ones have as version 2: the third came in May 2021
HELP = "install texlive-latex-base, texlive-latex-recommended and texlive-science or the like"


def is_available() -> bool:
    """Whether LaTeX is here, with all that the report needs."""
    if shutil.which(PROGRAM) is None:
        return False
    finder = shutil.which("kpsewhich")  # MiKTeX and others may have none, and then fetch what is missing
    if finder is None:
        return True
    found = subprocess.run([finder, RARE], capture_output=True, timeout=60)
    if found.returncode:
        return False
    text = Path(os.fsdecode(found.stdout).strip()).read_text(encoding="utf-8", errors="replace")
    version = re.search(r"\\ProvidesExplPackage\s*\{siunitx\}\s*\{[^}]*\}\s*\{(\d+)", text)
    return version is not None and int(version[1]) >= 3


def typeset(source: Path) -> None:
    """The PDF beside `source`. Raises UserError when LaTeX fails; its log then lies there too."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise UserError(f"{source}: no {PROGRAM} here; {HELP}")
    if not is_available():
        raise UserError(f"{source}: {PROGRAM} lacks {RARE}, version 3; {HELP}")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", source.name]
    settings = os.environ | {"SOURCE_DATE_EPOCH": "0"}  # without it the date changes the bytes
    for _ in range(2):  # the second pass knows the references
        done = subprocess.run(command, cwd=source.parent, capture_output=True, timeout=300, env=settings)
        if done.returncode:
            complaint = [line for line in done.stdout.decode(errors="replace").splitlines() if line.startswith("!")]
            raise UserError(f"{source}: {PROGRAM} failed: {' '.join(complaint)}; see {source.with_suffix('.log')}")
    for suffix in (".aux", ".log", ".out"):
        source.with_suffix(suffix).unlink(missing_ok=True)
