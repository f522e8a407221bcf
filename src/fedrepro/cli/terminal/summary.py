"""The last words of a job that went well: what was made, what the verdicts are, which page to open."""

from collections.abc import Iterable
from pathlib import Path

from fedrepro.core.formatting import count, duration
from fedrepro.report.verdicts import summary

DOCUMENTS = ("index.html", "report.pdf")


def closing_message(outputs: Iterable[str], reports: Path, seconds: float) -> str:
    """`outputs`: of all jobs that were made; `reports`: the folder of the scale."""
    made = [Path(output) for output in outputs]
    runs = sum(path.name == "summary.json" for path in made)
    studies = sum(path.suffix == ".json" and path.parts[:2] == ("results", "runs") for path in made) - runs
    trained = [count(runs, "run") + " trained"] * (runs > 0) + [count(studies, "study", "studies") + " made"] * (studies > 0)
    lines = [f"Done in {duration(seconds)}: {', '.join(trained) or 'nothing had to be trained'}."]
    drawn: dict[Path, list[Path]] = {}
    for path in made:
        if path.parent.name in ("figures", "tables") and path.parents[2] == reports:
            drawn.setdefault(path.parents[1], []).append(path)
    for folder, files in drawn.items():
        whole = folder / "tables" / "verdicts.json" in files
        lines.append(f"{folder.name}: {_describe_verdicts(folder) if whole else ', '.join(map(str, sorted(files)))}")
    pages = [reports / name for name in DOCUMENTS if reports / name in made]
    archives = [f"Wrote {path}" for path in made if path.suffix == ".zip"]
    return "\n".join(lines + [f"Open {path}" for path in pages] + archives)


def _describe_verdicts(folder: Path) -> str:
    """How many of a paper's claims have which verdict."""
    found = summary.read_verdicts(folder)
    return f"{count(len(found), 'claim')}: {summary.summary(found)}" if found else "no claim is judged at this scale"
