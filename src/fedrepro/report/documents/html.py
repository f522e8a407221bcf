"""The HTML pages of a scale: `reports/<scale>/index.html` over all papers, and
`reports/<scale>/<paper>/index.html` for each.

They need no server and no network. The scripts filter, unfold and draw charts (curves.py) with
Vega-Lite, which is stored once, in `reports/vega`; without scripts all but the charts is visible.
Pictures are linked, not inlined: with four papers' pictures in them, pages of megabytes would be
committed again with every change of a word. So `reports` must be copied as a whole. Pages hold no
build date, so that the same runs give the same bytes.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from fedrepro.report.documents import curves
from fedrepro.report.documents.content import PaperContent, command
from fedrepro.report.documents.findings import link_arxiv
from fedrepro.report.documents.templating import environment
from fedrepro.report.inputs import gathered
from fedrepro.report.numbers import with_minus_signs
from fedrepro.report.verdicts import summary
from fedrepro.report.verdicts.rules import NO_CLAIM, NONE_LISTED, RULES, SPREAD


def write(
    papers: Sequence[PaperContent], folder: Path, scales: Mapping[str, Collection[str]]
) -> None:
    """Write the pages of all papers into `folder`, reports/<scale>, and the curves that they
    explore.

    Args:
        scales: those whose pages are linked, each with its papers.
    """
    templates = environment(autoescape=True)
    templates.filters |= {"unbroken": with_no_break_spaces, "arxiv": link_arxiv}
    templates.globals |= {
        "rules": RULES,
        "spread": SPREAD,
        "no_claim": NO_CLAIM,
        "none_listed": NONE_LISTED,
        "version": gathered.version_text(),
        "summary": summary,
        "command": command,
    }
    rows = [
        (
            name if by == summary.PAPER else f"{paper.spec.title}: asked by us",
            f"{paper.key}/index.html?by={quote(by)}",
            counts,
        )
        for paper in papers
        for name, by, counts in paper.tallies_by_origin
    ]
    note, docs = papers[0].note, folder.parent.parent / "docs"
    shared = {
        "rows": rows,
        "scale": note["scale"],
        "note": note["scale_note"],
        "compare": note["compare"],
        "papers": papers,
    }
    shared |= {
        "scales": scales,
        "documented": [paper.key for paper in papers if (docs / f"{paper.key}.md").exists()],
    }
    page = templates.get_template("overview.html.j2").render(shared)
    (folder / "index.html").write_text(page, encoding="utf-8")
    for paper in papers:
        charts = curves.find_charts(paper)
        curves.write(paper, charts, folder / paper.key)
        own = shared | {
            "paper": paper,
            "charts": {key: [chart.settings for chart in own] for key, own in charts.items()},
            "scales": [name for name, keys in scales.items() if paper.key in keys],
        }
        page = templates.get_template("paper.html.j2").render(own)
        (folder / paper.key / "index.html").write_text(page, encoding="utf-8")


def with_no_break_spaces(text: str) -> str:
    """Prevent line breaks before a percent sign, after ±, and within short brackets; print minus
    signs."""
    pattern = r" (?=%)|(?<=±) |(?<=\(\d) |(?<=\(n) | (?=\d+\))"
    return re.sub(pattern, "\N{NO-BREAK SPACE}", with_minus_signs(text))
