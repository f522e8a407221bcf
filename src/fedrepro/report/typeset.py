"""report.tex to report.pdf, where a LaTeX is installed."""

import shutil
import subprocess
from pathlib import Path

from fedrepro.errors import UserError

PROGRAM = "pdflatex"


def available() -> bool:
    return shutil.which(PROGRAM) is not None


def typeset(source: Path) -> None:
    """The PDF beside `source`. Raises UserError when LaTeX fails; its log then lies there too."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise UserError(f"{source}: no {PROGRAM} here; install texlive-latex-base and texlive-latex-recommended or the like")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", source.name]
    settings = {"PATH": str(Path(program).parent), "SOURCE_DATE_EPOCH": "0"}  # without it the date changes the bytes
    for _ in range(2):  # the second pass knows the references
        done = subprocess.run(command, cwd=source.parent, capture_output=True, timeout=300, env=settings)
        if done.returncode:
            complaint = [line for line in done.stdout.decode(errors="replace").splitlines() if line.startswith("!")]
            raise UserError(f"{source}: {PROGRAM} failed: {' '.join(complaint)}; see {source.with_suffix('.log')}")
    for suffix in (".aux", ".log", ".out"):
        source.with_suffix(suffix).unlink(missing_ok=True)
