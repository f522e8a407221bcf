"""Write an RO-Crate of runs and reports (rule crate)."""

from pathlib import Path

from _log import failures_logged

with failures_logged(snakemake):
    from fedrepro.core.errors import UserError

    try:
        from fedrepro.report.documents import ro_crate
    except ImportError as error:
        raise UserError(f"{error}: add `--extra crate` to `uv run`") from None

    params = snakemake.params
    ro_crate.write(params.papers, params.gathered, params.shown, Path(params.reports), Path(snakemake.output[0]))
