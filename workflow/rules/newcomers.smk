# New clients after a finished run, where an experiment asks for them: one job per series follows those of its seeds. Each study
# lies in its run's folder; what is finished is not followed again, whatever asks for it.


for batch in STUDIES:

    rule:
        name:
            f"newcomers_{batch.name}"
        input:
            [study.run.summary for study in batch.studies],
            [
                PATHS.prepared(study.run.config.dataset) / "meta.json"
                for study in batch.studies
            ],
        output:
            [study.note for study in batch.studies],
        log:
            f"logs/newcomers/{batch.name}.log",
        benchmark:
            f"logs/benchmarks/newcomers-{batch.name}.tsv"
        threads: 1
        resources:
            gpu=0 if PARAMS.device == "cpu" else 1,
        params:
            studies=batch.studies,
            mirror=PARAMS.mirror,
            device=PARAMS.device,
        script:
            "../scripts/newcomers.py"
