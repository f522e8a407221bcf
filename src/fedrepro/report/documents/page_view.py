"""The data of a paper's page: each figure and table with its state, claims, files, and the commands that make it."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from fedrepro.core.metrics import MEASURES
from fedrepro.report import artifacts
from fedrepro.report.documents.content import PaperContent, format_hours
from fedrepro.report.documents.findings import ANSWERS, TESTED, WORDS, Finding
from fedrepro.report.figures import panels
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts.rules import RULES, UNJUDGED
from fedrepro.report.verdicts.summary import PAPER, US, claimed_by, tally
from fedrepro.runs.reasons import MissingKind, MissingReason

Claim = TypeVar("Claim", bound=Mapping[str, str])  # a record of verdicts.json
PIXELS_PER_POINT = 200 / 72  # at which type of 8 pt is easy to read on a screen
BROAD = 1000  # pixels; pictures over both columns of an article have a width of 1300, over one column 634
TITLES = {".svg": "SVG", ".csv": "CSV"}  # of the files that are committed
BYTES = "bytes_overhead"  # a kind of quantity that follows from the code, whatever is trained
NUMBERED = r"(fig|table)(\d+[a-z]?)"  # the first word of the key of a figure or table of the paper


@dataclass(frozen=True)
class ArtifactView:
    """A figure or table on a page. `skipped` is the reason why it shows nothing, `cost` the time that running it takes;
    `partial` means that some of its runs are missing. A figure has a `picture`; a table has `rows` and the fields after it."""

    key: str
    label: str
    title: str
    experiments: list[str]
    claims: list[dict[str, Any]]
    command: str | None
    train_command: str | None = None  # trains all runs of a made figure or table again
    core_hours: str = ""  # that its runs took
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
    paper_rows: frozenset[int] = frozenset()
    variants: list["ArtifactView"] = field(default_factory=list)  # shown in a fold below it

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Its claims, without those on properties of the code."""
        return [claim for claim in self.claims if not claim["property"]]

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
    verdicts: list[dict[str, Any]]

    @property
    def parts(self) -> list[tuple[str, str, list[ArtifactView], list[ArtifactView]]]:
        """Address, title, entries and entries that are not in the paper, of each part of the page.

        Entries have their variants below them. An entry is not in the paper if it has neither its number nor one of its claims.
        """
        composites = {key: figure for key, figure in self.spec.figures.items() if isinstance(figure, panels.Figure)}
        parents = {panel: key for key, figure in composites.items() for panel in figure.names}
        parts = []
        for address, title, views in (("the-figures", "Figures", self.figures), ("the-tables", "Tables", self.tables)):
            entries = nest_variants(views, parents)
            ours = [entry for entry in entries if not (is_numbered(entry.key) or claimed_by(entry.claims, PAPER))]
            if entries:
                parts.append((address, title, [entry for entry in entries if entry not in ours], ours))
        return parts

    @property
    def lead_figure(self) -> ArtifactView | None:
        """The first figure that shows the runs of a main finding; else the first figure."""
        experiments = [finding.record["experiment"] for finding in self.main_findings]
        shown = (entry for name in experiments for entry in self.figures if name in entry.experiments)
        return next(shown, self.figures[0] if self.figures else None)

    @property
    def words(self) -> dict[str, int]:
        """Plain word -> number of the paper's claims, properties of the code left out."""
        claims = [claim for claim in claimed_by(self.claims, PAPER) if not claim["property"]]
        return count_words(claims)

    @property
    def properties(self) -> list[dict[str, Any]]:
        """The claims on properties of the code, such as bytes, which no training decides."""
        return [claim for claim in self.claims if claim["property"]]

    @property
    def entries(self) -> list[ArtifactView]:
        return [*self.figures, *self.tables, *self.absent]

    @property
    def claims(self) -> list[dict[str, str]]:
        """All claims in the order of the figures and tables, the judged ones first."""
        claims = [claim for entry in self.entries for claim in entry.claims]
        return [*judged_claims(claims), *unjudged_claims(claims)]

    @property
    def tallies(self) -> list[tuple[str, str, dict[str, int]]]:
        """Name, address and verdicts of each figure or table with claims of the paper, those with judged claims first. The last
        row is our own questions, if any."""
        published = {entry.key: claimed_by(entry.claims, PAPER) for entry in self.entries}
        tested = [entry for entry in self.entries if published[entry.key]]
        tested.sort(key=lambda entry: not judged_claims(published[entry.key]))
        rows = [(entry.label, f"#{entry.key}", tally(published[entry.key])) for entry in tested]
        return rows + [(name, f"index.html?by={by}#the-filter", counts) for name, by, counts in self.tallies_by_origin[1:]]

    @property
    def tallies_by_origin(self) -> list[tuple[str, str, dict[str, int]]]:
        """Name, origin and verdicts of the paper's claims and, if there are any, of our own questions."""
        own = tally(claimed_by(self.claims, US))
        published = (self.spec.title, PAPER, tally(claimed_by(self.claims, PAPER)))
        return [published, ("Asked by us", US, own)] if own else [published]

    @property
    def findings(self) -> list[Finding]:
        """The claims that were tested, those over most panels first, else in the order of the paper's file."""
        findings = [Finding(self.key, self.scale, verdict) for verdict in self.verdicts if verdict["verdict"] in TESTED]
        return sorted(findings, key=lambda finding: -finding.record["panels"])

    @property
    def main_findings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.record["headline"]]

    @property
    def contradicted(self) -> list[Finding]:
        """The paper's claims that our runs contradict, without the main ones."""
        findings = [finding for finding in self.findings if finding.answer == "no" and finding.record["by"] == PAPER]
        return [finding for finding in findings if not finding.record["headline"]]

    @property
    def differences(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.is_difference]

    def experiment_name(self, experiment: str) -> str:
        return display_name(self.spec, experiment)

    @property
    def command(self) -> str:
        """The command that makes the page from the finished runs."""
        return command(self.key, self.scale, report_only=True)

    @property
    def commits(self) -> dict[tuple[str, str], int]:
        """(commit, its date or "") -> number of runs, the latest commit first."""
        runs = {run["run"]: run for result in self.results.values() for run in result.runs()}
        counts = Counter((run["commit"], run.get("commit_date") or "") for run in runs.values())
        return dict(sorted(counts.items(), key=lambda item: (item[0][1], item[0][0]), reverse=True))


def paper_view(content: PaperContent) -> PaperView:
    """Return the data of a paper's page."""
    spec, scale = content.spec, content.scale
    claims: dict[str, list[dict[str, Any]]] = {key: [] for key in spec.artifacts}
    for verdict in content.verdicts:
        claims[verdict["artifact"]].append(verdict | claim_details(content, verdict))

    def shared_fields(key: str, title: str) -> dict[str, Any]:
        label = display_name(spec, key)
        title = title.removeprefix(f"{label}: ")  # the page shows it after the label
        fields = {"key": key, "label": label, "title": title[:1].upper() + title[1:]}
        return fields | {"claims": claims[key], "experiments": content.experiments(key)}

    def made_view(item: dict[str, Any], **fields: Any) -> ArtifactView:
        fields |= shared_fields(item["key"], item["title"])
        results = [content.results[name] for name in fields["experiments"]]
        partial = any(experiment.missing_reason or experiment.unfinished_series for experiment in results)
        target = f"{content.key}_{item['key']}"
        fields |= {"command": command(target, scale, report_only=True), "train_command": command(target, scale, anew=True)}
        fields |= {"core_hours": core_hours(results), "files": file_links(spec, item["key"])}
        return ArtifactView(text=item["remark"], partial=partial, **fields)

    def absent_view(key: str, reason: str, cost: str) -> ArtifactView:
        fields = shared_fields(key, spec[key].title)
        reasons = [content.results[name].missing_reason for name in fields["experiments"]]
        make = command(f"{content.key}_{key}", scale) if is_trainable(reasons) else None
        return ArtifactView(skipped=reason, cost=cost, command=make, **fields)

    figures = [made_view(item, picture=image_attributes(content, item)) for item in content.figures]
    columns = ("rows", "panels", "numeric", "best", "paper_rows")
    tables = [made_view(item, **{name: item[name] for name in columns}) for item in content.tables]
    absent = [absent_view(key, *reason) for key, reason in content.not_shown.items()]
    return PaperView(content.key, spec, content.results, figures, tables, absent, scale, content.verdicts)


def claim_details(content: PaperContent, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page shows of a claim in addition to its record: the plain word of its verdict, which value was measured,
    what was run at a scale that compares directions only, and whether it is about a property of the code."""
    claim, results = content.spec.claims[verdict["key"]], content.results.get(verdict["experiment"])
    quantity = claim.scales.get(content.scale, claim.quantity)
    measure = MEASURES[claim.ref.resolved(content.spec.experiments).measure]
    details = {"word": plain_word(verdict["verdict"]), "measured": quantity.description(measure), "ran": ""}
    if results and results.note["compare"] == "direction" and verdict["verdict"] in TESTED:
        panels = [results, *(content.results[name] for name in getattr(quantity, "also", ()))]
        details["ran"] = format_sizes([each.note["training"] for each in panels])
    return details | {"property": quantity.kind == BYTES}


def format_sizes(trainings: Sequence[Mapping[str, Any]]) -> str:
    """Return the sizes of experiments, e.g. "36 to 96 rounds, 8,000 to 20,000 images, 20 clients"."""
    partitions = [training["partition"] for training in trainings]
    sizes = {
        "rounds": [training["rounds"] for training in trainings],
        "images": [training.get("train_images") for training in trainings],
        "clients": [partition.get("clients") if isinstance(partition, Mapping) else None for partition in partitions],
    }
    return ", ".join(f"{_range(numbers)} {name}" for name, numbers in sizes.items() if None not in numbers)


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def nest_variants(entries: Iterable[ArtifactView], panels: Mapping[str, str]) -> list[ArtifactView]:
    """Return the entries that are no variant of another, each with its variants.

    A variant is a panel of the other, or its key continues the other's after an underscore: `fig4d_leads` is one of `fig4d`.

    Args:
        panels: figure -> the figure of which it is a panel.
    """
    entries = list(entries)
    keys = {entry.key for entry in entries}
    roots = {key: _root(key, keys, panels) for key in keys}
    variants = {key: [entry for entry in entries if roots[entry.key] == key != entry.key] for key in keys}
    return [replace(entry, variants=variants[entry.key]) for entry in entries if roots[entry.key] == entry.key]


def _root(key: str, keys: Collection[str], panels: Mapping[str, str]) -> str:
    """Return the key of the entry that an entry is a variant of, by way of others; its own if it is none."""
    parts = key.split("_")
    starts = ["_".join(parts[:length]) for length in range(1, len(parts))]
    parent = next((other for other in [panels.get(key, ""), *starts] if other in keys), None)
    return _root(parent, keys, panels) if parent else key


def core_hours(results: Iterable[Results]) -> str:
    """Return the core hours that all runs of some experiments took, e.g. "11"; empty if they were not timed."""
    runs = {run["run"]: run for result in results for run in result.runs()}
    hours = sum(run.get("core_seconds", 0) for run in runs.values()) / 3600
    return format_hours(hours) if hours else ""


def is_trainable(reasons: Iterable[MissingReason | None]) -> bool:
    """Return whether training would help; a command changes nothing about other reasons, which lie in the settings."""
    return any(reason.kind == MissingKind.NOT_FINISHED for reason in reasons if reason)


def judged_claims(claims: Iterable[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim["verdict"] not in UNJUDGED]


def unjudged_claims(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims that are not compared, then those that are not run."""
    return [claim for status in UNJUDGED for claim in claims if claim["verdict"] == status]


def display_name(spec: Paper, key: str) -> str:
    """Return the name of a figure, table or experiment: as `experiments` in artifacts.yaml names it, else see `label`."""
    shown = spec.experiments.get(key)
    if shown and shown.name:
        return shown.name
    return label(key, spec[key].name if key in spec.figures or key in spec.tables else None)


def is_numbered(key: str) -> bool:
    """Return whether a key starts with the number of a figure or table of the paper."""
    return bool(re.fullmatch(NUMBERED, key.partition("_")[0]))


def label(key: str, name: str | None = None) -> str:
    """Return a label such as "Fig. 4, rounds" for the key `fig4_rounds`; `name` replaces the part after the number."""
    head, _, rest = key.partition("_")
    numbered = re.fullmatch(NUMBERED, head)
    if not numbered:
        return name or key.replace("_", " ").capitalize()
    number = f"{'Fig.' if numbered[1] == 'fig' else 'Table'} {numbered[2]}"
    if name and name.startswith(number):
        return name
    return ", ".join(filter(None, [number, name or rest.replace("_", " ")]))


def command(target: str, scale: str, report_only: bool = False, anew: bool = False) -> str:
    """Return the command that makes a target; with `report_only` it trains nothing, with `anew` all, kept runs too."""
    option = " report_only=true" if report_only else " use_kept_results=false" if anew else ""
    return f"uv run snakemake --cores 2 {target} --config scale={scale}{option}"


def plain_word(status: str) -> str:
    """Return "supported", "contradicted" or "open" for a claim that was tested; else the status."""
    return next((WORDS[answer] for answer, statuses in ANSWERS.items() if status in statuses), status)


def count_words(claims: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return plain word -> number of claims, in the order of the words."""
    counts = Counter(plain_word(claim["verdict"]) for claim in claims)
    return {word: counts[word] for word in (*WORDS.values(), *UNJUDGED) if counts[word]}


def file_links(spec: Paper, key: str) -> list[tuple[str, str]]:
    """Return title and address of an artifact's committed files, relative to the paper's folder."""
    names = artifacts.artifact_files(spec, key)
    return [(TITLES[Path(name).suffix], name) for name in names if Path(name).suffix in TITLES]


def image_attributes(content: PaperContent, item: dict[str, Any]) -> dict[str, Any]:
    """Return a figure's address, alternative text and size in pixels."""
    name = f"figures/{item['key']}.svg"
    width, height = svg_size(content.folder / name)
    return {"src": name, "alt": f"{item['title']}: {item['shows']}", "width": width, "height": height, "broad": width > BROAD}


def svg_size(path: Path) -> tuple[int, int]:
    """Return the width and height at which a page shows an SVG, in pixels."""
    with path.open(encoding="utf-8") as file:
        head = file.read(500)
    width, height = (round(PIXELS_PER_POINT * float(size)) for size in re.findall(r'(?:width|height)="([\d.]+)pt"', head)[:2])
    return width, height


def sum_tallies(tallies: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up tallies; the statuses are in the order of the rules."""
    total = sum((Counter(counts) for counts in tallies), Counter())
    return {status: total[status] for status in RULES if total[status]}
