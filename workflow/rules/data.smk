# Raw files -> checked arrays -> partitions: which client holds which images.
from fedrepro.core import provenance


rule fetch:
    output:
        "data/raw/{dataset}/source.json",
    log:
        "logs/fetch/{dataset}.log",
    priority: DATA_PRIORITY
    params:
        source=work.source,
    script:
        "../scripts/fetch.py"


rule prepare:
    input:
        lambda wildcards: work.raw(wildcards.prepared),
    output:
        "data/prepared/{prepared}/arrays.npz",
        "data/prepared/{prepared}/meta.json",
    log:
        "logs/prepare/{prepared}.log",
    priority: DATA_PRIORITY
    params:
        dataset=lambda wildcards: work.dataset(wildcards.prepared),
    script:
        "../scripts/prepare.py"


# A partition's name hashes all that it depends on, so existing files stay; `code` redraws heat maps when their code changes.
for job in work.partition_jobs:

    rule:
        name:
            f"partition_{job.name}"
        input:
            [work.paths.prepared(dataset) / "meta.json" for dataset in job.datasets],
        output:
            [update(path.with_suffix(end)) for path in job.configs for end in (".npz", ".png")],
        log:
            f"logs/partition/{job.name}.log",
        priority: DATA_PRIORITY
        localrule: True
        params:
            configs={
                str(path): config.model_dump(mode="json") for path, config in job.configs.items()
            },
            code=provenance.heatmap_digest(),
        script:
            "../scripts/partition.py"
