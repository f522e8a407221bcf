"""Write the results pages and the LaTeX report of a scale (rule page)."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.report.documents import build, findings

    params, hours = snakemake.params, {}
    if any(runs for group in params.unfinished.values() for runs in group.values()):
        from fedrepro.experiments import cost
        from fedrepro.runs.paths import Paths

        hours = cost.core_hours(params.unfinished, Paths())
    build.write_documents(params.papers, Path(params.folder), hours, params.scales)
    if params.scales:
        findings.write_findings(Path(params.folder).parent, params.all_papers, params.scales)
