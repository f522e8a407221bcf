"""The data of a paper's page: its parts, claims and findings."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fedrepro.core.metrics import MEASURES
from fedrepro.report.documents import entries
from fedrepro.report.documents.content import PaperContent
from fedrepro.report.documents.entries import ArtifactView, command, display_name, is_numbered, nest_variants
from fedrepro.report.documents.findings import TESTED, WORDS, Finding, plain_word
from fedrepro.report.figures.panels import Composite
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts.rules import RULES, UNJUDGED
from fedrepro.report.verdicts.summary import PAPER, US, claimed_by, tally

Claim = TypeVar("Claim", bound=Mapping[str, str])  # a record of verdicts.json


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
        composites = {key: figure for key, figure in self.spec.figures.items() if isinstance(figure, Composite)}
        parents = {panel: key for key, figure in composites.items() for panel in figure.names}
        parts = []
        for address, title, views in (("the-figures", "Figures", self.figures), ("the-tables", "Tables", self.tables)):
            entries = nest_variants(views, parents)
            ours = [entry for entry in entries if not (is_numbered(entry.key) or claimed_by(entry.claims, PAPER))]
            if len(ours) == len(entries):  # where there is no paper, the first one and those with our questions are not folded
                ours = [entry for entry in entries[1:] if not entry.claims]
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
        """Plain word -> number of the paper's claims."""
        return count_words(claimed_by(self.claims, PAPER))

    @property
    def own_words(self) -> dict[str, int]:
        """Plain word -> number of our own questions."""
        return count_words(claimed_by(self.claims, US))

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
        return rows + [
            (name, f"index.html?by={by}#the-filter", counts) for name, by, counts in self.tallies_by_origin if by == US
        ]

    @property
    def tallies_by_origin(self) -> list[tuple[str, str, dict[str, int]]]:
        """Name, origin and verdicts of the paper's claims and of our own questions, if there are any."""
        names = {PAPER: self.spec.title, US: "Asked by us"}
        tallies = [(name, by, tally(claimed_by(self.claims, by))) for by, name in names.items()]
        return [origin for origin in tallies if origin[2]]

    @property
    def findings(self) -> list[Finding]:
        """The claims that were tested, those over most panels first, else in the order of the paper's file."""
        findings = [Finding(self.key, self.scale, verdict) for verdict in self.verdicts if verdict["verdict"] in TESTED]
        return sorted(findings, key=lambda finding: -finding.record["panels"])

    @property
    def main_findings(self) -> list[Finding]:
        """The claims of the abstract, tested or not."""
        return [Finding(self.key, self.scale, verdict) for verdict in self.verdicts if verdict["headline"]]

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
    claims: dict[str, list[dict[str, Any]]] = {key: [] for key in content.spec.artifacts}
    for verdict in content.verdicts:
        claims[verdict["artifact"]].append(verdict | claim_details(content, verdict))
    figures, tables, absent = entries.make_entries(content, claims)
    return PaperView(content.key, content.spec, content.results, figures, tables, absent, content.scale, content.verdicts)


def claim_details(content: PaperContent, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page shows of a claim in addition to its record: the plain word of its verdict, which value was measured,
    the experiments behind one over several, and what was run at a scale that compares directions only."""
    claim, results = content.spec.claims[verdict["key"]], content.results.get(verdict["experiment"])
    quantity = claim.scales.get(content.scale, claim.quantity)
    measure = MEASURES[claim.ref.resolved(content.spec.experiments).measure]
    details: dict[str, Any] = {"word": plain_word(verdict["verdict"]), "measured": quantity.description(measure), "ran": ""}
    names = [claim.experiment, *getattr(quantity, "also", ())]
    shown = [name for name in names if name in content.results and not content.results[name].missing_reason]
    details["panel_runs"] = [(name, display_name(content.spec, name)) for name in shown] if len(names) > 1 else []
    if results and results.note["compare"] == "direction" and verdict["verdict"] in TESTED:
        panels = [results, *(content.results[name] for name in getattr(quantity, "also", ()))]
        details["ran"] = format_sizes([each.note["training"] for each in panels])
    return details


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


def judged_claims(claims: Iterable[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim["verdict"] not in UNJUDGED]


def unjudged_claims(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims that are not compared, then those that are not run."""
    return [claim for status in UNJUDGED for claim in claims if claim["verdict"] == status]


def count_words(claims: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return plain word -> number of claims, in the order of the words."""
    counts = Counter(plain_word(claim["verdict"]) for claim in claims)
    return {word: counts[word] for word in (*WORDS.values(), *UNJUDGED) if counts[word]}


def sum_tallies(tallies: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up tallies; the statuses are in the order of the rules."""
    total = sum((Counter(counts) for counts in tallies), Counter())
    return {status: total[status] for status in RULES if total[status]}
