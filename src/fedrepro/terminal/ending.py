"""The last words of a job that went well: what was made, what the verdicts are, which page to open."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from fedrepro.words import count, duration

DOCUMENTS = ("index.html", "report.pdf")
ORDER = ("reproduced", "partly", "direction agrees")  # the rest in the order in which they come


def told(outputs: Iterable[str], reports: Path, seconds: float) -> str:
    """`outputs`: of all jobs that were made; `reports`: the folder of the scale."""
    made = [Path(output) for output in outputs]
    runs = sum(path.name == "summary.json" for path in made)
    studies = sum(path.suffix == ".json" and path.parts[:2] == ("results", "runs") for path in made) - runs
    trained = [count(runs, "run") + " trained"] * (runs > 0) + [count(studies, "study", "studies") + " made"] * (studies > 0)
    stamps = [path for path in made if any(part.startswith("made-") for part in path.parts)]
    lines = [f"Done in {duration(seconds)}: {', '.join(trained) or 'nothing had to be trained'}."]
    for paper in dict.fromkeys(path.parent.name for path in stamps):
        keys = [path.name.rpartition("-")[0] for path in stamps if path.parent.name == paper]
        lines += [_single(reports / paper, key) for key in keys if key != "all"]
        if {"all", "verdicts"} & set(keys):
            lines.append(f"{paper}: {tally(reports / paper / 'tables/verdicts.json')}")
    pages = [reports / name for name in DOCUMENTS if reports / name in made]
    return "\n".join(lines + [f"Open {path}" for path in pages])


def _single(folder: Path, key: str) -> str:
    """Where an artifact lies."""
    found = sorted(path for path in folder.glob(f"*/{key}.*") if path.parent.name != "data")
    return f"{key}: {', '.join(map(str, found))}"


def tally(path: Path) -> str:
    """How many claims have which verdict."""
    statuses = Counter(record["verdict"] for record in json.loads(path.read_text(encoding="utf-8")))
    names = [name for name in ORDER if name in statuses] + [name for name in statuses if name not in ORDER]
    parts = ", ".join(f"{statuses[name]} {name}" for name in names)
    return f"{count(statuses.total(), 'claim')}: {parts}" if parts else "no claim is judged at this scale"
