"""The pages: `reports/<scale>/index.html` over all papers, and one for each, `reports/<scale>/<paper>/index.html`.

They need no server and no network; the script filters and unfolds, and without it all is there too. Pictures are the files that
lie beside the page, not copies inside it: inlined, four papers' would make pages of megabytes, stored anew with every change of
a word, and the same bytes twice in a clone. So a scale's folder is passed on as a whole. No date of making stands on them: made
again from the same runs they have the same bytes.
"""

import re
from pathlib import Path
from urllib.parse import quote

from fedrepro.report.documents import page_view
from fedrepro.report.documents.content import PaperContent
from fedrepro.report.documents.templating import environment
from fedrepro.report.inputs import gathered
from fedrepro.report.settings_table import collect_settings
from fedrepro.report.verdicts.rules import NO_CLAIM, NONE_LISTED, RULES, SPREAD
from fedrepro.report.verdicts.summary import PAPER, multiple_testing_note, summary, tally


def write(papers: list[PaperContent], folder: Path) -> None:
    """Of each `Content` below `folder`, reports/<scale>."""
    views = [page_view.paper_view(paper) for paper in papers]
    note = next(iter(views[0].results.values())).note
    templates = environment(autoescape=True)
    templates.filters |= {"unbroken": with_no_break_spaces}
    words = {
        "rules": RULES,
        "spread": SPREAD,
        "no_claim": NO_CLAIM,
        "none_listed": NONE_LISTED,
        "unjudged_words": page_view.UNJUDGED,
    }
    tools = (
        tally,
        summary,
        multiple_testing_note,
        page_view.sum_tallies,
        page_view.judged_claims,
        page_view.unjudged_claims,
        page_view.command,
        collect_settings,
    )
    templates.globals |= words | {"version": gathered.version_text()} | {tool.__name__: tool for tool in tools}
    rows = [
        (name if by == PAPER else f"{paper.spec.title}: asked by us", f"{paper.key}/index.html?by={quote(by)}", counts)
        for paper in views
        for name, by, counts in paper.by
    ]
    shared = {"rows": rows, "scale": note["scale"], "note": note["scale_note"], "compare": note["compare"], "papers": views}
    page = templates.get_template("overview.html.j2").render(shared)
    (folder / "index.html").write_text(page, encoding="utf-8")
    for paper in views:
        page = templates.get_template("paper.html.j2").render(shared | {"paper": paper})
        (folder / paper.key / "index.html").write_text(page, encoding="utf-8")


def with_no_break_spaces(text: str) -> str:
    """With no line break before a percent sign, after ±, or within short brackets."""
    return re.sub(r" (?=%)|(?<=±) |(?<=\(\d) |(?<=\(n) | (?=\d+\))", "\N{NO-BREAK SPACE}", text)
