"""`report.tex`: all of a scale for LaTeX, of which `typeset.py` makes a PDF."""

from pathlib import Path

from fedrepro.report.documents.content import PaperContent
from fedrepro.report.documents.templating import BRACKETS, environment
from fedrepro.report.inputs import gathered
from fedrepro.report.tables._latex import escape, long_table
from fedrepro.report.verdicts import summary


def write(papers: list[PaperContent], folder: Path) -> None:
    """`<folder>/report.tex`; it takes in the figures and tables that lie below the folder."""
    templates = environment(**BRACKETS)
    templates.filters["tex"] = escape
    note = next(iter(papers[0].results.values())).note
    told = {"papers": papers, "scale": note["scale"], "note": note["scale_note"], "origin": _origin, "tally": _tally}
    told["settings"] = _settings
    text = templates.get_template("report.tex.j2").render(told)
    (folder / "report.tex").write_text(text, encoding="utf-8")


def _origin(paper: PaperContent) -> str:
    return gathered.provenance_text(paper.results.values())


def _settings(paper: PaperContent) -> str:
    """The table of what the scale changes of the paper's settings; empty where it changes none."""
    names = [name for name, found in paper.results.items() if not found.missing_reason]
    rows = [[name, path, usual or "(default)", here] for name in names for path, usual, here in paper.spec.changes(name)]
    columns, caption = ["Experiment", "Setting", "In the paper", "Here"], "What this scale changes of the settings."
    shares, label = (0.2, 0.28, 0.2, 0.2), f"tab:{paper.name}-settings"
    return long_table(columns, rows, shares, caption, label, _origin(paper)) if rows else ""


def _tally(paper: PaperContent) -> str:
    return summary.summary(paper.verdicts)
