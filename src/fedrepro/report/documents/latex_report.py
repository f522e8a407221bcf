"""`report.tex`: all of a scale for LaTeX, of which `typeset.py` makes a PDF."""

from pathlib import Path

from fedrepro.report.documents.content import Content
from fedrepro.report.documents.templating import BRACKETS, environment
from fedrepro.report.inputs import gathered
from fedrepro.report.tables._latex import escape
from fedrepro.report.verdicts import summary


def write(papers: list[Content], folder: Path) -> None:
    """`<folder>/report.tex`; it takes in the figures and tables that lie below the folder."""
    templates = environment(**BRACKETS)
    templates.filters["tex"] = escape
    note = next(iter(papers[0].results.values())).note
    told = {"papers": papers, "scale": note["scale"], "note": note["scale_note"], "origin": _origin, "tally": _tally}
    text = templates.get_template("report.tex.j2").render(told)
    (folder / "report.tex").write_text(text, encoding="utf-8")


def _origin(paper: Content) -> str:
    return gathered.versions(paper.results.values())


def _tally(paper: Content) -> str:
    return summary.summary(paper.verdicts)
