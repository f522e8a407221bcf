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
