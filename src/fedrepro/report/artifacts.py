"""Writing of a paper's artifacts at one scale, below the paper's folder `reports/<scale>/<paper>/`."""

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path

from fedrepro.report.inputs import gathered
from fedrepro.report.inputs.gathered import LazyResults
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.paper import Paper, paper_data, read_curves
from fedrepro.report.reasons import ReasonKind
from fedrepro.report.statistics import holm
from fedrepro.report.tables import _latex
from fedrepro.report.verdicts import latex_macros, paper_curves, registration, summary
from fedrepro.report.verdicts.decide import Verdict, decide
from fedrepro.report.verdicts.rules import NO_CLAIM, NONE_LISTED, UNJUDGED
from fedrepro.report.verdicts.summary import VERDICTS

ARTIFACT_FOLDERS = {
    "figures": ("svg", "pdf", "png", "csv"),
    "tables": ("csv", "tex", "json"),
    "data": ("csv", "json"),
}  # below a paper's folder
# of a verdict's record; the last are numbers (0..1, nats or rounds) or null
VERDICT_FIELDS = (
    *("claim", "source", "reported", "ours", "asked", "verdict", "why"),
    *("note", "key", "experiment", "artifact", "tolerance", "by", "registered", "headline"),
    *("mean", "half_width", "seeds", "p", "p_holm", "reported_number", "seeds_needed"),
    *("unit", "panels", "panel_means", "measure", "calibrated"),
)
LATEX_FIELDS = ("claim", "reported", "ours", "verdict", "why")  # in the .tex
TABLE_ENDINGS = ("csv", "tex")
NUMBERS_FILE = "tables/numbers.tex"  # the claims' numbers as LaTeX commands, written with the verdicts
COLUMN_SHARES = (0.24, 0.09, 0.13, 0.09, 0.32)  # of the line width, for the columns of the table of verdicts


def available_artifacts(spec: Paper, evidence: PaperData) -> list[str]:
    """Return the keys of the artifacts that have results to show, and of the verdicts; reads no rows of results."""
    figures = [key for key, figure in spec.figures.items() if not figure.missing_reason(evidence)]
    tables = [key for key, table in spec.tables.items() if table.available_panels(evidence)]
    return [*figures, *tables, VERDICTS]


def artifact_files(spec: Paper, key: str) -> list[str]:
    """Return the files of an artifact, relative to the paper's folder."""
    if key in spec.figures:
        endings = [ending for ending in ARTIFACT_FOLDERS["figures"] if ending != "csv" or spec.figures[key].has_csv]
        return [f"figures/{key}.{ending}" for ending in endings]
    if key == VERDICTS:
        return [f"tables/{key}.json", f"tables/{key}.tex", NUMBERS_FILE]
    return [f"tables/{key}.{ending}" for ending in TABLE_ENDINGS]


def load_paper_data(spec: Paper, folder: Path) -> PaperData:
    """Return all data behind the artifacts in a paper's folder; gathered results are read from `data/` on first use."""
    return paper_data(spec, LazyResults(folder / "data"), read_curves(spec))


def write_artifacts(spec: Paper, keys: Iterable[str], folder: Path) -> None:
    """Write figures, tables and verdicts from the gathered results in a paper's folder."""
    evidence = load_paper_data(spec, folder)
    for key in keys:
        if key in spec.figures:
            draw_figure(spec, key, evidence, folder)
        elif key == VERDICTS:
            write_verdicts(spec, key, evidence, folder)
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
    grid, results = table.build(evidence), [evidence.results[name] for name in table.experiments]
    out.mkdir(parents=True, exist_ok=True)
    _write_csv(grid.csv_rows(), out / f"{key}.csv")
    label, source = f"tab:{results[0].latex_name}-{key}", gathered.provenance_text(results)
    text = _latex.table(grid, table.caption(evidence), table.notes(evidence), label, source)
    (out / f"{key}.tex").write_text(text, encoding="utf-8")


def decide_all(spec: Paper, evidence: PaperData) -> list[Verdict]:
    """Return the verdicts on all of a paper's claims; empty at a scale that is not compared with the paper."""
    claims = [key for key, claim in spec.claims.items() if evidence.results[claim.sources[0]].compare != "none"]
    return [_verdict(spec, key, evidence) for key in claims]


def _verdict(spec: Paper, key: str, evidence: PaperData) -> Verdict:
    claim = spec.claims[key]
    results, *others = [evidence.results[name] for name in claim.sources]
    measure = claim.ref.resolved(spec.experiments).measure
    sign_share = paper_curves.sign_share(spec.experiments, claim, evidence.curves)
    sources = {name: evidence.results[name] for name in claim.sources}
    when = registration.of_claim(key, claim, spec.experiments, sources, spec.folder)
    return decide(key, claim, results, measure, spec.calibrations_of(claim), others, sign_share, when)


def write_verdicts(spec: Paper, key: str, evidence: PaperData, folder: Path) -> None:
    """Write `tables/<key>.json` and `.tex`, and the claims' numbers as LaTeX commands."""
    verdicts, out = decide_all(spec, evidence), folder / "tables"
    records = [_record(spec, verdict, evidence) for verdict in verdicts]
    planned = [record for record in records if record["key"] in spec.headlines]
    for family in (planned, [record for record in records if record["key"] not in spec.headlines]):
        family_wise = holm(summary.distinct_tests(family))
        for record in family:
            record["p_holm"] = family_wise.get(summary.test_key(record))
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{key}.json").write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    results = [evidence.results[name] for name in spec.sources([key])]
    paper, source = results[0].latex_name if results else folder.name, gathered.provenance_text(results)
    judged, unjudged = ([one for one in records if (one["verdict"] in UNJUDGED) == left] for left in (False, True))
    text = "" if records else f"{NO_CLAIM if spec.claims else NONE_LISTED}\n"
    if judged:
        rows = [[str(record[name]) for name in LATEX_FIELDS] for record in judged]
        columns, caption = [name.capitalize() for name in LATEX_FIELDS], f"Verdicts on what the paper claims: {spec.title}."
        text = _latex.long_table(columns, rows, COLUMN_SHARES, caption, f"tab:{paper}-{key}", source)
    if unjudged:
        text += f"\nClaims without a verdict: {summary.format_counts(summary.tally(unjudged))}.\n"
    (out / f"{key}.tex").write_text(text, encoding="utf-8")
    (folder / NUMBERS_FILE).write_text(latex_macros.macros(paper, verdicts, source), encoding="utf-8")


def _record(spec: Paper, verdict: Verdict, evidence: PaperData) -> dict[str, str | float | None]:
    claim, ours = verdict.claim, verdict.ours
    contradiction = paper_curves.contradiction(spec.experiments, claim, evidence.curves)
    note = "; ".join(filter(None, [contradiction and f"by the paper's own plotted curves {contradiction}", claim.note]))
    values = [claim.text, claim.source, verdict.reported, verdict.our_value, verdict.condition, verdict.status]
    values.append(_with_panel_names(spec, verdict.why) if claim.quantity.panels > 1 else verdict.why)
    values += [note, verdict.key, claim.experiment, spec.artifact_of(claim), verdict.tolerance]
    values.append(summary.US if claim.own_question else summary.PAPER)
    values += [str(verdict.registered or ""), claim.headline or ""]
    means = [ours and ours.mean, ours and ours.half_width, ours and ours.n]
    reported = None if isinstance(claim.reported, str) else claim.reported
    numbers = [*means, verdict.p, None, reported]  # corrected p values follow from all verdicts together
    panel_means = next((reason.values["means"] for reason in verdict.reasons if reason.kind == ReasonKind.POOLED), "")
    calibrated = "; ".join(reason.values["text"] for reason in verdict.reasons if reason.kind == ReasonKind.CALIBRATED)
    others = [verdict.seeds_needed, verdict.unit.name, claim.quantity.panels, _with_panel_names(spec, panel_means)]
    others += [verdict.measure.title, calibrated]
    return dict(zip(VERDICT_FIELDS, [*values, *numbers, *others], strict=True))


def _with_panel_names(spec: Paper, text: str) -> str:
    """Return a text with the names of experiments in place of their keys, where a signed number follows."""
    names = {key: options.name for key, options in spec.experiments.items() if options.name}
    return re.sub(r"\b(\w+)(?= [+-]\d)", lambda key: names.get(key[1], key[1]), text)


def _write_csv(rows: list[list], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
