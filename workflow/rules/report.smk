# Results gathered per experiment -> figures, tables, verdicts -> one page, one LaTeX report, one notebook; MLflow beside them.

NOTEBOOKS = expand(
    f"{REPORTS}/notebooks/{{name}}.ipynb",
    name=glob_wildcards("workflow/notebooks/{name}.ipynb").name,
)


rule gather:
    input:
        KNOWN,
        lambda wildcards: [
            run.summary for run in PLAN[wildcards.paper][wildcards.experiment].runs
        ],
    output:
        f"{REPORTS}/data/{{paper}}/{{experiment}}.csv",
        f"{REPORTS}/data/{{paper}}/{{experiment}}.json",
    log:
        f"logs/{PARAMS.scale}/gather/{{paper}}-{{experiment}}.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/gather-{{paper}}-{{experiment}}.tsv"
    threads: 1
    params:
        note=lambda wildcards: experiments.note(
            PLAN[wildcards.paper][wildcards.experiment], PARAMS
        ),
        series=lambda wildcards: experiments.folders(
            PLAN[wildcards.paper][wildcards.experiment]
        ),
    script:
        "../scripts/gather.py"


rule figure:
    input:
        lambda wildcards: gathered(OWNER[wildcards.figure], [wildcards.figure]),
    output:
        f"{REPORTS}/figures/{{figure}}.pdf",
        f"{REPORTS}/figures/{{figure}}.png",
        f"{REPORTS}/figures/{{figure}}.txt",
    log:
        f"logs/{PARAMS.scale}/figure/{{figure}}.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/figure-{{figure}}.tsv"
    threads: 1
    params:
        paper=lambda wildcards: SPECS[OWNER[wildcards.figure]],
        told=lambda wildcards: told(OWNER[wildcards.figure], [wildcards.figure]),
        key=lambda wildcards: wildcards.figure,
        data=lambda wildcards: f"{REPORTS}/data/{OWNER[wildcards.figure]}",
        code=REPORT_CODE,
    script:
        "../scripts/figure.py"


rule table:
    input:
        lambda wildcards: gathered(
            OWNER[wildcards.table],
            SPECS[OWNER[wildcards.table]].tables[wildcards.table].figures,
        ),
    output:
        f"{REPORTS}/tables/{{table}}.csv",
        f"{REPORTS}/tables/{{table}}.tex",
    log:
        f"logs/{PARAMS.scale}/table/{{table}}.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/table-{{table}}.tsv"
    threads: 1
    params:
        paper=lambda wildcards: SPECS[OWNER[wildcards.table]],
        told=lambda wildcards: told(OWNER[wildcards.table], [wildcards.table]),
        key=lambda wildcards: wildcards.table,
        data=lambda wildcards: f"{REPORTS}/data/{OWNER[wildcards.table]}",
        code=REPORT_CODE,
    script:
        "../scripts/table.py"


rule verdicts:
    input:
        lambda wildcards: gathered(wildcards.paper, SPECS[wildcards.paper].figures),
    output:
        f"{REPORTS}/tables/{{paper}}_verdicts.csv",
        f"{REPORTS}/tables/{{paper}}_verdicts.json",
        f"{REPORTS}/tables/{{paper}}_verdicts.tex",
    log:
        f"logs/{PARAMS.scale}/verdicts/{{paper}}.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/verdicts-{{paper}}.tsv"
    threads: 1
    params:
        paper=lambda wildcards: SPECS[wildcards.paper],
        told=lambda wildcards: told(wildcards.paper),
        data=lambda wildcards: f"{REPORTS}/data/{wildcards.paper}",
        code=REPORT_CODE,
    script:
        "../scripts/verdicts.py"


for paper in SPECS:

    rule:
        name:
            paper
        input:
            files([key for key, owner in OWNER.items() if owner == paper]),
            verdicts(paper),


for key in OWNER:

    rule:
        name:
            key
        input:
            files([key]),


rule page:
    input:
        files(OWNER),
        [verdicts(paper) for paper in SPECS],
        []
        if PARAMS.only_finished
        else [
            path.with_suffix(".png")
            for drawing in DRAWINGS
            for path in drawing.configs
        ],
    output:
        f"{REPORTS}/index.html",
        f"{REPORTS}/report.tex",
        f"{REPORTS}/metrics.json",
        f"{REPORTS}/curves.csv",
    log:
        f"logs/{PARAMS.scale}/page.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/page.tsv"
    threads: 1
    params:
        papers=SPECS,
        partitions=experiments.partition_files(PLAN, PATHS),
        folder=lambda wildcards, output: str(Path(output[0]).parent),
        code=REPORT_CODE,
    script:
        "../scripts/page.py"


rule pdf:
    input:
        f"{REPORTS}/report.tex",
    output:
        f"{REPORTS}/report.pdf",
    log:
        f"logs/{PARAMS.scale}/pdf.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/pdf.tsv"
    threads: 1
    script:
        "../scripts/pdf.py"


rule notebook:
    input:
        [path for paper in SPECS for path in gathered(paper, SPECS[paper].figures)],
        notebook="workflow/notebooks/{name}.ipynb",
    output:
        f"{REPORTS}/notebooks/{{name}}.ipynb",
    log:
        f"logs/{PARAMS.scale}/notebook/{{name}}.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/notebook-{{name}}.tsv"
    threads: 1
    params:
        scale=PARAMS.scale,
        code=REPORT_CODE,
    script:
        "../scripts/notebook.py"


rule mirror:
    input:
        [run.summary for run in RUNS],
    output:
        MIRRORED,
    log:
        f"logs/{PARAMS.scale}/mirror.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/mirror.tsv"
    threads: 1
    resources:
        mlflow=1,
    params:
        runs=experiments.listed(PLAN),
        uri=PARAMS.mlflow_uri,
        scale=PARAMS.scale,
    script:
        "../scripts/mirror.py"
