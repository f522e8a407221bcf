# Runs -> gathered results -> figures, tables, verdicts: one job per paper, which makes anew only what has changed (upkeep.py). Then
# the pages, one LaTeX report, notebooks; MLflow beside them.

# of each paper the first figure that was run: `fedrepro notebook` writes any other
NOTEBOOKS = []
for paper, specification in SPECS.items():
    for figure, drawn in specification.figures.items():
        shown = drawn.experiments(specification.figures)
        if any(PLAN[paper][name].runs for name in shown):
            NOTEBOOKS.append(f"{REPORTS}/notebooks/{paper}_{figure}.ipynb")
            break


for paper in SPECS:

    rule:
        name:
            f"artifacts_{paper}"
        input:
            finished(paper),
        output:
            [reported(paper, file) for file in files(paper)],
            stamp=stamp(paper, upkeep.ALL),
        log:
            f"logs/{PARAMS.scale}/artifacts/{paper}.log",
        benchmark:
            f"logs/benchmarks/{PARAMS.scale}/artifacts-{paper}.tsv"
        localrule: True
        threads: 1
        params:
            paper=SPECS[paper],
            wanted={key: KNOWN[paper][key] for key in SPECS[paper].artifacts},
            folder=lambda wildcards, output: str(Path(output[0]).parent.parent),
            gathered=gathering(paper),
            stamps=lambda wildcards, output: str(Path(output.stamp).parent),
            captions=str(captions(paper)),
            code=REPORT_CODE,
        script:
            "../scripts/artifacts.py"


# a single one asks for no other runs than its own
rule artifact:
    input:
        lambda wildcards: finished(wildcards.paper, [wildcards.artifact]),
    output:
        stamp=f"{MADE}/{{paper}}/{{artifact}}-{{known}}",
    log:
        f"logs/{PARAMS.scale}/artifact/{{paper}}-{{artifact}}-{{known}}.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/artifact-{{paper}}-{{artifact}}-{{known}}.tsv"
    threads: 1
    params:
        paper=lambda wildcards: SPECS[wildcards.paper],
        wanted=lambda wildcards: {wildcards.artifact: wildcards.known},
        folder=f"{REPORTS}/{{paper}}",
        gathered=lambda wildcards: gathering(wildcards.paper, [wildcards.artifact]),
        stamps=lambda wildcards, output: str(Path(output.stamp).parent),
        code=REPORT_CODE,
    script:
        "../scripts/artifacts.py"


rule page:
    input:
        [stamp(paper, upkeep.ALL) for paper in SPECS],
        HEATMAPS,
    output:
        f"{REPORTS}/index.html",
        [f"{REPORTS}/{paper}/index.html" for paper in SPECS],
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
        partitions={
            paper: drawings.shown(group, PATHS, Path(REPORTS, paper))
            for paper, group in PLAN.items()
        },
        whole=[
            paper
            for paper, group in PLAN.items()
            if not any(item.waiting for item in group.values())
        ],
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


rule crate:
    input:
        f"{REPORTS}/index.html",
    output:
        f"results/crate-{PARAMS.scale}.zip",
    log:
        f"logs/{PARAMS.scale}/crate.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/crate.tsv"
    threads: 1
    params:
        papers=SPECS,
        gathered={paper: gathering(paper) for paper in SPECS},
        reports=lambda wildcards, input: str(Path(input[0]).parent),
        code=REPORT_CODE,
    script:
        "../scripts/crate.py"


rule notebook:
    input:
        lambda wildcards: stamp(wildcards.paper, upkeep.ALL),
    output:
        update(f"{REPORTS}/notebooks/{{paper}}_{{figure}}.ipynb"),  # stays where it was worked on
    log:
        f"logs/{PARAMS.scale}/notebook/{{paper}}_{{figure}}.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/notebook-{{paper}}_{{figure}}.tsv"
    threads: 1
    params:
        spec=lambda wildcards: SPECS[wildcards.paper],
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
    params:
        runs=experiments.listed(PLAN),
        uri=PARAMS.mlflow_uri,
        scale=PARAMS.scale,
    script:
        "../scripts/mirror.py"


for paper in SPECS:

    rule:
        name:
            paper
        input:
            stamp(paper, upkeep.ALL),


for name, (paper, key) in TARGETS.items():
    if not workflow.is_rule(name):

        rule:
            name:
                name
            input:
                stamp(paper, key),
