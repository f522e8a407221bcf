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
        priority: priority(job.name)
        threads: 1
        resources:
            gpu=GPU,
        params:
            cases=job.work,
            mirror=PARAMS.mirror,
            device=PARAMS.device,
            gpus=PARAMS.gpus,
        script:
            "../scripts/study.py"
