"""Final values of all series for `dvc metrics diff`, in the measure in which each experiment is shown."""

import json
from collections.abc import Iterable
from pathlib import Path

from fedrepro.report.documents.content import PaperContent
from fedrepro.report.inputs.panel import DisplayOptions


def write_metrics(papers: Iterable[PaperContent], folder: Path) -> None:
    """Write `metrics.json` into `folder`: paper -> experiment -> series -> final value, mean over seeds."""
    finals: dict = {}
    for paper in papers:
        for name, result in paper.results.items():
            measure = paper.spec.experiments.get(name, DisplayOptions()).measure
            for label in result.labels:
                if ends := [curve[-1][1] for curve in result.curves(label, measure).values()]:
                    series = finals.setdefault(paper.key, {}).setdefault(name, {})
                    series[label] = round(sum(ends) / len(ends), 6)
    (folder / "metrics.json").write_text(json.dumps(finals, indent=1, sort_keys=True) + "\n", encoding="utf-8")
