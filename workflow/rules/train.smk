# One job per experiment and algorithm: it trains the algorithm's seeds one after the other, since starting a process costs
# seconds. Each run has its own folder, log and checkpoint; what is finished is not trained again, whatever asks for it.


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


for batch in BATCHES:

    rule:
        name:
            f"train_{batch.name}"
        input:
            [PATHS.prepared(run.config.dataset) / "meta.json" for run in batch.runs],
            [PATHS.partition(run.config, run.data) for run in batch.runs],
        output:
            [run.summary for run in batch.runs],
        log:
            f"logs/train/{batch.name}.log",
        benchmark:
            f"logs/benchmarks/train-{batch.name}.tsv"
        threads: 1
        resources:
            gpu=0 if PARAMS.device == "cpu" else 1,
        params:
            runs=batch.runs,
            snapshots=SNAPSHOTS,
            mirror=PARAMS.mirror,
            device=PARAMS.device,
            executor=PARAMS.executor,
            checkpoint_seconds=PARAMS.checkpoint_seconds,
        script:
            "../scripts/train.py"
