"""Typeset the LaTeX report as PDF (rule pdf)."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.report.documents import pdf

    pdf.typeset(Path(snakemake.input[0]))
