# Reproduces every table and figure: `snakemake --cores 2`. What runs, and how large, stands in params.yaml; what each artifact
# consists of in workflow/experiments/. Targets: all (default), a paper, train, data, and a figure or table as `<paper>_<name>`, or
# by its own name while only one paper has it.


configfile: "params.yaml"


container: "docker://python:3.12-slim"


# on a cluster these stay where snakemake runs: they are short, and nodes may lack a network
localrules:
    fetch,
    prepare,
    artifact,
    page,
    pdf,
    notebook,
    mirror,


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/studies.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        f"{REPORTS}/index.html",
        [f"{REPORTS}/report.pdf"] if typeset.available() else [],
        NOTEBOOKS,
        MIRRORED,
