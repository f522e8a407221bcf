"""A paper's artifacts at one scale, written below `reports/<scale>/<paper>/`."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fedrepro.report.inputs import gathered
from fedrepro.report.inputs.gathered import LazyResults
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.paper import Paper, paper_data, read_curves
from fedrepro.report.statistics import Estimate, benjamini_hochberg, holm
from fedrepro.report.tables import _latex
from fedrepro.report.verdicts import latex_macros, paper_curves, summary
from fedrepro.report.verdicts.decide import Verdict, decide, shared_variances
from fedrepro.report.verdicts.rules import NO_CLAIM, NONE_LISTED
from fedrepro.report.verdicts.summary import VERDICTS

ARTIFACT_FOLDERS = {
    "figures": ("pdf", "png", "csv"),
    "tables": ("csv", "tex", "json"),
    "data": ("csv", "json"),
}  # below a paper's folder
# of a verdict's record; the last are numbers (0..1, nats or rounds), null where there is none
VERDICT_FIELDS = (
    *("claim", "source", "reported", "ours", "asked", "verdict", "why"),
    *("note", "key", "experiment", "artifact", "tolerance", "by", "registered_after_results"),
    *("mean", "half_width", "half_width_t", "interval", "seeds", "p", "p_holm", "p_bh", "reported_number", "seeds_needed"),
)
LATEX_FIELDS = ("claim", "reported", "ours", "verdict", "why")  # in the .tex
TABLE_ENDINGS = ("csv", "tex")
NUMBERS_FILE = "tables/numbers.tex"  # the claims' numbers as LaTeX commands, made with the verdicts
COLUMN_SHARES = (0.29, 0.11, 0.15, 0.1, 0.22)  # of a line: the columns of the table of verdicts


def available_artifacts(spec: Paper, found: PaperData) -> list[str]:
    """The artifacts that have something to show, the verdicts among them; this needs the notes of the results alone."""
    figures = [key for key, figure in spec.figures.items() if not figure.missing_reason(found)]
    return [*figures, *(key for key, table in spec.tables.items() if table.available_panels(found)), VERDICTS]


def artifact_files(spec: Paper, key: str) -> list[str]:
    """The files of an artifact, below the paper's folder."""
    if key in spec.figures:
        return [f"figures/{key}.{ending}" for ending in ("pdf", "png", *["csv"] * spec.figures[key].has_csv)]
    return (
        [f"tables/{key}.json", f"tables/{key}.tex", NUMBERS_FILE]
        if key == VERDICTS
        else [f"tables/{key}.{end}" for end in TABLE_ENDINGS]
    )


def result_files(spec: Paper, keys: Iterable[str] | None = None) -> list[str]:
    """The gathered results that some artifacts are made from (None: all, and the documents), below the paper's folder."""
    return [f"data/{source}.{ending}" for source in spec.sources(keys) for ending in ("csv", "json")]


def load_evidence(spec: Paper, folder: Path) -> PaperData:
    """What the artifacts in a paper's folder are made from: the gathered results in its `data`, read when they are needed."""
    return paper_data(spec, LazyResults(folder / "data"), read_curves(spec))


def write_artifacts(spec: Paper, keys: Iterable[str], folder: Path) -> None:
    """Figures, tables and verdicts from the gathered results, all below the paper's folder."""
    found = load_evidence(spec, folder)
    for key in keys:
        room: Callable = draw_figure if key in spec.figures else write_verdicts if key == VERDICTS else write_table
        room(spec, key, found, folder)


def remove_unexpected(expected: Iterable[str], folder: Path) -> None:
    """Delete the files of artifacts that are none of those `expected`, from a paper's folder."""
    wanted = {folder / name for name in expected}
    for room, endings in ARTIFACT_FOLDERS.items():
        for path in (folder / room).glob("*"):
            if path not in wanted and path.suffix[1:] in endings:
                path.unlink()


def draw_figure(spec: Paper, key: str, found: PaperData, folder: Path) -> None:
    """`figures/<key>.pdf` and `.png`, and the numbers that it shows as `.csv`."""
    from fedrepro.report.figures import _layout  # tables and verdicts need no matplotlib

    figure, out = spec.figures[key], folder / "figures"
    _layout.set_print_style()
    _layout.save(_layout.compose(figure, found), out / key)
    write_figure_csv(spec, key, found, folder)


def write_figure_csv(spec: Paper, key: str, found: PaperData, folder: Path) -> None:
    """`figures/<key>.csv`, what the figure shows."""
    if spec.figures[key].has_csv:
        _write_csv(spec.figures[key].csv_rows(found), folder / "figures" / f"{key}.csv")


def write_table(spec: Paper, key: str, found: PaperData, folder: Path) -> None:
    """`tables/<key>.csv`, plain numbers, and `.tex`, a table with caption and label."""
    table, out = spec.tables[key], folder / "tables"
    grid, results = table.build(found), [found.results[name] for name in table.experiments]
    out.mkdir(parents=True, exist_ok=True)
    _write_csv(grid.csv_rows(), out / f"{key}.csv")
    texts = (table.caption(found), table.notes(found), f"tab:{results[0].latex_name}-{key}", gathered.provenance_text(results))
    (out / f"{key}.tex").write_text(_latex.table(grid, *texts), encoding="utf-8")


def decide_all(spec: Paper, evidence: PaperData) -> list[Verdict]:
    """Return the verdicts on all of a paper's claims; none at a scale that is not compared.

    All are decided twice: what is tested at first is the family whose variances moderate each other.
    """
    claims = [key for key, claim in spec.claims.items() if evidence.results[claim.sources[0]].compare != "none"]
    shared = shared_variances([_verdict(spec, key, evidence, {}) for key in claims])
    return [_verdict(spec, key, evidence, shared) for key in claims]


def _verdict(spec: Paper, key: str, evidence: PaperData, shared: Mapping[Estimate, Estimate]) -> Verdict:
    claim = spec.claims[key]
    found, *others = [evidence.results[name] for name in claim.sources]
    measure, held = (
        claim.ref.resolved(spec.experiments).measure,
        paper_curves.sign_share(spec.experiments, claim, evidence.curves),
    )
    looked = spec.experiments[claim.experiment].seeds_at_first_look.get(found.scales[0])
    return decide(key, claim, found, measure, spec.calibrations_of(claim), others, held, looked, shared)


def write_verdicts(spec: Paper, key: str, found: PaperData, folder: Path) -> None:
    """`tables/verdicts.json` and `.tex`, which is one sentence where there are none."""
    verdicts, out = decide_all(spec, found), folder / "tables"
    records = [_record(spec, verdict, found) for verdict in verdicts]
    tests = summary.distinct_tests(records)
    family_wise, false_discovery = holm(tests), benjamini_hochberg(tests)
    for record in records:
        key_of_test = summary.test_key(record)
        record |= {"p_holm": family_wise.get(key_of_test), "p_bh": false_discovery.get(key_of_test)}
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{key}.json").write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    results = [found.results[name] for name in spec.sources([key])]
    paper, source = results[0].latex_name if results else folder.name, gathered.provenance_text(results)
    printed = [[record[name] for name in LATEX_FIELDS] for record in records]
    caption = f"Verdicts on what the paper claims: {spec.title}."
    told = ([name.capitalize() for name in LATEX_FIELDS], printed, COLUMN_SHARES, caption, f"tab:{paper}-{key}", source)
    none = NO_CLAIM if spec.claims else NONE_LISTED
    (out / f"{key}.tex").write_text(_latex.long_table(*told) if records else f"{none}\n", encoding="utf-8")
    (folder / NUMBERS_FILE).write_text(latex_macros.macros(paper, verdicts, source), encoding="utf-8")


def _record(spec: Paper, verdict: Verdict, evidence: PaperData) -> dict[str, str | float | None]:
    claim = verdict.claim
    told = paper_curves.contradiction(spec.experiments, claim, evidence.curves)
    note = "; ".join(filter(None, [told and f"by the paper's own plotted curves {told}", claim.note]))
    found = [claim.text, claim.source, verdict.reported, verdict.our_value, verdict.condition, verdict.status, verdict.why]
    beside = [
        note,
        verdict.key,
        claim.experiment,
        spec.artifact_of(claim),
        verdict.tolerance,
        summary.US if claim.own_question else summary.PAPER,
    ]
    beside.append("yes" if claim.registered_after_results else "no")
    ours = verdict.ours
    plain = verdict.plain or ours
    interval = (
        ours and ours.half_width and ("t" if ours == plain and not ours.degrees else "moderated" if plain != ours else "panels")
    )
    numbers = [ours and ours.mean, ours and ours.half_width, plain and plain.half_width, interval, ours and ours.n, verdict.p]
    numbers += [None, None]  # corrected p: when all are known
    reported = None if isinstance(claim.reported, str) else claim.reported
    return dict(zip(VERDICT_FIELDS, [*found, *beside, *numbers, reported, verdict.seeds_needed], strict=True))


def _write_csv(rows: list[list], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
