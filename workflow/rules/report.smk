# Artifacts -> pages, one LaTeX report, notebooks.


rule page:
    input:
        [reports.files(paper) for paper in work.default_papers],
    output:
        f"{reports.folder}/index.html",
        [
            f"{reports.folder}/{paper}/{name}"
            for paper in work.default_papers
            for name in ("index.html", "curves.js")
        ],
        f"{reports.folder}/report.tex",
        f"{reports.folder}/metrics.json",
        reports.overview_files,
    log:
        f"logs/{work.params.scale}/page.log",
    params:
        papers=unrecorded(work.default_papers),
        all_papers=unrecorded(work.papers),  # others may have pages at another scale
        folder=unrecorded(str(reports.folder)),
        scales=reports.compared_scales if reports.overview_files else {},
        unfinished=reports.unfinished,
        digest=[reports.digest(paper) for paper in work.default_papers],
    script:
        "../scripts/page.py"


rule pdf:
    input:
        f"{reports.folder}/report.tex",
    output:
        f"{reports.folder}/report.pdf",
    log:
        f"logs/{work.params.scale}/pdf.log",
    script:
        "../scripts/pdf.py"


rule notebooks:
    input:
        [reports.files(paper) for paper, _ in reports.notebooks.values()],
    output:
        [update(path) for path in reports.notebooks],  # a notebook that a user has changed stays as it is
    log:
        f"logs/{work.params.scale}/notebooks.log",
    params:
        shown={
            path.stem: (work.papers[paper], paper, figure)
            for path, (paper, figure) in reports.notebooks.items()
        },
        scale=work.params.scale,
        code=reports.code,
    script:
        "../scripts/notebooks.py"


# the handler `onsuccess` copies, at the end of any command; without output, this job is always one that ends
rule mirror:
    log:
        f"logs/{work.params.scale}/mirror.log",
    localrule: True
    shell:
        "true"
