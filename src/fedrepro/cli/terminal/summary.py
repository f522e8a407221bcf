"""Messages on results: the closing one after Snakemake has finished, and the verdicts on a paper's
claims."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from fedrepro.cli.terminal import painted
from fedrepro.core.formatting import count, duration
from fedrepro.report.numbers import with_minus_signs
from fedrepro.report.statistics import grouped
from fedrepro.report.verdicts import summary
from fedrepro.report.verdicts.rules import Status
from fedrepro.runs.records import RECORD

# what is open or not tested is plain
STYLES: dict[str, str] = {Status.SUPPORTED: "green", Status.CONTRADICTED: "red"}
DOCUMENTS = ("index.html", "report.pdf")


def closing_message(outputs: Iterable[str], reports: Path, seconds: float) -> str:
    """Return the message for the `outputs` of all finished jobs; `reports` is the folder of the
    scale's reports."""
    made = [Path(output) for output in outputs]
    runs = sum(path.name == RECORD for path in made)
    studies = (
        sum(path.suffix == ".json" and path.parts[:2] == ("results", "runs") for path in made)
        - runs
    )
    trained = [count(runs, "run") + " trained"] * (runs > 0) + [
        count(studies, "study", "studies") + " made"
    ] * (studies > 0)
    lines = [f"Done in {duration(seconds)}: {', '.join(trained) or 'nothing had to be trained'}."]
    drawn: dict[Path, list[Path]] = {}
    for path in made:
        if path.parent.name in ("figures", "tables") and path.parents[2] == reports:
            drawn.setdefault(path.parents[1], []).append(path)
    for folder, files in drawn.items():
        complete = folder / "tables" / "verdicts.json" in files
        lines.append(
            f"{folder}: {_describe_verdicts(folder)}"
            if complete
            else f"{folder.name}: {', '.join(map(str, sorted(files)))}"
        )
    pages = [reports / name for name in DOCUMENTS if reports / name in made]
    lines += [f"Open {path}" for path in pages]
    if pages and (first := reports.parent / "index.html").exists():
        lines.append(f"Open {first}, the committed results: {_describe_committed(reports.parent)}")
    return "\n".join(lines)


def _describe_committed(reports: Path) -> str:
    """Return how many claims of the papers are decided at each scale that compares with them."""
    records = (
        one
        for path in sorted(reports.glob("*/*/tables/verdicts.json"))
        for one in summary.read_verdicts(path.parents[1])
    )
    decided = grouped((one.scale, one.decided) for one in records if one.by == summary.PAPER)
    counts = [f"{sum(found)} of {len(found)} at scale {scale}" for scale, found in decided.items()]
    return f"of the papers' claims, {' and '.join(counts)} are decided"


def _describe_verdicts(folder: Path) -> str:
    """Return the number of a paper's claims by verdict."""
    verdicts = summary.read_verdicts(folder)
    return (
        f"{count(len(verdicts), 'claim')}: {summary.summary(verdicts)}"
        if verdicts
        else "no claim is judged at this scale"
    )


def describe_claims(
    title: str, folder: Path, main: bool, earlier: Mapping[str, str], stream: TextIO
) -> str:
    """Return the verdicts in a paper's `folder` (reports/<scale>/<paper>): their number and, by
    line, main and tested claims.

    Verdicts are coloured if the stream is a terminal.

    Args:
        main: only the main claims.
        earlier: key of a main claim -> what earlier runs at this scale say of it, shown while it is
            not tested itself.
    """
    records = summary.read_verdicts(folder)
    lines = [painted(title, "bold", stream), f"  {_describe_verdicts(folder)}"]
    shown = [record for record in records if record.headline or (record.tested and not main)]
    for one in sorted(shown, key=lambda record: not record.headline):
        before = earlier.get(one.key)
        ours = f", ours {one.ours}" if one.tested else f"; earlier runs: {before}" if before else ""
        numbers = with_minus_signs(f"reported {one.reported}{ours}")
        lines.append(
            f"  {painted(f'{one.words:<19}', STYLES.get(one.verdict, 'none'), stream)} "
            f"{one.claim}: {numbers}"
        )
    return "\n".join(lines)
