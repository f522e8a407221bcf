# Runs that are not finished are packed into jobs (src/fedrepro/packing.py): starting a process costs seconds, so short runs
# share one, and a long run has its own. Each run has its own folder, log and checkpoint; what is finished needs no rule.


rule train:
    input:
        TODO,


for paper in PLAN:

    rule:
        name:
            f"train_{paper}"
        input:
            [run.summary for run in experiments.unique(PLAN[paper].values())],
            studying.notes(ASKED[paper]),


for job in TRAINED:

    rule:
        name:
            f"train_{job.name}"
        input:
            sorted(
                {PATHS.prepared(run.config.dataset) / "meta.json" for run in job.work}
            ),
            sorted({PATHS.partition(run.config, run.data) for run in job.work}),
        output:
            job.over,
        log:
            f"logs/train/{job.name}.log",
        benchmark:
            f"logs/benchmarks/train-{job.name}.tsv"
        priority: priority(f"train_{job.name}")
        threads: PARAMS.cores_per_run
        resources:
            gpu=GPU,
        params:
            runs=job.work,
            snapshots=SNAPSHOTS,
            mirror=PARAMS.mirror,
            device=PARAMS.device,
            gpus=PARAMS.gpus,
            executor=PARAMS.executor,
            checkpoint_seconds=PARAMS.checkpoint_seconds,
        script:
            "../scripts/train.py"
