"""`report.tex`: all results of a scale as a LaTeX document, from which `pdf.py` makes a PDF."""

from pathlib import Path

from fedrepro.report.documents.content import PaperContent
from fedrepro.report.documents.templating import BRACKETS, environment
from fedrepro.report.inputs import gathered
from fedrepro.report.tables._latex import escape, long_table
from fedrepro.report.verdicts import summary


def write(papers: list[PaperContent], folder: Path) -> None:
    """Write `<folder>/report.tex`, which includes the figures and tables below the folder."""
    templates = environment(options=BRACKETS)
    templates.filters["tex"] = escape
    note = next(iter(papers[0].results.values())).note
    values = {"papers": papers, "scale": note["scale"], "note": note["scale_note"]}
    functions = {"origin": _origin, "tally": _tally, "settings": _settings}
    text = templates.get_template("report.tex.j2").render(values | functions)
    (folder / "report.tex").write_text(text, encoding="utf-8")


def _origin(paper: PaperContent) -> str:
    return gathered.provenance_text(paper.results.values())


def _settings(paper: PaperContent) -> str:
    """Return the table of settings that the scale changes; empty if it changes none."""
    rows = []
    for name, results in paper.results.items():
        if not results.missing_reason:
            rows += [[name, key, usual or "(default)", here] for key, usual, here in paper.spec.scale_changes(name)]
    columns, caption = ["Experiment", "Setting", "In the paper", "Here"], "Settings of the paper that this scale changes."
    shares, label = (0.2, 0.28, 0.2, 0.2), f"tab:{paper.name}-settings"
    return long_table(columns, rows, shares, caption, label, _origin(paper)) if rows else ""


def _tally(paper: PaperContent) -> str:
    return summary.summary(paper.verdicts)
