"""The first page of the results: what was found of each method, over all papers and scales."""

import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from fedrepro.report.documents.templating import environment
from fedrepro.report.numbers import with_minus_signs
from fedrepro.report.statistics import grouped
from fedrepro.report.verdicts.rules import FOR, Status
from fedrepro.report.verdicts.summary import (
    PAPER,
    SAMPLE_COLUMNS,
    Record,
    read_verdicts,
    sample_rows,
)


@dataclass(frozen=True)
class Ground:
    """What the claims of a table say of a paper's question: the series by verdict, the largest
    difference first."""

    question: str
    name: str
    scale: str
    address: str  # of the table
    is_tuned: bool  # whether the answers depend on values that were chosen by trials
    findings: dict[str, list[tuple[str, Record]]]  # verdict -> series and their claims


@dataclass(frozen=True)
class Row:
    """What is known of a headline: its record, and the tested claims by place, of which the first
    that has any answers it."""

    headline: Record  # at the scale of its protocol
    sentence: str  # of the abstract
    places: Mapping[str, list[Record]]  # place -> tested claims: `REGISTERED`, the scales, `ARENA`
    differ: str = ""  # why two places answer differently

    @property
    def answer(self) -> Record | None:
        """The first tested claim of the paper; None if there is none."""
        return next(
            (one for place, found in self.places.items() if place != ARENA for one in found), None
        )

    @property
    def answered_by(self) -> str:
        """The answering claim, if it is not the headline: it may be of other data and has a
        reported number of its own."""
        answer = self.answer
        return (
            f"Answered so far by: {answer.claim}"
            if answer and answer.claim != self.headline.claim
            else ""
        )

    @property
    def is_registered(self) -> bool:
        return bool(self.places[REGISTERED])

    @property
    def size_note(self) -> str:
        """What an answer for the direction leaves out: that our interval excludes the size."""
        one = self.answer
        if one is None or one.reported_number is None:
            return ""
        supported = one.verdict == Status.SUPPORTED
        leans = self.is_registered and one.lean == FOR
        inside = abs((one.mean or 0.0) - one.reported_number) <= (one.half_width or 0.0)
        if inside or not (supported or leans):
            return ""
        return f"{'the direction; ' * supported}the interval excludes the reported number"


REGISTERED, ARENA = "registered", "arena"  # places


def answer_headlines(
    records: Iterable[Record], papers: Mapping[str, Any], scales: Sequence[str]
) -> list[Row]:
    """Return a row for each headline of each paper, in their order. `scales`: the papers' own
    first."""
    known = {(one.paper, one.key, one.scale): one for one in records}

    def tested(paper: str, keys: Iterable[str], scale: str) -> list[Record]:
        found = (known.get((paper, key, scale)) for key in keys)
        return [one for one in found if one and one.tested and one.mean is not None]

    rows = []
    for paper, spec in papers.items():
        for key in spec.headlines:
            here = [known[paper, key, scale] for scale in scales if (paper, key, scale) in known]
            if not here:
                continue
            other, own = spec.elsewhere.get(key), [one for one in here if one.tested]
            places = {REGISTERED: own} | {
                scale: tested(paper, other.claims, scale) if other else [] for scale in scales
            }
            places[ARENA] = [
                one
                for scale in scales
                for one in (tested(ARENA, other.arena, scale) if other else [])
            ]
            differ = other.differ if other else ""
            rows.append(Row((own or here)[-1], spec.protocols[key].sentence, places, differ))
    return rows


def coverage(records: Sequence[Record], scales: Sequence[str]) -> str:
    """Return a sentence on how many of the papers' claims were tested at each scale."""
    published = [one for one in records if one.by == PAPER]
    claims = {(one.paper, one.key) for one in published}
    tested = {scale: sum(one.tested for one in published if one.scale == scale) for scale in scales}
    decided = {
        scale: sum(one.decided for one in published if one.scale == scale) for scale in scales
    }
    where = {
        scale: "their own settings" if scale == scales[0] else f"scale {scale}, by direction alone"
        for scale in scales
    }
    parts = [f"{tested[scale]} at {where[scale]} ({decided[scale]} decided)" for scale in scales]
    return (
        f"Of the {len(claims)} numbers and directions that the papers report, we tested "
        f"{' and '.join(parts)}."
    )


def count_answers(rows: Sequence[Row]) -> str:
    """Return a sentence on how many headlines have each answer."""
    counts = Counter((row.answer or row.headline).words for row in rows)
    return (
        f"Answers to the {len(rows)} claims below: "
        f"{'; '.join(f'{number} {words}' for words, number in counts.most_common())}."
    )


def cell(records: Sequence[Record]) -> str:
    """Return e.g. "+6.16 ± 3.75 points, open, leans for (`fig5_c10`)" of each record, "-" of none;
    of a claim other than the headline with the number that it reports."""
    other = {
        one.key: f", reported {one.reported}"
        for one in records
        if not one.headline and one.reported_number is not None
    }
    texts = [
        f"{one.interval}, {one.words} (`{one.artifact}`{other.get(one.key, '')})" for one in records
    ]
    return "; ".join(texts) or "-"


def readme_table(rows: Sequence[Row], scales: Sequence[str]) -> str:
    """Return the table of the README: a row for each headline."""
    full, *others = scales
    head = [
        "method",
        "claim",
        "paper",
        "at its settings",
        *(f"at `{scale}`" for scale in others),
        "arena",
        "answer",
    ]
    lines = [head, ["---"] * 2 + ["---:"] * (len(head) - 3) + ["---"]]
    for row in rows:
        one, answer = row.headline, row.answer
        reduced = [cell(row.places[REGISTERED] or row.places[scale]) for scale in others]
        word = answer.words if answer else "not tested"
        word = f"**{word}**" if row.is_registered or not answer else f"{word} (earlier runs)"
        word = f"{word}: {row.size_note}" if row.size_note else word
        method = f"[{one.headline}](docs/{one.paper}.md)"
        claim = "<br>".join(filter(None, [one.claim, row.answered_by, row.differ]))
        lines.append(
            [
                method,
                claim,
                one.reported,
                cell(row.places[full]),
                *reduced,
                cell(row.places[ARENA]),
                word,
            ]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def collect_records(reports: Path, papers: Iterable[str], scales: Sequence[str]) -> list[Record]:
    """Read the verdicts of all papers, each at all scales."""
    return [
        one
        for paper in papers
        for scale in scales
        for one in read_verdicts(reports / scale / paper)
    ]


def answer_questions(
    records: Iterable[Record], papers: Mapping[str, Any], scales: Sequence[str]
) -> list[Ground]:
    """Return the answers to the papers' questions, for each scale and table with tested claims."""
    asked = {paper: spec for paper, spec in papers.items() if spec.question}
    tested = [one for one in records if one.tested and one.paper in asked]
    groups = grouped(
        ((scales.index(one.scale), one.paper, asked[one.paper].claims[one.key].artifact), one)
        for one in tested
    )
    grounds = []
    for (place, paper, table), found in sorted(groups.items(), key=lambda item: item[0][0]):
        spec = papers[paper]
        found.sort(key=lambda record: -(record.mean or 0))
        series = [(spec.claims[record.key].quantity.series, record) for record in found]
        by_verdict = grouped((pair[1].verdict, pair) for pair in series)
        name, address = (
            spec.tables[table].name or table,
            f"{scales[place]}/{paper}/index.html#{table}",
        )
        grounds.append(
            Ground(spec.question, name, scales[place], address, spec.is_tuned, by_verdict)
        )
    return grounds


def best_ranks(reports: Path, papers: Mapping[str, Any], scales: Iterable[str]) -> list[str]:
    """Return a sentence for each scale and paper with a question: the three best series and the
    baseline of its first table of ranks with results."""
    sentences = []
    for scale, (paper, spec) in itertools.product(scales, papers.items()):
        ranks = (
            {key: table for key, table in spec.tables.items() if table.kind == "ranks"}
            if spec.question
            else {}
        )
        files = {
            reports / scale / paper / "tables" / f"{key}.csv": table for key, table in ranks.items()
        }
        for path, table in [found for found in files.items() if found[0].exists()][:1]:
            with path.open(encoding="utf-8", newline="") as file:
                of_series = {row["series"]: float(row["mean_rank"]) for row in csv.DictReader(file)}
            shown = dict.fromkeys(
                [*sorted(of_series, key=of_series.__getitem__)[:3], table.baseline]
            )
            best = f"the best three of {len(of_series)} and {table.baseline}"
            listed = ", ".join(f"{series} {of_series[series]:.2f}" for series in shown)
            sentences.append(f"{table.title} Mean ranks at scale {scale}, {best}: {listed}.")
    return sentences


def link_arxiv(reference: str) -> Markup:
    """Return a reference with its arXiv number as a link."""
    return Markup(
        re.sub(
            r"arXiv:(\d+\.\d+)",
            r'<a href="https://arxiv.org/abs/\1">arXiv:\1</a>',
            str(escape(reference)),
        )
    )


def draw_forest(records: Sequence[Record]) -> Markup:
    """Return a forest plot of the records that are differences as an SVG element."""
    from fedrepro.report.figures import _forest  # imports matplotlib

    return Markup(_forest.draw([record for record in records if record.is_difference]))


def write_findings(reports: Path, papers: Mapping[str, Any], scales: Iterable[str]) -> None:
    """Write `reports/index.html`, its forest plot `findings.svg`, and `claims.csv`, the values
    behind all claims by seed.

    Args:
        reports: the folder that holds one folder for each scale.
        papers: specifications by name.
        scales: those whose numbers are compared with the papers', the largest first.
    """
    scales = [scale for scale in scales if (reports / scale).is_dir()]
    records = collect_records(reports, papers, scales)
    rows = answer_headlines(records, papers, scales)
    shown = [row.answer or row.headline for row in rows]
    (reports / "findings.svg").write_text(draw_forest(shown), encoding="utf-8")
    with (reports / "claims.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, SAMPLE_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sample_rows(records))
    templates = environment(autoescape=True)
    templates.filters |= {"arxiv": link_arxiv, "minus": with_minus_signs}
    page = templates.get_template("findings.html.j2")
    text = page.render(
        grounds=answer_questions(records, papers, scales),
        ranks=best_ranks(reports, papers, scales),
        coverage=coverage(records, scales),
        rows=rows,
        scales=scales,
        papers=papers,
        documented=[
            paper for paper in papers if (reports.parent / "docs" / f"{paper}.md").exists()
        ],
        scales_of={
            paper: list(dict.fromkeys(one.scale for one in records if one.paper == paper))
            for paper in papers
        },
    )
    (reports / "index.html").write_text(text, encoding="utf-8")
