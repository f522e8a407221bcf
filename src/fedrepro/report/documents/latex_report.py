"""`report.tex`: all results of a scale as a LaTeX document, from which `pdf.py` makes a PDF."""

from collections import Counter
from pathlib import Path
from typing import Any

from fedrepro.report.documents.content import PaperContent
from fedrepro.report.documents.findings import TESTED, WORDS, Finding
from fedrepro.report.documents.templating import BRACKETS, environment
from fedrepro.report.inputs import gathered
from fedrepro.report.tables._latex import escape, long_table
from fedrepro.report.verdicts import summary
from fedrepro.report.verdicts.rules import RULES, SPREAD


def write(papers: list[PaperContent], folder: Path) -> None:
    """Write `<folder>/report.tex`, which includes the figures and tables below the folder."""
    templates = environment(options=BRACKETS)
    templates.filters["tex"] = escape
    note = next(iter(papers[0].results.values())).note
    values = {"papers": papers, "scale": note["scale"], "note": note["scale_note"], "compare": note["compare"]}
    values |= {"findings": _findings(papers), "counts": _counts(papers), "rules": RULES, "spread": SPREAD}
    functions = {"origin": _origin, "settings": _settings, "tally": summary.summary, "is_judged": _is_judged}
    functions["multiple_testing_note"] = summary.multiple_testing_note
    text = templates.get_template("report.tex.j2").render(values | functions)
    (folder / "report.tex").write_text(text, encoding="utf-8")


def _findings(papers: list[PaperContent]) -> str:
    """Return the table of the main claims that were tested; empty if there are none."""
    verdicts = [Finding(paper.key, paper.scale, record) for paper in papers for record in paper.verdicts]
    rows: list[list[str]] = []
    for finding in verdicts:
        record = finding.record
        if record["headline"] and finding.tested:
            panels = f", {record['panels']} panels" if record["panels"] > 1 else ""
            values = [record["reported"], f"{record['ours']}{panels}", f"{finding.word} ({record['verdict']})"]
            rows.append([record["headline"], record["claim"], *values])
    columns, shares = ["Method", "Claim", "Reported", "Ours", "Verdict"], (0.1, 0.37, 0.12, 0.16, 0.15)
    return long_table(columns, rows, shares, "Main claims tested at this scale.", "tab:findings", "") if rows else ""


def _counts(papers: list[PaperContent]) -> dict[str, Any]:
    """Return the numbers of the summary and of the threats to validity."""
    records = [record for paper in papers for record in paper.verdicts]
    tested = [Finding("", "", record) for record in records if record["verdict"] in TESTED]
    runs = [run for paper in papers for results in paper.results.values() for run in results.runs()]
    words = Counter(WORDS[finding.answer] for finding in tested)
    return {
        "claims": len(records),
        "tested": len(tested),
        "words": ", ".join(f"{words[word]} {word}" for word in WORDS.values()),
        "registered": summary.count_registered(finding.record for finding in tested),
        "seeds": sorted({finding.record["seeds"] for finding in tested if finding.record["panels"] == 1} - {None}),
        "data": sorted({run["dataset"] for run in runs}),
        "absent": sum(len(paper.not_shown) for paper in papers),
    }


def _is_judged(paper: PaperContent) -> bool:
    return any(record["verdict"] in TESTED for record in paper.verdicts)


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
