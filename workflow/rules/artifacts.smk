# Runs -> gathered results -> figures, tables, verdicts: one job per paper, repeated when its settings, runs or code change.


for paper in work.papers:

    rule:
        name:
            f"artifacts_{paper}"
        input:
            reports.done_files(paper),
        output:
            [reported(paper, file) for file in reports.files(paper)],
        log:
            f"logs/{work.params.scale}/artifacts/{paper}.log",
        localrule: True
        params:
            paper=work.papers[paper],
            made=unrecorded(reports.artifact_keys(paper)),
            gathered=unrecorded(reports.requested_sources(paper)),
            folder=unrecorded(str(reports.folder / paper)),
            whole=unrecorded(paper not in reports.requested),
            digest=reports.digest(paper),
        script:
            "../scripts/artifacts.py"
