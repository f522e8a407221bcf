"""`report.tex`: all results of a scale as a LaTeX document, from which `pdf.py` makes a PDF."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedrepro.report.documents.content import PaperContent
from fedrepro.report.documents.templating import BRACKETS, environment
from fedrepro.report.inputs import gathered
from fedrepro.report.tables._latex import escape, long_table
from fedrepro.report.verdicts import summary
from fedrepro.report.verdicts.rules import RULES, SPREAD


def write(papers: Sequence[PaperContent], folder: Path) -> None:
    """Write `<folder>/report.tex`, which includes the figures and tables below the folder."""
    templates = environment(options=BRACKETS)
    templates.filters["tex"] = escape
    note = papers[0].note
    values = {
        "papers": papers,
        "scale": note["scale"],
        "note": note["scale_note"],
        "compare": note["compare"],
    }
    values |= {
        "findings": _findings(papers),
        "counts": _counts(papers),
        "rules": RULES,
        "spread": SPREAD,
    }
    values |= {
        "summary": summary,
        "settings": _settings,
        "origin": lambda paper: gathered.provenance_text(paper.results.values()),
    }
    text = templates.get_template("report.tex.j2").render(values)
    (folder / "report.tex").write_text(text, encoding="utf-8")


def _findings(papers: Sequence[PaperContent]) -> str:
    """Return the table of the main claims that were tested; empty if there are none."""
    rows: list[list[str]] = []
    for one in [record for paper in papers for record in paper.main_claims if record.tested]:
        ours = f"{one.ours}, {one.panels} panels" if one.panels > 1 else one.ours
        rows.append([one.headline, one.claim, one.reported, ours, one.words])
    columns, shares = (
        ["Method", "Claim", "Reported", "Ours", "Verdict"],
        (0.1, 0.37, 0.12, 0.16, 0.15),
    )
    return (
        long_table(columns, rows, shares, "Main claims tested at this scale.", "tab:findings", "")
        if rows
        else ""
    )


def _counts(papers: Sequence[PaperContent]) -> dict[str, Any]:
    """Return the numbers of the summary and of the threats to validity."""
    tested = [record for paper in papers for record in paper.tested]
    return {
        "claims": sum(len(paper.records) for paper in papers),
        "tested": len(tested),
        "words": summary.format_counts(summary.tally(tested)),
        "registered": summary.count_registered(tested),
        "seeds": sorted(
            {record.seeds for record in tested if record.panels == 1 and record.seeds is not None}
        ),
        "data": sorted(
            {
                run["dataset"]
                for paper in papers
                for results in paper.results.values()
                for run in results.runs()
            }
        ),
        "absent": sum(len(paper.absent) for paper in papers),
    }


def _settings(paper: PaperContent) -> str:
    """Return the table of settings that the scale changes; empty if it changes none."""
    changes = {
        name: paper.spec.scale_changes(name)
        for name, results in paper.results.items()
        if not results.missing_reason
    }
    rows = [
        [name, key, usual or "(default)", here]
        for name, own in changes.items()
        for key, usual, here in own
    ]
    columns, caption = (
        ["Experiment", "Setting", "In the paper", "Here"],
        "Settings of the paper that this scale changes.",
    )
    shares, label, origin = (
        (0.2, 0.28, 0.2, 0.2),
        f"tab:{paper.name}-settings",
        gathered.provenance_text(paper.results.values()),
    )
    return long_table(columns, rows, shares, caption, label, origin) if rows else ""
