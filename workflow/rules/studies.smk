# Studies of finished runs, where an experiment asks for them: those that are not finished are packed into jobs as the runs are.
# Each study lies in its run's folder.


for job in CONDUCTED:

    rule:
        name:
            job.name
        input:
            sorted({path for case in job.work for path in studying.needs(case, PATHS)}),
        output:
            job.over,
        log:
            f"logs/studies/{job.name}.log",
        benchmark:
            f"logs/benchmarks/{job.name}.tsv"
        threads: 1
        resources:
            gpu=0 if PARAMS.device == "cpu" else 1,
        params:
            cases=job.work,
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
