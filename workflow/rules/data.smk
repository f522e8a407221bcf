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
    priority: FIRST
    threads: 1
    params:
        source=Source(PARAMS.mirror),
    script:
        "../scripts/fetch.py"


rule prepare:
    input:
        lambda wildcards: f"data/raw/{datasets.origin(dataset(wildcards.prepared))}/source.json",
    output:
        "data/prepared/{prepared}/arrays.npz",
        "data/prepared/{prepared}/meta.json",
    log:
        "logs/prepare/{prepared}.log",
    benchmark:
        "logs/benchmarks/prepare-{prepared}.tsv"
    priority: FIRST
    threads: 1
    params:
        dataset=lambda wildcards: dataset(wildcards.prepared),
    script:
        "../scripts/prepare.py"


# One job draws the partitions of a paper over one data set. A partition's name covers all that it
# depends on, so that what is there stays; a heat map says by which code it was drawn.
for drawing in DRAWINGS:

    rule:
        name:
            f"partition_{drawing.name}"
        input:
            PATHS.prepared(drawing.dataset) / "meta.json",
        output:
            [
                update(path.with_suffix(suffix))
                for path in drawing.configs
                for suffix in (".npz", ".png")
            ],
        log:
            f"logs/partition/{drawing.name}.log",
        benchmark:
            f"logs/benchmarks/partition-{drawing.name}.tsv"
        priority: FIRST
        localrule: True
        threads: 1
        params:
            configs={
                str(path): dealing.model_dump(mode="json")
                for path, dealing in drawing.configs.items()
            },
            code=provenance.heatmap_digest(),
        script:
            "../scripts/partition.py"


# With `only_finished` nothing is fetched: those that a report lacks and whose data are there.
if PARAMS.only_finished:
    HEATMAPS = [
        path
        for paper, group in PLAN.items()
        for path in drawings.wanted(group, PATHS, Path(REPORTS, paper))
    ]
else:
    HEATMAPS = [
        path.with_suffix(".png") for drawing in DRAWINGS for path in drawing.configs
    ]
