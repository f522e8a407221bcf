"""The figures and tables of a paper's page: each with its state, claims, files, and the commands that make it."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedrepro.report import artifacts
from fedrepro.report.documents.content import PaperContent, format_hours
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.paper import Paper
from fedrepro.runs.reasons import MissingKind, MissingReason

PIXELS_PER_POINT = 200 / 72  # at which type of 8 pt is easy to read on a screen
BROAD = 1000  # pixels; pictures over both columns of an article have a width of 1300, over one column 634
TITLES = {".svg": "SVG", ".csv": "CSV"}  # of the files that are committed
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
    def kind(self) -> str:
        return "figure" if self.picture else "table"

    @property
    def state(self) -> str:
        return "not run" if self.skipped else "partly run" if self.partial else "made"


def make_entries(content: PaperContent, claims: Mapping[str, list[dict[str, Any]]]) -> tuple[list[ArtifactView], ...]:
    """Return the figures, the tables, and what of both has no results.

    Args:
        claims: the records of each figure and table.
    """
    spec, scale = content.spec, content.scale

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
    return figures, tables, absent


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
