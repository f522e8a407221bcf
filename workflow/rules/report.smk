# Artifacts -> pages, one LaTeX report, notebooks; MLflow beside them.


rule page:
    input:
        [work.stamp(paper) for paper in work.papers],
        work.heatmaps,
    output:
        f"{work.reports}/index.html",
        [f"{work.reports}/{paper}/index.html" for paper in work.papers],
        f"{work.reports}/report.tex",
        f"{work.reports}/metrics.json",
        f"{work.reports}/curves.csv",
    log:
        f"logs/{work.params.scale}/page.log",
    params:
        papers=work.papers,
        partitions=work.partition_maps,
        whole=work.whole_papers,
        folder=lambda wildcards, output: str(Path(output[0]).parent),
        code=work.report_code,
    script:
        "../scripts/page.py"


rule pdf:
    input:
        f"{work.reports}/report.tex",
    output:
        f"{work.reports}/report.pdf",
    log:
        f"logs/{work.params.scale}/pdf.log",
    script:
        "../scripts/pdf.py"


rule crate:
    input:
        f"{work.reports}/index.html",
    output:
        f"results/crate-{work.params.scale}.zip",
    log:
        f"logs/{work.params.scale}/crate.log",
    params:
        papers=work.papers,
        gathered={paper: work.gathering(paper) for paper in work.papers},
        reports=lambda wildcards, input: str(Path(input[0]).parent),
        code=work.report_code,
    script:
        "../scripts/crate.py"


rule notebook:
    input:
        lambda wildcards: work.stamp(wildcards.paper),
    output:
        update(f"{work.reports}/notebooks/{{paper}}_{{figure}}.ipynb"),  # stays where it was worked on
    log:
        f"logs/{work.params.scale}/notebook/{{paper}}_{{figure}}.log",
    params:
        spec=lambda wildcards: work.papers[wildcards.paper],
        scale=work.params.scale,
        code=work.report_code,
    script:
        "../scripts/notebook.py"


rule mirror:
    input:
        [run.summary for run in work.runs],
    output:
        work.mirrored,
    log:
        f"logs/{work.params.scale}/mirror.log",
    params:
        runs=work.planned_runs,
        uri=work.params.mlflow_uri,
        scale=work.params.scale,
    script:
        "../scripts/mirror.py"
