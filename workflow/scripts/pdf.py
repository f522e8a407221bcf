"""Snakemake -> typeset.typeset."""

from pathlib import Path

from _log import user_errors

with user_errors(snakemake):
    from fedrepro.report import typeset

    typeset.typeset(Path(snakemake.input[0]))
