# Unfinished runs and studies are packed into jobs (src/fedrepro/experiments/jobs.py): starting a process costs seconds.


def reserved_minutes(rule):
    """Return the time that a cluster reserves for a job, as a function of the attempt."""
    return lambda wildcards, attempt: work.minutes(rule, attempt)


def reserved_megabytes(rule):
    """Return the memory that a cluster reserves for a job, as a function of the attempt."""
    return lambda wildcards, attempt: work.megabytes(rule, attempt)


for job in work.train_jobs:

    rule:
        name:
            f"train_{job.name}"
        input:
            work.prepared(job.work),
            work.partitions(job.work),
        output:
            job.done_files,
        log:
            f"logs/train/{job.name}.log",
        benchmark:
            f"logs/benchmarks/train-{job.name}.tsv"
        priority: work.priority(f"train_{job.name}")
        threads: work.params.cores_per_run
        resources:
            gpu=work.gpus_per_job,
            runtime=reserved_minutes(f"train_{job.name}"),
            mem_mb=reserved_megabytes(f"train_{job.name}"),
        params:
            runs=unrecorded(job.work),
            snapshots=work.snapshots,
            options=work.training_options,
        script:
            "../scripts/train.py"


# a study's files are in its run's folder
for job in work.study_jobs:

    rule:
        name:
            job.name
        input:
            work.study_inputs(job.work),
        output:
            job.done_files,
        log:
            f"logs/studies/{job.name}.log",
        benchmark:
            f"logs/benchmarks/{job.name}.tsv"
        priority: work.priority(job.name)
        resources:
            gpu=work.gpus_per_job,
            runtime=reserved_minutes(job.name),
            mem_mb=reserved_megabytes(job.name),
        params:
            study_runs=unrecorded(job.work),
            options=work.device_options,
        script:
            "../scripts/study.py"
