"""The documents of a scale, which gather everything: the pages, `report.tex`, and the plain files for DVC."""

from pathlib import Path

from fedrepro.report.documents import html, latex_report
from fedrepro.report.documents.content import collect
from fedrepro.report.documents.dvc_files import write_plain
from fedrepro.report.paper import Paper


def compose(specs: dict[str, Paper], folder: Path, partitions: dict[str, list[Path]]) -> None:
    """All documents of a scale, from the artifacts below `folder`; beside them metrics.json and curves.csv for DVC.
    `partitions`: paper -> heat maps, of which those are shown that are there."""
    papers = [collect(key, spec, folder / key, partitions.get(key, [])) for key, spec in specs.items()]
    html.write(papers, folder)
    latex_report.write(papers, folder)
    shown = {key: spec.experiments for key, spec in specs.items()}
    write_plain({paper.key: paper.results for paper in papers}, shown, folder)
