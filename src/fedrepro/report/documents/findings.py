"""The first page of the results: what was found of each method, over all papers and scales."""

import csv
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from fedrepro.report.documents.templating import environment
from fedrepro.report.numbers import with_minus_signs
from fedrepro.report.statistics import grouped
from fedrepro.report.verdicts.summary import Record, count_registered, read_verdicts


@dataclass(frozen=True)
class Ground:
    """What the claims of a table say of a paper's question: the series by verdict, the largest difference first."""

    question: str
    name: str
    scale: str
    address: str  # of the table
    is_tuned: bool  # whether the answers depend on values that were chosen by trials
    findings: dict[str, list[tuple[str, Record]]]  # verdict -> series and their claims


def collect_records(reports: Path, papers: Iterable[str], scales: Sequence[str]) -> list[Record]:
    """Read the verdicts of all papers, each at all scales."""
    return [one for paper in papers for scale in scales for one in read_verdicts(reports / scale / paper)]


def main_claims(records: Iterable[Record]) -> list[Record]:
    """Return the claims of the abstracts: each at the scales that test it, or at the last one if none does."""
    groups = grouped(((one.paper, one.key), one) for one in records if one.headline).values()
    return [one for group in groups for one in [claim for claim in group if claim.tested] or group[-1:]]


def answer_questions(records: Iterable[Record], papers: Mapping[str, Any], scales: Sequence[str]) -> list[Ground]:
    """Return the answers to the papers' questions, for each scale and table with tested claims."""
    asked = {paper: spec for paper, spec in papers.items() if spec.question}
    tested = [one for one in records if one.tested and one.paper in asked]
    groups = grouped(((scales.index(one.scale), one.paper, asked[one.paper].claims[one.key].artifact), one) for one in tested)
    grounds = []
    for (place, paper, table), found in sorted(groups.items(), key=lambda item: item[0][0]):
        spec = papers[paper]
        found.sort(key=lambda record: -(record.mean or 0))
        series = [(spec.claims[record.key].quantity.series, record) for record in found]
        by_verdict = grouped((pair[1].verdict, pair) for pair in series)
        name, address = spec.tables[table].name or table, f"{scales[place]}/{paper}/index.html#{table}"
        grounds.append(Ground(spec.question, name, scales[place], address, spec.is_tuned, by_verdict))
    return grounds


def best_ranks(reports: Path, papers: Mapping[str, Any], scales: Iterable[str]) -> list[str]:
    """Return a sentence for each scale and paper with a question: the three best series and the baseline of its first table of
    ranks with results."""
    sentences = []
    for scale, (paper, spec) in itertools.product(scales, papers.items()):
        ranks = {key: table for key, table in spec.tables.items() if table.kind == "ranks"} if spec.question else {}
        files = {reports / scale / paper / "tables" / f"{key}.csv": table for key, table in ranks.items()}
        for path, table in [found for found in files.items() if found[0].exists()][:1]:
            with path.open(encoding="utf-8", newline="") as file:
                of_series = {row["series"]: float(row["mean_rank"]) for row in csv.DictReader(file)}
            shown = dict.fromkeys([*sorted(of_series, key=of_series.__getitem__)[:3], table.baseline])
            best = f"the best three of {len(of_series)} and {table.baseline}"
            listed = ", ".join(f"{series} {of_series[series]:.2f}" for series in shown)
            sentences.append(f"{table.title} Mean ranks at scale {scale}, {best}: {listed}.")
    return sentences


def link_arxiv(reference: str) -> Markup:
    """Return a reference with its arXiv number as a link."""
    return Markup(re.sub(r"arXiv:(\d+\.\d+)", r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>', str(escape(reference))))


def draw_forest(records: Sequence[Record], narrow: bool = False) -> Markup:
    """Return a forest plot of the records that are differences as an SVG element."""
    from fedrepro.report.figures import _forest  # imports matplotlib

    return Markup(_forest.draw([record for record in records if record.is_difference], narrow))


def write_findings(reports: Path, papers: Mapping[str, Any], scales: Iterable[str]) -> None:
    """Write `reports/index.html` and its forest plot, `findings.svg`.

    Args:
        reports: the folder that holds one folder for each scale.
        papers: specifications by name.
        scales: those whose numbers are compared with the papers', the largest first.
    """
    scales = [scale for scale in scales if (reports / scale).is_dir()]
    records = collect_records(reports, papers, scales)
    findings = main_claims(records)
    tested = [finding for finding in findings if finding.tested]
    (reports / "findings.svg").write_text(draw_forest(findings), encoding="utf-8")
    templates = environment(autoescape=True)
    templates.filters |= {"arxiv": link_arxiv, "minus": with_minus_signs}
    page = templates.get_template("findings.html.j2")
    text = page.render(
        grounds=answer_questions(records, papers, scales),
        ranks=best_ranks(reports, papers, scales),
        registered=count_registered(tested),
        answers=len(tested),
        findings=findings,
        scales=scales,
        papers=papers,
        documented=[paper for paper in papers if (reports.parent / "docs" / f"{paper}.md").exists()],
        scales_of={paper: list(dict.fromkeys(one.scale for one in records if one.paper == paper)) for paper in papers},
    )
    (reports / "index.html").write_text(text, encoding="utf-8")
