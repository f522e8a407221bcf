# Raw files -> checked arrays -> who holds which images.


rule data:
    input:
        [PATHS.prepared(run.config.dataset) / "meta.json" for run in NEEDED],
        [PATHS.partition(run.config, run.data) for run in NEEDED],


rule fetch:
    output:
        "data/raw/{dataset}/source.json",
    log:
        "logs/fetch/{dataset}.log",
    benchmark:
        "logs/benchmarks/fetch-{dataset}.tsv"
    threads: 1
    resources:
        network=1,
    params:
        mirror=PARAMS.mirror,
    script:
        "../scripts/fetch.py"


rule prepare:
    input:
        lambda wildcards: f"data/raw/{wildcards.prepared.split('-')[0]}/source.json",
    output:
        "data/prepared/{prepared}/arrays.npz",
        "data/prepared/{prepared}/meta.json",
    log:
        "logs/prepare/{prepared}.log",
    benchmark:
        "logs/benchmarks/prepare-{prepared}.tsv"
    threads: 1
    params:
        dataset=lambda wildcards: dataset(wildcards.prepared),
    script:
        "../scripts/prepare.py"


rule partition:
    input:
        lambda wildcards: PATHS.prepared(
            PARTITIONS[wildcards.partition].config.dataset
        )
        / "meta.json",
    output:
        stored="data/partitions/{partition}.npz",
        drawn="data/partitions/{partition}.png",
    log:
        "logs/partition/{partition}.log",
    benchmark:
        "logs/benchmarks/partition-{partition}.tsv"
    threads: 1
    params:
        config=lambda wildcards: PARTITIONS[wildcards.partition].config.model_dump(
            mode="json"
        ),
    script:
        "../scripts/partition.py"
