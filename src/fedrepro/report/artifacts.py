"""A paper's artifacts at one scale, written below `reports/<scale>/<paper>/`."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fedrepro.report import latex
from fedrepro.report.evidence import Evidence
from fedrepro.report.loading import Results, Stored
from fedrepro.report.spec import VERDICTS, Paper, evidence, read_curves
from fedrepro.report.verdicts import Verdict, decide

ENDINGS = {"figures": ("pdf", "png", "txt"), "tables": ("csv", "tex"), VERDICTS: ("csv", "json", "tex")}
WIDTHS = "".join(rf">{{\raggedright\arraybackslash}}p{{{share}\linewidth}}" for share in (0.29, 0.11, 0.15, 0.1, 0.22))


def files(spec: Paper, key: str) -> list[str]:
    """The files of an artifact, below the paper's folder."""
    if key in spec.figures:
        endings = [*ENDINGS["figures"], *(["csv"] if spec.figures[key].numbered else [])]
        return [f"figures/{key}.{ending}" for ending in endings]
    return [f"tables/{key}.{ending}" for ending in ENDINGS.get(key, ENDINGS["tables"])]


def data(spec: Paper, keys: Iterable[str] | None = None) -> list[str]:
    """The gathered results that some artifacts are made from (None: all, and the documents), below the paper's folder."""
    return [f"data/{source}.{ending}" for source in spec.sources(keys) for ending in ("csv", "json")]


def of(spec: Paper, folder: Path) -> Evidence:
    """What the artifacts in a paper's folder are made from: the gathered results in its `data`, read when they are needed."""
    return evidence(spec, Stored(folder / "data"), read_curves(spec))


def make(spec: Paper, keys: Iterable[str], folder: Path) -> None:
    """Figures, tables and verdicts from the gathered results, all below the paper's folder."""
    found = of(spec, folder)
    for key in keys:
        room: Callable = draw_figure if key in spec.figures else write_verdicts if key == VERDICTS else write_table
        room(spec, key, found, folder)


def draw_figure(spec: Paper, key: str, found: Evidence, folder: Path) -> None:
    """`figures/<key>.pdf`, `.png` and `.txt`, the caption; of some kinds their numbers too, as `.csv`."""
    from fedrepro.report import drawing  # tables and verdicts need no matplotlib

    figure, out = spec.figures[key], folder / "figures"
    drawing.setup()
    drawing.save(drawing.compose(figure, found), out / key)
    (out / f"{key}.txt").write_text(figure.caption(found) + "\n", encoding="utf-8")
    if figure.numbered:
        _write_csv(figure.numbers(found), out / f"{key}.csv")


def write_table(spec: Paper, key: str, found: Evidence, folder: Path) -> None:
    """`tables/<key>.csv` and `.tex`."""
    table = spec.tables[key]
    latex.write(table.build(found), folder / "tables", key, table.caption(found))


def decide_all(spec: Paper, results: Mapping[str, Results]) -> list[Verdict]:
    """The verdicts on all of a paper's claims."""
    return [
        decide(key, claim, results[claim.source_name], claim.ref.resolved(spec.experiments).measure)
        for key, claim in spec.claims.items()
    ]


def write_verdicts(spec: Paper, key: str, found: Evidence, folder: Path) -> None:
    """`tables/verdicts.csv`, `.tex` and `.json`."""
    verdicts, out = decide_all(spec, found.results), folder / "tables"
    columns = ["Claim", "Source", "Reported", "Ours", "Verdict", "Why", "Note", "Key"]
    rows = [
        [item.claim.text, item.claim.source, item.reported, item.found, item.status, item.why, item.claim.note, item.key]
        for item in verdicts
    ]
    out.mkdir(parents=True, exist_ok=True)
    _write_csv([columns, *rows], out / f"{key}.csv")
    records = [dict(zip(map(str.lower, columns), row, strict=True)) for row in rows]
    (out / f"{key}.json").write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    short = [row[:1] + row[2:6] for row in (columns, *rows)]
    (out / f"{key}.tex").write_text(latex.latex(short[0], short[1:], WIDTHS), encoding="utf-8")


def _write_csv(rows: list[list], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
