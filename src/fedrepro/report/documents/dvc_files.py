"""Two plain files for other tools (`dvc metrics diff`, `dvc plots`): final values and mean curves, in the measure that the
paper's artifacts show of each experiment."""

import csv
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import Shown


def write_plain(papers: Mapping[str, Mapping[str, Results]], shown: Mapping[str, Mapping[str, Shown]], folder: Path) -> None:
    """`metrics.json`: paper -> experiment -> series -> final value, mean over seeds; `curves.csv`: the mean value by round.
    `shown`: paper -> experiment -> how it is shown."""
    finals: dict = {}
    rows = []
    for paper, results in papers.items():
        for name, result in results.items():
            measure = shown[paper].get(name, Shown()).measure
            for label in result.labels:
                seeds = list(result.curves(label, measure).values())
                if not seeds:
                    continue
                finals.setdefault(paper, {}).setdefault(name, {})[label] = _rounded([curve[-1][1] for curve in seeds])
                values = defaultdict(list)
                for curve in seeds:
                    for round, value in curve:
                        values[round].append(value)
                rows += [
                    [paper, f"{name}: {label}", measure, round, _rounded(found)] for round, found in sorted(values.items())
                ]
    (folder / "metrics.json").write_text(json.dumps(finals, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    with (folder / "curves.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["paper", "series", "measure", "round", "value"], *rows])


def _rounded(values: list[float]) -> float:
    return round(sum(values) / len(values), 6)
