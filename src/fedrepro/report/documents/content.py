"""A paper as its page and `report.tex` show it: figures and tables, each with its state, claims, files and commands."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedrepro.core.metrics import MEASURES
from fedrepro.report import artifacts
from fedrepro.report.figures.panels import Composite
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.paper import Paper
from fedrepro.report.tables._grid import Grid
from fedrepro.report.tables.base import Table
from fedrepro.report.verdicts.rules import Status
from fedrepro.report.verdicts.summary import PAPER, US, Record, claimed_by, judged_first, read_verdicts, tally
from fedrepro.runs.reasons import MissingKind

PIXELS_PER_POINT = 200 / 72  # at which type of 8 pt is easy to read on a screen
BROAD = 1000  # pixels; pictures over both columns of an article have a width of 1300, over one column 634
TITLES = {".svg": "SVG", ".csv": "CSV"}  # of the files that are committed
NUMBERED = r"(fig|table)(\d+[a-z]?)"  # the first word of the key of a figure or table of the paper
Tallies = list[tuple[str, str, dict[str, int]]]  # name, address or origin, verdicts


@dataclass(frozen=True)
class Entry:
    """A figure or table on a page. `skipped` is the reason why it shows nothing, `cost` the time that running it takes;
    `partial` means that some of its runs are missing. A figure has a `picture`; a table has a `grid` and its `panels`, name ->
    experiment."""

    key: str
    label: str
    title: str
    experiments: list[str]
    claims: list[Record]
    command: str | None = None
    train_command: str | None = None  # trains all runs of a made figure or table again
    core_hours: str = ""  # that its runs took
    text: str = ""
    skipped: str | None = None
    cost: str = ""
    partial: bool = False
    files: list[tuple[str, str]] = field(default_factory=list)
    picture: dict[str, Any] | None = None
    grid: Grid | None = None
    panels: dict[str, str] = field(default_factory=dict)
    variants: list["Entry"] = field(default_factory=list)  # shown in a fold below it

    @property
    def kind(self) -> str:
        return "figure" if self.picture else "table"

    @property
    def state(self) -> str:
        return "not run" if self.skipped else "partly run" if self.partial else "made"


@dataclass(frozen=True)
class PaperContent:
    """A paper, read from its artifacts in `folder`. `hours`: experiment -> core hours of its runs that are not finished."""

    key: str
    spec: Paper
    folder: Path
    hours: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def evidence(self) -> PaperData:
        return artifacts.load_paper_data(self.spec, self.folder)

    @cached_property
    def records(self) -> list[Record]:
        return read_verdicts(self.folder)

    @cached_property
    def results(self) -> dict[str, Results]:
        return {name: self.evidence.results[name] for name in self.spec.shown_experiments}

    @property
    def note(self) -> dict[str, Any]:
        """What is known of the scale."""
        return next(iter(self.results.values())).note

    @property
    def scale(self) -> str:
        return self.note["scale"]

    @property
    def name(self) -> str:
        return next(iter(self.results.values())).latex_name

    # figures and tables

    @cached_property
    def figures(self) -> list[Entry]:
        return [self._made(key) for key in self._shown if key in self.spec.figures]

    @cached_property
    def tables(self) -> list[Entry]:
        return [self._made(key) for key in self._shown if key in self.spec.tables]

    @cached_property
    def absent(self) -> list[Entry]:
        """The figures and tables that show nothing, with the reason and the cost of their missing runs."""
        return [self._absent(key) for key in (*self.spec.figures, *self.spec.tables) if key not in self._shown]

    @property
    def entries(self) -> list[Entry]:
        return [*self.figures, *self.tables, *self.absent]

    @cached_property
    def _shown(self) -> list[str]:
        return artifacts.available_artifacts(self.spec, self.evidence)

    def _made(self, key: str) -> Entry:
        item, entry = self.spec[key], self._entry(key)
        results, target = [self.results[name] for name in entry.experiments], f"{self.key}_{key}"
        if isinstance(item, Table):
            panels = {self.evidence.panel(ref).name: ref.experiment for ref in item.panels}
            entry = replace(entry, grid=item.build(self.evidence).folded(), panels=panels)
        else:
            entry = replace(entry, picture=image_attributes(self.folder, key, f"{item.title}: {item.alt_text}"))
        return replace(
            entry,
            text=item.description(self.evidence),
            partial=any(experiment.missing_reason or experiment.unfinished_series for experiment in results),
            command=command(target, self.scale, report_only=True),
            train_command=command(target, self.scale, anew=True),
            core_hours=core_hours(results),
            files=file_links(self.spec, key),
        )

    def _absent(self, key: str) -> Entry:
        entry, figure = self._entry(key), self.spec.figures.get(key)
        reasons = [self.results[name].missing_reason for name in entry.experiments]
        hours = sum(self.hours.get(name, 0) for name in entry.experiments)
        texts = [str(reason) for reason in (figure and figure.missing_reason(self.evidence), *reasons) if reason]
        trainable = any(reason.kind == MissingKind.NOT_FINISHED for reason in reasons if reason)  # else settings leave it out
        return replace(
            entry,
            skipped="; ".join(dict.fromkeys(texts)),
            cost=f" (about {format_hours(hours)} core hours)" if hours else "",
            command=command(f"{self.key}_{key}", self.scale) if trainable else None,
        )

    def _entry(self, key: str) -> Entry:
        item, label, figures = self.spec[key], display_name(self.spec, key), self.spec.figures
        experiments = item.experiments if isinstance(item, Table) else item.experiments(figures)
        title = item.title.removeprefix(f"{label}: ")  # the page shows it after the label
        claims = [record for record in self.records if record.artifact == key]
        return Entry(key, label, title[:1].upper() + title[1:], experiments, claims)

    @property
    def parts(self) -> list[tuple[str, str, list[Entry], list[Entry]]]:
        """Address, title, entries and entries that are not in the paper, of each part of the page.

        An entry holds its variants. It counts as not in the paper if its key has no number of the paper's and none of the
        paper's claims is tested by it.
        """
        figures = self.spec.figures.items()
        parents = {panel: key for key, figure in figures if isinstance(figure, Composite) for panel in figure.names}
        parts = []
        for address, title, made in (("the-figures", "Figures", self.figures), ("the-tables", "Tables", self.tables)):
            entries = nest_variants(made, parents)
            ours = [entry for entry in entries if not (is_numbered(entry.key) or claimed_by(entry.claims, PAPER))]
            if len(ours) == len(entries):  # where there is no paper, the first one and those with our questions are not folded
                ours = [entry for entry in entries[1:] if not entry.claims]
            if entries:
                parts.append((address, title, [entry for entry in entries if entry not in ours], ours))
        return parts

    @property
    def lead_figure(self) -> Entry | None:
        """The first figure that shows the runs of a main claim; else the first figure."""
        shown = (entry for record in self.main_claims for entry in self.figures if record.experiment in entry.experiments)
        return next(itertools.chain(shown, self.figures), None)

    # claims

    @cached_property
    def claims(self) -> list[Record]:
        """All claims in the order of the figures and tables, the judged ones first."""
        return judged_first(record for entry in self.entries for record in entry.claims)

    @property
    def main_claims(self) -> list[Record]:
        """The claims of the abstract, tested or not."""
        return [record for record in self.records if record.headline]

    @property
    def tested(self) -> list[Record]:
        """The claims that were tested, those over most panels first, else in the order of the paper's file."""
        return sorted((record for record in self.records if record.tested), key=lambda record: -record.panels)

    @property
    def contradicted(self) -> list[Record]:
        """The paper's claims that our runs contradict, without the main ones."""
        return [one for one in self.tested if one.verdict == Status.CONTRADICTED and one.by == PAPER and not one.headline]

    @property
    def differences(self) -> list[Record]:
        return [record for record in self.tested if record.is_difference]

    @property
    def tallies(self) -> Tallies:
        """Name, address and verdicts of each figure or table with claims of the paper, those with judged claims first. The last
        row is our own questions, if any."""
        published = [(entry, claimed_by(entry.claims, PAPER)) for entry in self.entries]
        published.sort(key=lambda found: not any(record.tested for record in found[1]))
        rows = [(entry.label, f"#{entry.key}", tally(records)) for entry, records in published if records]
        own = [(name, f"index.html?by={by}#the-filter", counts) for name, by, counts in self.tallies_by_origin if by == US]
        return rows + own

    @property
    def tallies_by_origin(self) -> Tallies:
        """Name, origin and verdicts of the paper's claims and of our own questions, if there are any."""
        names = {PAPER: self.spec.title, US: "Asked by us"}
        return [(name, by, tally(found)) for by, name in names.items() if (found := claimed_by(self.records, by))]

    def details(self, record: Record) -> dict[str, Any]:
        """Return what a page shows of a claim in addition to its record: what is measured, the experiments behind a value over
        several, and what was run at a scale that compares directions only."""
        claim, results = self.spec.claims[record.key], self.results.get(record.experiment)
        quantity = claim.scales.get(self.scale, claim.quantity)
        measure = MEASURES[claim.ref.resolved(self.spec.experiments).measure]
        names = [claim.experiment, *getattr(quantity, "also", ())]
        made = [name for name in names if name in self.results and not self.results[name].missing_reason]
        shown = [(name, self.experiment_name(name)) for name in made] if len(names) > 1 else []
        judged = results and results.compare == "direction" and record.tested
        ran = format_sizes([self.results[name].note["training"] for name in names]) if judged else ""
        return {"measured": quantity.description(measure), "panel_runs": shown, "ran": ran}

    # runs

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


def nest_variants(entries: Sequence[Entry], panels: Mapping[str, str]) -> list[Entry]:
    """Return the entries that are no variant of another, each with its variants.

    A variant is a panel of the other, or its key continues the other's after an underscore: `fig4d_leads` is one of `fig4d`.

    Args:
        panels: figure -> the figure of which it is a panel.
    """
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


def format_hours(hours: float) -> str:
    """Format a number of hours with two significant digits."""
    return f"{hours:.1f}" if hours < 10 else f"{float(f'{hours:.2g}'):,.0f}"


def format_sizes(trainings: Sequence[Mapping[str, Any]]) -> str:
    """Return the sizes of experiments, e.g. "36 to 96 rounds, 8,000 to 20,000 images, 20 clients"."""
    partitions = [training["partition"] for training in trainings]
    sizes = {
        "rounds": [training["rounds"] for training in trainings],
        "images": [training.get("train_images") for training in trainings],
        "clients": [partition.get("clients") if isinstance(partition, Mapping) else None for partition in partitions],
    }
    known = {name: sorted({min(numbers), max(numbers)}) for name, numbers in sizes.items() if None not in numbers}
    return ", ".join(f"{' to '.join(f'{number:,}' for number in ends)} {name}" for name, ends in known.items())


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


def image_attributes(folder: Path, key: str, text: str) -> dict[str, Any]:
    """Return a figure's address, alternative text and size in pixels, at which type is easy to read."""
    name = f"figures/{key}.svg"
    with (folder / name).open(encoding="utf-8") as file:
        sizes = re.findall(r'(?:width|height)="([\d.]+)pt"', file.read(500))[:2]
    width, height = (round(PIXELS_PER_POINT * float(size)) for size in sizes)
    return {"src": name, "alt": text, "width": width, "height": height, "broad": width > BROAD}
