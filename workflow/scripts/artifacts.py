"""Gather results and write the figures, tables and verdicts of a paper, and metrics for DVC (rules
artifacts_<paper>)."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.report import artifacts
    from fedrepro.report.documents import build
    from fedrepro.report.documents.content import PaperContent
    from fedrepro.runs.gather import gather

    params, folder = snakemake.params, Path(snakemake.params.folder)
    for sources in params.gathered:
        gather(sources, folder / "data")
    artifacts.write_artifacts(params.paper, params.made, folder)
    if params.whole:
        artifacts.remove_unexpected(
            [Path(file).relative_to(folder).as_posix() for file in snakemake.output], folder
        )
        build.write_metrics([PaperContent(folder.name, params.paper, folder)], folder / "data")
