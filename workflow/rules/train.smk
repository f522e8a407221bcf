# Unfinished runs and studies are packed into jobs (src/fedrepro/experiments/jobs.py): starting a process costs seconds.


def reserved(amount):
    """Return what a cluster reserves for a job, a function of the attempt, as Snakemake calls it."""
    return lambda wildcards, attempt: amount(attempt)


for job in work.train_jobs:

    rule:
        name:
            f"train_{job.name}"
        input:
            work.prepared(job.items),
            work.partitions(job.items),
        output:
            job.done_files,
        log:
            f"logs/train/{job.name}.log",
        benchmark:
            f"logs/benchmarks/train-{job.name}.tsv"
        priority: int(job.seconds)
        threads: work.params.cores_per_run
        resources:
            gpu=work.limits.gpus_per_job,
            runtime=reserved(job.minutes),
            mem_mb=reserved(job.megabytes),
        params:
            runs=unrecorded(job.items),
            snapshots=unrecorded(work.snapshots),
            options=work.training_options,
        script:
            "../scripts/train.py"


# a study's files are in its run's folder
for job in work.study_jobs:

    rule:
        name:
            job.name
        input:
            work.study_inputs(job.items),
        output:
            job.done_files,
        log:
            f"logs/studies/{job.name}.log",
        benchmark:
            f"logs/benchmarks/{job.name}.tsv"
        priority: int(job.seconds)
        resources:
            gpu=work.limits.gpus_per_job,
            runtime=reserved(job.minutes),
            mem_mb=reserved(job.megabytes),
        params:
            study_runs=unrecorded(job.items),
            options=work.device_options,
        script:
            "../scripts/study.py"
