"""The HTML pages of a scale: `reports/<scale>/index.html` over all papers, and `reports/<scale>/<paper>/index.html` for each.

They need no server and no network. The scripts filter, unfold and draw charts (curves.py) with Vega-Lite, which is stored once,
in `reports/vega`; without scripts all but the charts is visible. Pictures are linked, not inlined: with four papers' pictures
in them, pages of megabytes would be committed again with every change of a word. So `reports` must be copied as a whole. Pages
hold no build date, so that the same runs give the same bytes.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from fedrepro.report.documents import curves, page_view
from fedrepro.report.documents.content import PaperContent
from fedrepro.report.documents.entries import command
from fedrepro.report.documents.findings import Finding, link_arxiv, plain_word
from fedrepro.report.documents.templating import environment
from fedrepro.report.inputs import gathered
from fedrepro.report.numbers import with_minus_signs
from fedrepro.report.settings_table import collect_settings
from fedrepro.report.verdicts.rules import NO_CLAIM, NONE_LISTED, RULES, SPREAD, UNJUDGED
from fedrepro.report.verdicts.summary import LEVEL, PAPER, multiple_testing_note, summary, tally


def write(papers: list[PaperContent], folder: Path, scales: Mapping[str, Collection[str]] | None = None) -> None:
    """Write the pages of all papers into `folder`, reports/<scale>, and the curves that they explore.

    Args:
        scales: those whose pages are linked, each with its papers.
    """
    scales = scales or {}
    views = [page_view.paper_view(paper) for paper in papers]
    note = next(iter(views[0].results.values())).note
    templates = environment(autoescape=True)
    templates.filters |= {"unbroken": with_no_break_spaces, "arxiv": link_arxiv}
    templates.globals |= {
        "rules": RULES,
        "spread": SPREAD,
        "level": LEVEL,
        "no_claim": NO_CLAIM,
        "none_listed": NONE_LISTED,
        "unjudged_statuses": UNJUDGED,
        "version": gathered.version_text(),
    }
    functions = (
        tally,
        plain_word,
        page_view.count_words,
        summary,
        multiple_testing_note,
        page_view.sum_tallies,
        page_view.judged_claims,
        page_view.unjudged_claims,
        command,
        collect_settings,
    )
    templates.globals |= {function.__name__: function for function in functions}
    rows = [
        (name if by == PAPER else f"{paper.spec.title}: asked by us", f"{paper.key}/index.html?by={quote(by)}", counts)
        for paper in views
        for name, by, counts in paper.tallies_by_origin
    ]
    shared = {"rows": rows, "scale": note["scale"], "note": note["scale_note"], "compare": note["compare"], "papers": views}
    docs = folder.parent.parent / "docs"
    documented = [paper.key for paper in views if (docs / f"{paper.key}.md").exists()]
    shared |= {"scales": scales, "documented": documented}
    page = templates.get_template("overview.html.j2").render(shared)
    (folder / "index.html").write_text(page, encoding="utf-8")
    for content, paper in zip(papers, views, strict=True):
        curves.write(content, folder / paper.key)
        main = [finding for finding in paper.main_findings if finding.is_difference]
        rest = paper.differences if any(not finding.record["headline"] for finding in paper.differences) else []
        forests = {"main_forest": _draw_forest(main, narrow=True), "forest": _draw_forest(rest)}
        own = shared | {"paper": paper, "charts": curves.charts(content)} | forests
        own["scales"] = [name for name, keys in scales.items() if paper.key in keys]
        page = templates.get_template("paper.html.j2").render(own)
        (folder / paper.key / "index.html").write_text(page, encoding="utf-8")


def _draw_forest(findings: list[Finding], narrow: bool = False) -> Markup:
    """Return a forest plot as an SVG element; empty without findings."""
    from fedrepro.report.figures import _forest  # imports matplotlib

    return Markup(_forest.draw(findings, narrow) if findings else "")


def with_no_break_spaces(text: str) -> str:
    """Prevent line breaks before a percent sign, after ±, and within short brackets; print minus signs."""
    pattern = r" (?=%)|(?<=±) |(?<=\(\d) |(?<=\(n) | (?=\d+\))"
    return re.sub(pattern, "\N{NO-BREAK SPACE}", with_minus_signs(text))
