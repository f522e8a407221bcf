# Runs -> gathered results -> figures, tables, verdicts: one job per paper, which makes anew only what has changed
# (src/fedrepro/report/incremental.py).


for paper in work.papers:

    rule:
        name:
            f"artifacts_{paper}"
        input:
            reports.finished(paper),
        output:
            [reported(paper, file) for file in reports.files(paper)],
            stamp=reports.stamp(paper),
        log:
            f"logs/{work.params.scale}/artifacts/{paper}.log",
        localrule: True
        params:
            paper=work.papers[paper],
            wanted={key: reports.known[paper][key] for key in work.papers[paper].artifacts},
            folder=lambda wildcards, output: str(Path(output[0]).parent.parent),
            gathered=reports.gathering(paper),
            stamps=lambda wildcards, output: str(Path(output.stamp).parent),
            captions=str(reports.captions(paper)),
            code=reports.code,
        script:
            "../scripts/artifacts.py"


# a single one asks for no other runs than its own
rule artifact:
    input:
        lambda wildcards: reports.finished(wildcards.paper, [wildcards.artifact]),
    output:
        stamp=f"{reports.stamps}/{{paper}}/{{artifact}}-{{known}}",
    log:
        f"logs/{work.params.scale}/artifact/{{paper}}-{{artifact}}-{{known}}.log",
    params:
        paper=lambda wildcards: work.papers[wildcards.paper],
        wanted=lambda wildcards: {wildcards.artifact: wildcards.known},
        folder=f"{reports.folder}/{{paper}}",
        gathered=lambda wildcards: reports.gathering(wildcards.paper, [wildcards.artifact]),
        stamps=lambda wildcards, output: str(Path(output.stamp).parent),
        code=reports.code,
    script:
        "../scripts/artifacts.py"
