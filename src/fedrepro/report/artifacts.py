"""A paper's artifacts at one scale: every figure, table and verdict, written below `reports/<scale>/`."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path

from fedrepro.report import bars, figures, tables
from fedrepro.report.loading import load
from fedrepro.report.spec import Paper, read_curves
from fedrepro.report.verdicts import Verdict, decide


def draw_figures(spec: Paper, keys: Iterable[str], data: Path, out: Path) -> None:
    """`<out>/<figure>.pdf`, `.png` and `.txt`, the caption; of bars their numbers too, as `.csv`."""
    reported = read_curves(spec)
    figures.setup()
    for key in keys:
        figure = spec.figures[key]
        results = load(data, figure.source)
        if figure.kind == "newcomers":
            drawing, caption = bars.draw(figure, results), bars.caption(figure, results)
            bars.write(figure, results, out / f"{key}.csv")
        else:
            drawing, caption = figures.curves(figure, results, reported), figures.caption(figure, results)
        figures.save(drawing, out / key)
        (out / f"{key}.txt").write_text(caption + "\n", encoding="utf-8")


def write_tables(spec: Paper, keys: Iterable[str], data: Path, out: Path) -> None:
    """`<out>/<table>.csv` and `.tex`."""
    for key in keys:
        table = spec.tables[key]
        results = {spec.figures[name].experiment: load(data, spec.figures[name].experiment) for name in table.figures}
        remark = tables.caption(table, spec, results)
        tables.write(tables.build(table, spec, results, read_curves(spec)), out, key, remark)


def decide_all(spec: Paper, data: Path) -> list[Verdict]:
    """The verdicts on all of a paper's claims."""
    found = []
    for key, claim in spec.claims.items():
        figure = spec.figures[claim.figure]
        found.append(decide(key, claim, load(data, figure.source), figure.metric))
    return found


def write_verdicts(spec: Paper, paper: str, data: Path, out: Path) -> None:
    """`<out>/<paper>_verdicts.csv`, `.tex` and `.json`."""
    verdicts = decide_all(spec, data)
    columns = ["Claim", "Source", "Reported", "Ours", "Verdict", "Why", "Note", "Key"]
    rows = [
        [item.claim.text, item.claim.source, item.reported, item.found, item.status, item.why, item.claim.note, item.key]
        for item in verdicts
    ]
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{paper}_verdicts.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    records = [dict(zip(map(str.lower, columns), row, strict=True)) for row in rows]
    (out / f"{paper}_verdicts.json").write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    frame = tables.pd.DataFrame([row[:1] + row[2:6] for row in rows], columns=columns[:1] + columns[2:6])
    widths = "".join(rf">{{\raggedright\arraybackslash}}p{{{share}\linewidth}}" for share in (0.29, 0.11, 0.15, 0.1, 0.22))
    (out / f"{paper}_verdicts.tex").write_text(tables.latex(frame, widths), encoding="utf-8")
