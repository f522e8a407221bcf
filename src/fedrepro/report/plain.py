"""Two plain files for other tools (`dvc metrics diff`, `dvc plots`): final accuracies, and mean curves."""

import csv
import json
from collections import defaultdict
from pathlib import Path

from fedrepro.report.loading import Results


def write_plain(papers: dict[str, dict[str, Results]], folder: Path) -> None:
    """`metrics.json`: paper -> experiment -> series -> final test accuracy; `curves.csv`: the mean test accuracy by round."""
    finals: dict = {}
    rows = []
    for paper, results in papers.items():
        for name, result in results.items():
            for label in result.labels:
                seeds = list(result.curves(label, "test_accuracy").values())
                if not seeds:
                    continue
                finals.setdefault(paper, {}).setdefault(name, {})[label] = _rounded([curve[-1][1] for curve in seeds])
                values = defaultdict(list)
                for curve in seeds:
                    for round, value in curve:
                        values[round].append(value)
                rows += [[paper, f"{name}: {label}", round, _rounded(found)] for round, found in sorted(values.items())]
    (folder / "metrics.json").write_text(json.dumps(finals, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    with (folder / "curves.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["paper", "series", "round", "test_accuracy"], *rows])


def _rounded(values: list[float]) -> float:
    return round(sum(values) / len(values), 6)
