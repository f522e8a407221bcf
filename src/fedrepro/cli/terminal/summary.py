"""The last words of a job that went well: what was made, what the verdicts are, which page to open."""

from collections.abc import Iterable
from pathlib import Path

from fedrepro.core.formatting import count, duration
from fedrepro.report.verdicts import summary

DOCUMENTS = ("index.html", "report.pdf")


def told(outputs: Iterable[str], reports: Path, stamps: Path, seconds: float) -> str:
    """`outputs`: of all jobs that were made; `reports`, `stamps`: the folders of the scale."""
    made = [Path(output) for output in outputs]
    runs = sum(path.name == "summary.json" for path in made)
    studies = sum(path.suffix == ".json" and path.parts[:2] == ("results", "runs") for path in made) - runs
    trained = [count(runs, "run") + " trained"] * (runs > 0) + [count(studies, "study", "studies") + " made"] * (studies > 0)
    stamped = [path for path in made if path.is_relative_to(stamps)]
    lines = [f"Done in {duration(seconds)}: {', '.join(trained) or 'nothing had to be trained'}."]
    for paper in dict.fromkeys(path.parent.name for path in stamped):
        keys = [path.name.rpartition("-")[0] for path in stamped if path.parent.name == paper]
        lines += [_single(reports / paper, key) for key in keys if key != "all"]
        if {"all", "verdicts"} & set(keys):
            lines.append(f"{paper}: {_judged(reports / paper)}")
    pages = [reports / name for name in DOCUMENTS if reports / name in made]
    archives = [f"Wrote {path}" for path in made if path.suffix == ".zip"]
    return "\n".join(lines + [f"Open {path}" for path in pages] + archives)


def _single(folder: Path, key: str) -> str:
    """Where an artifact lies."""
    found = sorted(path for path in folder.glob(f"*/{key}.*") if path.parent.name != "data")
    return f"{key}: {', '.join(map(str, found))}"


def _judged(folder: Path) -> str:
    """How many of a paper's claims have which verdict."""
    found = summary.read(folder)
    return f"{count(len(found), 'claim')}: {summary.summary(found)}" if found else "no claim is judged at this scale"
