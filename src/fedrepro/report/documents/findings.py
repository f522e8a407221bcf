"""The first page of the results: what was found of each method, over all papers and scales."""

import csv
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from fedrepro.report.documents.templating import environment
from fedrepro.report.numbers import POINTS, with_minus_signs
from fedrepro.report.verdicts import summary
from fedrepro.report.verdicts.rules import Status

WORDS = {"yes": "supported", "no": "contradicted", "not shown": "open"}  # the same of a claim
ANSWERS = {  # plain words for verdicts: of a claim that a method is better, whether it is
    "yes": (Status.REPRODUCED, Status.PARTLY, Status.AGREES, Status.HOLDS),
    "no": (Status.NOT, Status.DISAGREES, Status.FAILS),
    "not shown": (Status.UNDECIDED, Status.CALIBRATED),
}
ANSWER_OF = {status: word for word, statuses in ANSWERS.items() for status in statuses}
TESTED = set(ANSWER_OF)


@dataclass(frozen=True)
class Finding:
    """A claim at one scale."""

    paper: str
    scale: str
    record: Mapping[str, Any]  # of verdicts.json

    @property
    def tested(self) -> bool:
        return self.record["verdict"] in TESTED

    @property
    def answer(self) -> str:
        return ANSWER_OF[self.record["verdict"]] if self.tested else str(self.record["verdict"])

    @property
    def difference(self) -> str:
        """Our mean with its interval as printed, without the number of seeds; a difference of accuracies without its unit."""
        return str(self.record["ours"]).partition(" (n = ")[0].removesuffix(f" {POINTS.name}")

    @property
    def word(self) -> str:
        """The plain word; at a scale that compares directions only, it says so."""
        direction = self.record["verdict"] in (Status.AGREES, Status.DISAGREES)
        return f"direction {WORDS[self.answer]}" if direction else plain_word(self.record["verdict"])

    @property
    def significant(self) -> bool:
        """Return whether the difference remains significant if all tests of its paper at its scale are corrected (Holm)."""
        return self.record["p_holm"] is not None and self.record["p_holm"] <= summary.LEVEL

    @property
    def remarks(self) -> list[str]:
        """What weakens or strengthens the evidence, as phrases."""
        record, remarks = self.record, []
        if record["p_holm"] is not None and self.answer != "not shown":
            tested = f"p = {record['p']:.2g}, after Holm's correction {record['p_holm']:.2g}"
            remarks.append(tested if record["p"] <= summary.LEVEL else "the 90 % interval excludes a lead that counts")
        if record.get("calibrated"):
            remarks.append(f"calibrated: {record['calibrated']}")
        if record["registered"]:
            remarks.append(record["registered"])
        return remarks

    @property
    def address(self) -> str:
        return f"{self.scale}/{self.paper}/index.html#claim-{self.record['key']}"

    @property
    def is_difference(self) -> bool:
        """Whether it is one of accuracies, which a forest plot can show beside others: our interval or, if it is not tested,
        what the paper reports."""
        shown = "half_width" if self.tested else "reported_number"
        return self.record[shown] is not None and self.record["unit"] == POINTS.name


def plain_word(status: str) -> str:
    """Return "supported", "contradicted" or "open" for a claim that was tested; else the status."""
    return WORDS[ANSWER_OF[status]] if status in ANSWER_OF else status


def collect_findings(reports: Path, papers: Iterable[str], scales: Iterable[str]) -> list[Finding]:
    """Read the headline claims of all papers: each at the scales that test it, or at the last one if none does."""
    scales, findings = list(scales), []
    for paper in papers:
        of_claim: dict[str, list[Finding]] = {}
        for scale in scales:
            for record in summary.read_verdicts(reports / scale / paper):
                if record["headline"]:
                    of_claim.setdefault(record["key"], []).append(Finding(paper, scale, record))
        for found in of_claim.values():
            findings += [finding for finding in found if finding.tested] or found[-1:]
    return findings


@dataclass(frozen=True)
class Ground:
    """What the claims of a table say of a paper's question: which series have the answer, the largest difference first."""

    question: str
    name: str
    scale: str
    address: str  # of the table
    is_tuned: bool  # whether the answers depend on values that were chosen by trials
    findings: dict[str, list[tuple[str, Finding]]]  # answer -> series and their claims


def answer_questions(reports: Path, papers: Mapping[str, Any], scales: Iterable[str]) -> list[Ground]:
    """Return the answers to the papers' questions, for each scale and table with tested claims."""
    grounds = []
    for scale, (paper, spec) in itertools.product(scales, papers.items()):
        by_table: dict[str, list[tuple[str, Finding]]] = {}
        for record in summary.read_verdicts(reports / scale / paper) if spec.question else []:
            if record["verdict"] in TESTED:
                claim = spec.claims[record["key"]]
                by_table.setdefault(claim.artifact, []).append((claim.quantity.series, Finding(paper, scale, record)))
        for table, found in by_table.items():
            found.sort(key=lambda named: -(named[1].record["mean"] or 0))
            by_answer = {answer: [(series, one) for series, one in found if one.answer == answer] for answer in ANSWERS}
            name = spec.tables[table].name or table
            address = f"{scale}/{paper}/index.html#{table}"
            grounds.append(Ground(spec.question, name, scale, address, spec.is_tuned, by_answer))
    return grounds


def best_ranks(reports: Path, papers: Mapping[str, Any], scales: Iterable[str]) -> list[str]:
    """Return a sentence for each scale and paper with a question: the best ranks of its first table of ranks with results."""
    asking = {paper: spec for paper, spec in papers.items() if spec.question}
    of_scales = itertools.product(scales, asking.items())
    return [text for scale, (paper, spec) in of_scales for text in _best_ranks(reports / scale / paper / "tables", spec, scale)]


def _best_ranks(tables: Path, spec: Any, scale: str) -> list[str]:
    """Return a sentence for the first table of ranks, if it has results: the three best series and the baseline."""
    for key, table in spec.tables.items():
        if table.kind == "ranks" and (tables / f"{key}.csv").exists():
            with (tables / f"{key}.csv").open(encoding="utf-8", newline="") as file:
                ranks = {row["series"]: float(row["mean_rank"]) for row in csv.DictReader(file)}
            shown = dict.fromkeys([*sorted(ranks, key=ranks.__getitem__)[:3], table.baseline])
            listed = ", ".join(f"{series} {ranks[series]:.2f}" for series in shown)
            return [
                f"{table.title} Mean ranks at scale {scale}, the best three of {len(ranks)} and {table.baseline}: {listed}."
            ]
    return []


def link_arxiv(reference: str) -> Markup:
    """Return a reference with its arXiv number as a link."""
    return Markup(re.sub(r"arXiv:(\d+\.\d+)", r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', str(escape(reference))))


def write_findings(reports: Path, papers: Mapping[str, Any], scales: Iterable[str]) -> None:
    """Write `reports/index.html` and its forest plot, `findings.svg`.

    Args:
        reports: the folder that holds one folder for each scale.
        papers: specifications by name.
        scales: those whose numbers are compared with the papers', the largest first.
    """
    from fedrepro.report.figures import _forest  # imports matplotlib

    scales = [scale for scale in scales if (reports / scale).is_dir()]
    findings = collect_findings(reports, papers, scales)
    tested = [finding for finding in findings if finding.tested]
    picture = _forest.draw([finding for finding in findings if finding.is_difference])
    (reports / "findings.svg").write_text(picture, encoding="utf-8")
    templates = environment(autoescape=True)
    templates.filters |= {"arxiv": link_arxiv, "minus": with_minus_signs}
    documented = [paper for paper in papers if (reports.parent / "docs" / f"{paper}.md").exists()]
    page = templates.get_template("findings.html.j2")
    text = page.render(
        grounds=answer_questions(reports, papers, scales),
        ranks=best_ranks(reports, papers, scales),
        registered=summary.count_registered(finding.record for finding in tested),
        answers=len(tested),
        findings=findings,
        scales=scales,
        papers=papers,
        documented=documented,
        scales_of={paper: [name for name in scales if summary.read_verdicts(reports / name / paper)] for paper in papers},
    )
    (reports / "index.html").write_text(text, encoding="utf-8")
