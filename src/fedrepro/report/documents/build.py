"""The documents of a scale over all papers: the pages, `report.tex`, and `metrics.json` for DVC."""

from collections.abc import Collection, Mapping
from pathlib import Path

from fedrepro.report.documents import html, latex_report
from fedrepro.report.documents.content import collect
from fedrepro.report.documents.dvc_files import write_metrics
from fedrepro.report.paper import Paper


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
    papers = [collect(key, spec, folder / key, hours.get(key, {})) for key, spec in specs.items()]
    html.write(papers, folder, scales)
    latex_report.write(papers, folder)
    write_metrics(papers, folder)
