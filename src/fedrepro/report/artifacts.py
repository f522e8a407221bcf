"""Writing of a paper's artifacts at one scale, below the paper's folder
`reports/<scale>/<paper>/`."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path

from fedrepro.report.inputs import gathered
from fedrepro.report.inputs.gathered import LazyResults
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.paper import Paper, paper_data, read_curves
from fedrepro.report.tables import _latex
from fedrepro.report.verdicts import latex_macros
from fedrepro.report.verdicts.decide import make_records
from fedrepro.report.verdicts.rules import NO_CLAIM, NONE_LISTED
from fedrepro.report.verdicts.summary import VERDICT_FIELDS, VERDICTS

ARTIFACT_FOLDERS = {
    "figures": ("svg", "pdf", "png", "csv"),
    "tables": ("csv", "tex", "json"),
    "data": ("csv", "json"),
}  # below a paper's folder
# in the .tex
LATEX_FIELDS = {
    "claim": "Claim",
    "reported": "Reported",
    "ours": "Ours",
    "words": "Verdict",
    "why": "Why",
}
TABLE_ENDINGS = ("csv", "tex")
# the claims' numbers as LaTeX commands, written with the verdicts
NUMBERS_FILE = "tables/numbers.tex"
# relative widths of the columns of the table of verdicts
COLUMN_SHARES = (0.24, 0.11, 0.15, 0.14, 0.29)


def available_artifacts(spec: Paper, evidence: PaperData) -> list[str]:
    """Return the keys of the artifacts that have results to show, and of the verdicts; reads no
    rows of results."""
    shown = [key for key in (*spec.figures, *spec.tables) if not spec[key].missing_reason(evidence)]
    return [*shown, VERDICTS]


def artifact_files(spec: Paper, key: str) -> list[str]:
    """Return the files of an artifact, relative to the paper's folder."""
    if key in spec.figures:
        endings = [
            ending
            for ending in ARTIFACT_FOLDERS["figures"]
            if ending != "csv" or spec.figures[key].has_csv
        ]
        return [f"figures/{key}.{ending}" for ending in endings]
    if key == VERDICTS:
        return [f"tables/{key}.json", f"tables/{key}.tex", NUMBERS_FILE]
    return [f"tables/{key}.{ending}" for ending in TABLE_ENDINGS]


def load_paper_data(spec: Paper, folder: Path) -> PaperData:
    """Return all data behind the artifacts in a paper's folder; gathered results are read from
    `data/` on first use."""
    return paper_data(spec, LazyResults(folder / "data"), read_curves(spec))


def write_artifacts(spec: Paper, keys: Iterable[str], folder: Path) -> None:
    """Write figures, tables and verdicts from the gathered results in a paper's folder."""
    evidence = load_paper_data(spec, folder)
    for key in keys:
        if key in spec.figures:
            draw_figure(spec, key, evidence, folder)
        elif key == VERDICTS:
            write_verdicts(spec, evidence, folder)
        else:
            write_table(spec, key, evidence, folder)


def remove_unexpected(expected: Iterable[str], folder: Path) -> None:
    """Delete files of artifacts that are not `expected` from a paper's folder."""
    expected_paths = {folder / name for name in expected}
    for subfolder, endings in ARTIFACT_FOLDERS.items():
        for path in (folder / subfolder).glob("*"):
            if path not in expected_paths and path.suffix[1:] in endings:
                path.unlink()


def draw_figure(spec: Paper, key: str, evidence: PaperData, folder: Path) -> None:
    """Write `figures/<key>.svg`, `.pdf` and `.png`, and the numbers in it as `.csv`."""
    from fedrepro.report.figures import _layout  # tables and verdicts need no matplotlib

    _layout.set_print_style()
    _layout.save(_layout.compose(spec.figures[key], evidence), folder / "figures" / key)
    write_figure_csv(spec, key, evidence, folder)


def write_figure_csv(spec: Paper, key: str, evidence: PaperData, folder: Path) -> None:
    """Write `figures/<key>.csv`, the numbers in a figure."""
    if spec.figures[key].has_csv:
        _write_csv(spec.figures[key].csv_rows(evidence), folder / "figures" / f"{key}.csv")


def write_table(spec: Paper, key: str, evidence: PaperData, folder: Path) -> None:
    """Write `tables/<key>.csv`, plain numbers, and `.tex`, a table with caption and label."""
    table, out = spec.tables[key], folder / "tables"
    grid, results = (
        table.build(evidence),
        [evidence.results[name] for name in table.experiments({})],
    )
    out.mkdir(parents=True, exist_ok=True)
    _write_csv(grid.csv_rows(), out / f"{key}.csv")
    label, source = f"tab:{results[0].latex_name}-{key}", gathered.provenance_text(results)
    text = _latex.table(grid, table.caption(evidence), table.notes(evidence), label, source)
    (out / f"{key}.tex").write_text(text, encoding="utf-8")


def write_verdicts(spec: Paper, evidence: PaperData, folder: Path) -> None:
    """Write the verdicts as `tables/verdicts.json` and `.tex`, and the claims' numbers as LaTeX
    commands."""
    records, out = make_records(spec, evidence), folder / "tables"
    rows = [{name: getattr(record, name) for name in VERDICT_FIELDS} for record in records]
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{VERDICTS}.json").write_text(
        json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    results = [evidence.results[name] for name in spec.sources([VERDICTS])]
    paper, source = (
        results[0].latex_name if results else folder.name,
        gathered.provenance_text(results),
    )
    judged = [one for one in records if one.tested]
    text = "" if records else f"{NO_CLAIM if spec.claims else NONE_LISTED}\n"
    if judged:
        columns, only = (
            [*LATEX_FIELDS.values()],
            "" if results[0].compare == "full" else " Only directions are judged.",
        )
        caption = f"Verdicts on what the paper claims: {spec.title}.{only}"
        cells = [[getattr(record, name) for name in LATEX_FIELDS] for record in judged]
        text = _latex.long_table(
            columns, cells, COLUMN_SHARES, caption, f"tab:{paper}-{VERDICTS}", source
        )
    if left := len(records) - len(judged):
        text += f"\nClaims that are not tested: {left}.\n"
    (out / f"{VERDICTS}.tex").write_text(text, encoding="utf-8")
    (folder / NUMBERS_FILE).write_text(
        latex_macros.macros(paper, records, source), encoding="utf-8"
    )


def _write_csv(rows: list[list], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
