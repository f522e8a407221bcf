"""What `dvc metrics diff` compares: verdicts, leads of the main claims, final values in the measure that is shown."""

import json
from collections.abc import Iterable
from pathlib import Path

from fedrepro.report.documents.content import PaperContent
from fedrepro.report.inputs.panel import DisplayOptions
from fedrepro.report.verdicts.summary import tally


def write_metrics(papers: Iterable[PaperContent], folder: Path) -> None:
    """Write `metrics.json` into `folder`.

    For each paper: `verdicts`, their number by status; `headline`, our mean for each main claim that was tested; and for each
    experiment the final value of each series, mean over seeds.
    """
    finals: dict = {}
    for paper in papers:
        if paper.verdicts:
            finals.setdefault(paper.key, {})["verdicts"] = tally(paper.verdicts)
        if leads := {one["key"]: one["mean"] for one in paper.verdicts if one["headline"] and one["mean"] is not None}:
            finals[paper.key]["headline"] = {key: round(float(mean), 6) for key, mean in leads.items()}
        for name, result in paper.results.items():
            measure = paper.spec.experiments.get(name, DisplayOptions()).measure
            for label in result.labels:
                if ends := [curve[-1][1] for curve in result.curves(label, measure).values()]:
                    series = finals.setdefault(paper.key, {}).setdefault(name, {})
                    series[label] = round(sum(ends) / len(ends), 6)
    (folder / "metrics.json").write_text(json.dumps(finals, indent=1, sort_keys=True) + "\n", encoding="utf-8")
