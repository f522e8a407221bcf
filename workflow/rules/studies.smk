# Studies of finished runs, where an experiment asks for them: one job per series looks at its seeds. Each study lies in its run's
# folder; what is finished is not made again, whatever asks for it.


for batch in STUDIES:

    rule:
        name:
            batch.name
        input:
            [path for case in batch.cases for path in studying.needs(case, PATHS)],
        output:
            [case.note for case in batch.cases],
        log:
            f"logs/studies/{batch.name}.log",
        benchmark:
            f"logs/benchmarks/{batch.name}.tsv"
        threads: 1
        resources:
            gpu=0 if PARAMS.device == "cpu" else 1,
        params:
            cases=batch.cases,
            mirror=PARAMS.mirror,
            device=PARAMS.device,
        script:
            "../scripts/study.py"


def studied(wildcards):
    return STUDIED[wildcards.paper][wildcards.experiment][wildcards.study]


rule gather_study:
    input:
        KNOWN,
        lambda wildcards: studying.notes([studied(wildcards)]),
        lambda wildcards: [
            folder / "summary.json"
            for found in studying.folders(studied(wildcards)).values()
            for folder in found
        ],
    output:
        f"{REPORTS}/data/{{paper}}/{{experiment}}-{{study}}.csv",
        f"{REPORTS}/data/{{paper}}/{{experiment}}-{{study}}.json",
    log:
        f"logs/{PARAMS.scale}/gather/{{paper}}-{{experiment}}-{{study}}.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/gather-{{paper}}-{{experiment}}-{{study}}.tsv"
    threads: 1
    params:
        note=lambda wildcards: studying.note(studied(wildcards), PARAMS),
        series=lambda wildcards: studying.folders(studied(wildcards)),
        tables=lambda wildcards: studying.tables(studied(wildcards)),
    script:
        "../scripts/gather.py"
