"""What the pages show of a paper: every figure and table with its state, claims, files, and the command that remakes it."""

import re
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedrepro.report import artifacts
from fedrepro.report.documents.content import PaperContent
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts.rules import RULES, Status
from fedrepro.report.verdicts.summary import PAPER, US, claimed_by, tally
from fedrepro.runs.reasons import MissingKind, MissingReason

UNJUDGED = (Status.NOT_COMPARED, Status.NOT_RUN)
BROAD = 1000  # pixels of a picture over both columns of a page, which has 1400; over one it has 660
TITLES = {".png": "PNG", ".csv": "CSV"}  # files that are committed


@dataclass(frozen=True)
class ArtifactView:
    """One figure or table. `skipped` says why there is nothing to see and `cost` what it takes, `partial` that some of it was
    not run."""

    key: str
    label: str
    title: str
    experiments: list[str]
    claims: list[dict[str, str]]
    command: str | None
    text: str = ""
    skipped: str | None = None
    cost: str = ""
    partial: bool = False
    files: list[tuple[str, str]] = field(default_factory=list)
    picture: dict[str, Any] | None = None
    rows: list[list[str]] = field(default_factory=list)
    panels: dict[str, str] = field(default_factory=dict)
    numeric: list[bool] = field(default_factory=list)
    best: list[tuple[int, int]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return "figure" if self.picture else "table"

    @property
    def state(self) -> str:
        return "not run" if self.skipped else "partly run" if self.partial else "made"


@dataclass(frozen=True)
class PaperView:
    """A paper as its page shows it."""

    key: str
    spec: Paper
    results: dict[str, Results]
    figures: list[ArtifactView]
    tables: list[ArtifactView]
    absent: list[ArtifactView]
    scale: str

    @property
    def entries(self) -> list[ArtifactView]:
        return [*self.figures, *self.tables, *self.absent]

    @property
    def claims(self) -> list[dict[str, str]]:
        """All, in the order of the figures and tables; those that are judged before those that are not."""
        found = [claim for entry in self.entries for claim in entry.claims]
        return [*judged_claims(found), *unjudged_claims(found)]

    @property
    def tallies(self) -> list[tuple[str, str, dict[str, int]]]:
        """Name, address on the page and verdicts of all that has claims of the paper; where some are judged, first. Our own
        questions are the last row."""
        published = {entry.key: claimed_by(entry.claims, PAPER) for entry in self.entries}
        tested = sorted(
            (entry for entry in self.entries if published[entry.key]), key=lambda one: not judged_claims(published[one.key])
        )
        rows = [(entry.label, f"#{entry.key}", tally(published[entry.key])) for entry in tested]
        return rows + [(name, f"index.html?by={by}#the-filter", counts) for name, by, counts in self.by[1:]]

    @property
    def by(self) -> list[tuple[str, str, dict[str, int]]]:
        """Verdicts on the paper's claims and, where we ask something beside them, on that: name, by whom, how many."""
        own = tally(claimed_by(self.claims, US))
        published = (self.spec.title, PAPER, tally(claimed_by(self.claims, PAPER)))
        return [published, ("Asked by us", US, own)] if own else [published]

    def called(self, experiment: str) -> str:
        return display_name(self.spec, experiment)

    @property
    def command(self) -> str:
        """Draws the page anew from what is finished."""
        return command(self.key, self.scale, report_only=True)

    @property
    def commits(self) -> dict[tuple[str, str], int]:
        """(commit, its date or "") -> runs that were made from it, the latest first."""
        runs = {run["run"]: run for result in self.results.values() for run in result.runs()}
        found = Counter((run["commit"], run.get("commit_date") or "") for run in runs.values())
        return dict(sorted(found.items(), key=lambda item: (item[0][1], item[0][0]), reverse=True))


def paper_view(content: PaperContent) -> PaperView:
    """What a page shows of all that documents show."""
    spec, scale = content.spec, content.scale
    beside: dict[str, list[dict[str, str]]] = {key: [] for key in spec.artifacts}
    for verdict in content.verdicts:
        beside[verdict["artifact"]].append(verdict)

    def described(key: str, title: str) -> dict[str, Any]:
        label = display_name(spec, key)
        title = title.removeprefix(f"{label}: ")  # beside the label it need not say it again
        told = {"key": key, "label": label, "title": title[:1].upper() + title[1:]}
        return told | {"claims": beside[key], "experiments": content.experiments(key)}

    def entry(item: dict[str, Any], **own: Any) -> ArtifactView:
        told = described(item["key"], item["title"])
        behind = [content.results[name] for name in told["experiments"]]
        partial = any(found.missing_reason or found.unfinished_series for found in behind)
        asked = command(f"{content.key}_{item['key']}", scale, partial)
        return ArtifactView(
            **told, text=item["remark"], partial=partial, command=asked, files=file_links(spec, item["key"]), **own
        )

    def missing(key: str, reason: str, cost: str) -> ArtifactView:
        told = described(key, spec[key].title)
        reasons = [content.results[name].missing_reason for name in told["experiments"]]
        asked = command(f"{content.key}_{key}", scale) if is_trainable(reasons) else None
        return ArtifactView(**told, skipped=reason, cost=cost, command=asked)

    figures = [entry(item, picture=image_attributes(content, item)) for item in content.figures]
    kept = ("rows", "panels", "numeric", "best")
    tables = [entry(item, **{name: item[name] for name in kept}) for item in content.tables]
    absent = [missing(key, *why) for key, why in content.not_shown.items()]
    return PaperView(content.key, spec, content.results, figures, tables, absent, scale)


def is_trainable(reasons: Iterable[MissingReason | None]) -> bool:
    """Whether training is what some of it lacks: other reasons are of the settings, and a command would not change them."""
    return any(reason.kind == MissingKind.NOT_FINISHED for reason in reasons if reason)


def judged_claims(claims: list[dict[str, str]]) -> list[dict[str, str]]:
    return [claim for claim in claims if claim["verdict"] not in UNJUDGED]


def unjudged_claims(claims: list[dict[str, str]]) -> list[dict[str, str]]:
    """What is not compared, then what is not run."""
    return [claim for status in UNJUDGED for claim in claims if claim["verdict"] == status]


def display_name(spec: Paper, key: str) -> str:
    """A figure, table or experiment: by the experiment's name; by its number in the paper and its own name; by its key."""
    shown = spec.experiments.get(key)
    if shown and shown.name:
        return shown.name
    return label(key, spec[key].name if key in spec.figures or key in spec.tables else None)


def label(key: str, name: str | None = None) -> str:
    """`fig4_rounds` as "Fig. 4, rounds", or with the `name` in place of what follows the number."""
    head, _, rest = key.partition("_")
    numbered = re.fullmatch(r"(fig|table)(\d+[a-z]?)", head)
    if not numbered:
        return name or key.replace("_", " ").capitalize()
    number = f"{'Fig.' if numbered[1] == 'fig' else 'Table'} {numbered[2]}"
    if name and name.startswith(number):
        return name
    return ", ".join(filter(None, [number, name or rest.replace("_", " ")]))


def command(target: str, scale: str, report_only: bool = False) -> str:
    return f"uv run snakemake --cores 2 {target} --config scale={scale}" + " report_only=true" * report_only


def file_links(spec: Paper, key: str) -> list[tuple[str, str]]:
    """Title and address of an artifact's committed files, below the paper's folder."""
    named = artifacts.artifact_files(spec, key)
    return [(TITLES[Path(name).suffix], name) for name in named if Path(name).suffix in TITLES]


def image_attributes(content: PaperContent, item: dict[str, Any]) -> dict[str, Any]:
    """A figure's address, alternative text and size in pixels."""
    name = f"figures/{item['key']}.png"
    width, height = png_size(content.folder / name)
    return {"src": name, "alt": f"{item['title']}: {item['shows']}", "width": width, "height": height, "broad": width > BROAD}


def png_size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    with path.open("rb") as file:
        return struct.unpack(">II", file.read(24)[16:])


def sum_tallies(tallies: Iterable[dict[str, int]]) -> dict[str, int]:
    """Their sum, in the order of the rules."""
    total = sum((Counter(one) for one in tallies), Counter())
    return {status: total[status] for status in RULES if total[status]}
