"""A paper as its page and `report.tex` show it: figures and tables, each with its claims, files and
commands."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fedrepro.core.metrics import MEASURES
from fedrepro.data.source_label import parse_label
from fedrepro.report import artifacts
from fedrepro.report.figures.panels import Composite
from fedrepro.report.inputs.gathered import Results, Settings, collect_settings
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.paper import Paper
from fedrepro.report.quantities.curves import Difference
from fedrepro.report.statistics import grouped
from fedrepro.report.tables._grid import Grid
from fedrepro.report.tables.base import Table
from fedrepro.report.verdicts.rules import Status
from fedrepro.report.verdicts.summary import (
    PAPER,
    US,
    Record,
    claimed_by,
    format_counts,
    read_verdicts,
    tally,
)
from fedrepro.runs.reasons import UNFINISHED, MissingKind

PIXELS_PER_POINT = 200 / 72  # at which type of 8 pt is easy to read on a screen
# pixels; pictures over both columns of an article have a width of 1300, over one column 634
BROAD = 1000
TITLES = {".svg": "SVG", ".csv": "CSV"}  # of the files that are committed
NUMBERED = r"(fig|table)(\d+[a-z]?)"  # the first word of the key of a figure or table of the paper
Tallies = list[tuple[str, str, dict[str, int]]]  # name, address or origin, verdicts


@dataclass(frozen=True)
class Entry:
    """A figure or table on a page, with the tested claims that stand beside it. A figure has a
    `picture` unless a drawing says nothing; a table has a `grid` and its `panels`, name ->
    experiment."""

    key: str
    label: str
    title: str
    experiments: list[str]
    claims: list[Record]
    command: str
    core_hours: str  # that its runs took
    files: list[tuple[str, str]]
    text: str = ""
    finding: str = ""  # of the claim that says most
    picture: dict[str, Any] | None = None
    grid: Grid | None = None
    panels: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "table" if self.grid else "figure"


@dataclass(frozen=True)
class PaperContent:
    """A paper, read from its artifacts in `folder`. `hours`: experiment -> core hours of its runs
    that are not finished."""

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
        made = [self._entry(key) for key in self._keys if key in self.spec.figures]
        return [entry for entry in made if entry.picture or entry.claims]

    @cached_property
    def tables(self) -> list[Entry]:
        return [self._entry(key) for key in self._keys if key in self.spec.tables]

    @property
    def entries(self) -> list[Entry]:
        return [*self.figures, *self.tables]

    @cached_property
    def gaps(self) -> list[tuple[str, int, str, str, str]]:
        """What is not tested at this scale, in the order of the figures and tables: label, number
        of claims, core hours of the missing runs, the target that trains them (empty: none are
        missing that this scale has), why."""
        keys = dict.fromkeys(self._places.values())
        return [gap for gap in map(self._gap, keys) if gap[1] or gap[3]]

    @property
    def absent(self) -> list[str]:
        """The figures and tables that show nothing."""
        return [key for key in dict.fromkeys(self._places.values()) if key not in self._shown]

    @cached_property
    def _shown(self) -> list[str]:
        return artifacts.available_artifacts(self.spec, self.evidence)

    @property
    def _keys(self) -> list[str]:
        return list(dict.fromkeys(self._places[key] for key in self._shown if key in self._places))

    @cached_property
    def _places(self) -> dict[str, str]:
        """Figure or table -> the one in whose place the page has it: a combined figure holds its
        panels, unless one alone has results, which then stands for the combined figure."""
        places = {key: key for key in (*self.spec.figures, *self.spec.tables)}
        for key, figure in self.spec.figures.items():
            if isinstance(figure, Composite):
                shown = [name for name in figure.names if name in self._shown]
                places |= {key: shown[0]} if len(shown) == 1 else dict.fromkeys(figure.names, key)
        return places

    def _entry(self, key: str) -> Entry:
        item, names, target = self.spec[key], self._experiments(key), f"{self.key}_{key}"
        results, name = [self.results[name] for name in names], display_name(self.spec, key)
        title = item.title.removeprefix(f"{name}: ")  # the page shows it after the label
        claims = [record for record in self._claims_at(key) if record.tested]
        shown: dict[str, Any] = {
            "text": item.description(self.evidence),
            "finding": self._finding(claims),
        }
        if isinstance(item, Table):
            panels = {self.evidence.panel(ref).name: ref.experiment for ref in item.panels}
            shown |= {"grid": item.build(self.evidence).folded(), "panels": panels}
        elif item.is_worth_drawing(self.evidence):
            shown["picture"] = image_attributes(self.folder, key, f"{item.title}: {item.alt_text}")
        return Entry(
            key,
            name,
            title[:1].upper() + title[1:],
            names,
            claims,
            command(target, self.scale, report_only=True),
            core_hours(results),
            file_links(self.spec, key),
            **shown,
        )

    def _gap(self, key: str) -> tuple[str, int, str, str, str]:
        untested = [record for record in self._claims_at(key) if not record.tested]
        results = [self.results[name] for name in self._experiments(key)]
        missing = [result.missing_reason for result in results if result.missing_reason]
        partly = [
            f"{', '.join(result.unfinished_series)}: {UNFINISHED}"
            for result in results
            if result.unfinished_series
        ]
        reasons = [*map(str, missing), *partly, *(record.why for record in untested)]
        # else settings leave it out
        trainable = partly or any(reason.kind == MissingKind.NOT_FINISHED for reason in missing)
        hours = sum(self.hours.get(name, 0) for name in self._experiments(key))
        target, why = f"{self.key}_{key}" if trainable else "", "; ".join(dict.fromkeys(reasons))
        return (
            display_name(self.spec, key),
            len(untested),
            format_hours(hours) if hours else "",
            target,
            why,
        )

    def _experiments(self, key: str) -> list[str]:
        return self.spec[key].experiments(self.spec.figures)

    def _finding(self, claims: Sequence[Record]) -> str:
        """Return a sentence on the claim that says most, a headline, one on the paper's method or a
        decided one before others: e.g. "FedMAX ends 6.16 ± 3.75 points above FedAvg (n = 5): open,
        leans for". Add the verdicts on all, if there are more."""
        if not claims:
            return ""
        asked = {
            record.key: self.spec.claims[record.key].quantity.series in self.spec.proposed
            for record in claims
        }
        ranks = {
            one.key: (one.headline, asked[one.key], one.decided, one.lean, one.mean is not None)
            for one in claims
        }
        one = min(claims, key=lambda record: [not good for good in ranks[record.key]])
        claim = self.spec.claims[one.key]
        quantity = claim.scales.get(self.scale, claim.quantity)
        series, *others = quantity.labels
        seeds = one.ours[len(one.interval) :] if one.ours.startswith(one.interval) else ""
        if (
            isinstance(quantity, Difference)
            and len(others) == 1
            and one.mean is not None
            and not quantity.than
        ):
            end, span = quantity.round or 0, quantity.smooth
            when = (
                ""
                if quantity.last
                else f" at round {end}"
                if span == 1
                else f" over rounds {end - span + 1} to {end}"
            )
            when += f", over {one.panels} panels" if one.panels > 1 else ""
            verb, side = "ends" if quantity.last else "lies", "below" if one.mean < 0 else "above"
            text = f"{series} {verb} {one.interval.lstrip('+-')} {side} {others[0]}{when}{seeds}"
        else:
            text = f"{one.claim}: here {one.interval.rpartition('; ')[2]}{seeds}"
        rest = (
            f". All {len(claims)} claims: {format_counts(tally(claims))}" if len(claims) > 1 else ""
        )
        panel = display_name(self.spec, one.artifact)
        where = "" if panel == display_name(self.spec, self._places[one.artifact]) else f"{panel}: "
        return f"{where}{text}: {one.words}{rest}."

    def _claims_at(self, key: str) -> list[Record]:
        return [record for record in self.records if self._places.get(record.artifact) == key]

    @property
    def parts(self) -> list[tuple[str, str, list[Entry]]]:
        """Address, title and entries of each part of the page. What neither has a number of the
        paper's and stands for no other one, nor tests a claim of the paper, is in an appendix:
        variants and our own questions."""
        keys = {entry.key for entry in self.entries}
        ours = [entry for entry in self.entries if not is_main(entry, keys)]
        # where there is no paper, the first figure and table and those with our questions stay
        if len(ours) == len(keys):
            ours = [entry for entry in [*self.figures[1:], *self.tables[1:]] if not entry.claims]
        parts = [("the-figures", "Figures", self.figures), ("the-tables", "Tables", self.tables)]
        shown = [
            (address, title, [entry for entry in entries if entry not in ours])
            for address, title, entries in parts
        ]
        shown.append(("the-appendix", "Appendix: variants, and what is not in the paper", ours))
        return [part for part in shown if part[2]]

    # claims

    @cached_property
    def claims(self) -> list[Record]:
        """The tested claims in the order of the figures and tables."""
        return [record for entry in self.entries for record in entry.claims]

    @property
    def main_claims(self) -> list[Record]:
        """The claims of the abstract, tested or not."""
        return [record for record in self.records if record.headline]

    @property
    def tested(self) -> list[Record]:
        """The claims that were tested, those over most panels first, else in the order of the
        paper's file."""
        return sorted(
            (record for record in self.records if record.tested), key=lambda record: -record.panels
        )

    @property
    def contradicted(self) -> list[Record]:
        """The paper's claims that our runs contradict, without the main ones."""
        return [
            one
            for one in self.tested
            if one.verdict == Status.CONTRADICTED and one.by == PAPER and not one.headline
        ]

    @property
    def tallies_by_origin(self) -> Tallies:
        """Name, origin and verdicts of the tested claims of the paper and of our own questions, if
        there are any."""
        names = {PAPER: self.spec.title, US: "Asked by us"}
        return [
            (name, by, tally(found))
            for by, name in names.items()
            if (found := claimed_by(self.tested, by))
        ]

    def details(self, record: Record) -> dict[str, Any]:
        """Return what a page shows of a claim in addition to its record: what is measured, the
        experiments behind a value over several, and what was run at a scale that compares
        directions only."""
        claim, results = self.spec.claims[record.key], self.results.get(record.experiment)
        quantity = claim.scales.get(self.scale, claim.quantity)
        measure = MEASURES[claim.ref.resolved(self.spec.experiments).measure]
        names = [claim.experiment, *getattr(quantity, "also", ())]
        made = [
            name for name in names if name in self.results and not self.results[name].missing_reason
        ]
        shown = [(name, self.experiment_name(name)) for name in made] if len(names) > 1 else []
        judged = results and results.compare == "direction" and record.tested
        ran = "; ".join(dict.fromkeys(map(self.evidence.size, names))) if judged else ""
        return {"measured": quantity.description(measure), "panel_runs": shown, "ran": ran}

    # runs

    def experiment_name(self, experiment: str) -> str:
        return self.evidence.as_run(experiment, display_name(self.spec, experiment))

    def provenance(
        self, experiment: str
    ) -> tuple[dict[str, str], list[tuple[dict[str, list], dict[str, str]]]]:
        """Return what all runs of an experiment share, by column, and the rows of its table: series
        -> runs, other columns."""
        results = self.results[experiment]
        told = [
            (label, run, _origin(run)) for label in results.labels for run in results.runs(label)
        ]
        differing = [
            name for name in told[0][2] if len({origin[name] for _, _, origin in told}) > 1
        ]
        rows = grouped(
            (tuple(origin[name] for name in differing), (label, run)) for label, run, origin in told
        )
        shared = {name: value for name, value in told[0][2].items() if name not in differing}
        return shared, [
            (grouped(runs), dict(zip(differing, cells, strict=True)))
            for cells, runs in rows.items()
        ]

    @cached_property
    def settings(self) -> dict[str, Settings]:
        """The settings of each experiment that was run."""
        return {
            name: collect_settings(results)
            for name, results in self.results.items()
            if not results.missing_reason
        }

    @cached_property
    def common_settings(self) -> dict[str, str]:
        """The settings that all these experiments share."""
        every = [own.shared.items() for own in self.settings.values()]
        return (
            {key: value for key, value in every[0] if all((key, value) in own for own in every)}
            if len(every) > 1
            else {}
        )

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


def _origin(run: Mapping[str, Any]) -> dict[str, str]:
    """Return what a page tells of a run, by column."""
    machine = f"{run['device']}: {run['hardware'].partition(' (family')[0]}"
    columns = {
        "Status": run["status"],
        "Commit": run["commit"],
        "Date": (run.get("commit_date") or "")[:10],
        "Code": run["code"],
    }
    data = {"Data": parse_label(run["dataset"])[0], "Checksum": run["data"][:12]}
    return columns | data | {"Machine": machine, "torch": run["torch"]}


def is_main(entry: Entry, keys: Collection[str]) -> bool:
    """Return whether an entry tests a claim of the paper, or shows a numbered figure or table and
    is no variant of another: its key does not continue that of the other after an underscore, as
    `fig4d_leads` does that of `fig4d`. `keys`: of all."""
    parts = entry.key.split("_")
    is_variant = any("_".join(parts[:length]) in keys for length in range(1, len(parts)))
    return bool(claimed_by(entry.claims, PAPER)) or (is_numbered(entry.key) and not is_variant)


def core_hours(results: Iterable[Results]) -> str:
    """Return the core hours that all runs of some experiments took, e.g. "11"; empty if they were
    not timed."""
    runs = {run["run"]: run for result in results for run in result.runs()}
    hours = sum(run.get("core_seconds", 0) for run in runs.values()) / 3600
    return format_hours(hours) if hours else ""


def format_hours(hours: float) -> str:
    """Format a number of hours with two significant digits."""
    return f"{hours:.1f}" if hours < 10 else f"{float(f'{hours:.2g}'):,.0f}"


def display_name(spec: Paper, key: str) -> str:
    """Return the name of a figure, table or experiment: as `experiments` in artifacts.yaml names
    it, else see `label`."""
    shown = spec.experiments.get(key)
    if shown and shown.name:
        return shown.name
    return label(key, spec[key].name if key in spec.figures or key in spec.tables else None)


def is_numbered(key: str) -> bool:
    """Return whether a key starts with the number of a figure or table of the paper."""
    return bool(re.fullmatch(NUMBERED, key.partition("_")[0]))


def label(key: str, name: str | None = None) -> str:
    """Return a label such as "Fig. 4, rounds" for the key `fig4_rounds`; `name` replaces the part
    after the number."""
    head, _, rest = key.partition("_")
    numbered = re.fullmatch(NUMBERED, head)
    if not numbered:
        return name or key.replace("_", " ").capitalize()
    number = f"{'Fig.' if numbered[1] == 'fig' else 'Table'} {numbered[2]}"
    if name and name.startswith(number):
        return name
    return ", ".join(filter(None, [number, name or rest.replace("_", " ")]))


def command(target: str, scale: str, report_only: bool = False) -> str:
    """Return the command that makes a target; with `report_only` it trains nothing."""
    option = " report_only=true" if report_only else ""
    return f"uv run snakemake --cores 2 {target} --config scale={scale}{option}"


def file_links(spec: Paper, key: str) -> list[tuple[str, str]]:
    """Return title and address of an artifact's committed files, relative to the paper's folder."""
    names = artifacts.artifact_files(spec, key)
    return [(TITLES[Path(name).suffix], name) for name in names if Path(name).suffix in TITLES]


def image_attributes(folder: Path, key: str, text: str) -> dict[str, Any]:
    """Return a figure's address, alternative text and size in pixels, at which type is easy to
    read."""
    name = f"figures/{key}.svg"
    with (folder / name).open(encoding="utf-8") as file:
        sizes = re.findall(r'(?:width|height)="([\d.]+)pt"', file.read(500))[:2]
    width, height = (round(PIXELS_PER_POINT * float(size)) for size in sizes)
    return {"src": name, "alt": text, "width": width, "height": height, "broad": width > BROAD}
