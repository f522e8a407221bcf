"""The documents of a scale over all papers: the pages, `report.tex`, and `metrics.json` for DVC."""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from fedrepro.report.documents import html, latex_report
from fedrepro.report.documents.content import PaperContent
from fedrepro.report.inputs.panel import DisplayOptions
from fedrepro.report.paper import Paper
from fedrepro.report.statistics import mean
from fedrepro.report.verdicts.summary import tally


def write_documents(
    specs: Mapping[str, Paper],
    folder: Path,
    hours: Mapping[str, Mapping[str, float]],
    scales: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Write all documents of a scale into `folder` (reports/<scale>), from the artifacts below it.

    Args:
        hours: paper -> experiment -> core hours of the runs that are not finished.
        scales: those whose pages are linked and whose curves can be compared, each with its papers.
    """
    papers = [
        PaperContent(key, spec, folder / key, hours.get(key, {})) for key, spec in specs.items()
    ]
    html.write(papers, folder, scales or {})
    latex_report.write(papers, folder)
    write_metrics(papers, folder)


def write_metrics(papers: Iterable[PaperContent], folder: Path) -> None:
    """Write `metrics.json`, what `dvc metrics diff` and `dvc exp show` compare, into `folder`.

    For each paper: `verdicts`, their number by status; `headline`, our mean for each main claim
    that was tested; and for each experiment the final value of each series in the measure that is
    shown, mean over seeds.
    """
    finals: dict = {}
    for paper in papers:
        own: dict = {"verdicts": tally(paper.records)} if paper.records else {}
        if leads := {
            one.key: round(one.mean, 6) for one in paper.main_claims if one.mean is not None
        }:
            own["headline"] = leads
        for name, result in paper.results.items():
            measure = paper.spec.experiments.get(name, DisplayOptions()).measure
            ends = {
                label: [curve[-1][1] for curve in result.curves(label, measure).values()]
                for label in result.labels
            }
            own |= (
                {name: series}
                if (
                    series := {
                        label: round(mean(found), 6) for label, found in ends.items() if found
                    }
                )
                else {}
            )
        finals |= {paper.key: own} if own else {}
    (folder / "metrics.json").write_text(
        json.dumps(finals, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
