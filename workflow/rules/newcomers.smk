# New clients after a finished run, where an experiment asks for them: the studies that are not finished are packed into jobs as
# the runs are. Each study lies in its run's folder.


for job in FOLLOWED:

    rule:
        name:
            f"newcomers_{job.name}"
        input:
            sorted({study.run.summary for study in job.work}),
            sorted(
                {
                    PATHS.prepared(study.run.config.dataset) / "meta.json"
                    for study in job.work
                }
            ),
        output:
            job.over,
        log:
            f"logs/newcomers/{job.name}.log",
        benchmark:
            f"logs/benchmarks/newcomers-{job.name}.tsv"
        threads: 1
        resources:
            gpu=0 if PARAMS.device == "cpu" else 1,
        params:
            studies=job.work,
            mirror=PARAMS.mirror,
            device=PARAMS.device,
        script:
            "../scripts/newcomers.py"


rule gather_newcomers:
    input:
        KNOWN,
        lambda wildcards: newcomers.notes(
            [STUDIED[wildcards.paper][wildcards.experiment]]
        ),
        lambda wildcards: [
            folder / "summary.json"
            for found in newcomers.folders(
                STUDIED[wildcards.paper][wildcards.experiment]
            ).values()
            for folder in found
        ],
    output:
        f"{REPORTS}/data/{{paper}}/{{experiment}}-newcomers.csv",
        f"{REPORTS}/data/{{paper}}/{{experiment}}-newcomers.json",
    log:
        f"logs/{PARAMS.scale}/gather/{{paper}}-{{experiment}}-newcomers.log",
    benchmark:
        f"logs/benchmarks/{PARAMS.scale}/gather-{{paper}}-{{experiment}}-newcomers.tsv"
    threads: 1
    params:
        note=lambda wildcards: newcomers.note(
            STUDIED[wildcards.paper][wildcards.experiment], PARAMS
        ),
        series=lambda wildcards: newcomers.folders(
            STUDIED[wildcards.paper][wildcards.experiment]
        ),
        tables=lambda wildcards: newcomers.tables(
            STUDIED[wildcards.paper][wildcards.experiment]
        ),
    script:
        "../scripts/gather.py"
