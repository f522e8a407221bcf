"""Gathered results as data frames, for notebooks and whoever goes on from here. Light: imports no torch, and pandas only where
it is needed."""

from pathlib import Path
from typing import TYPE_CHECKING

from fedrepro.core.errors import UserError, unknown_name
from fedrepro.core.files import read_records, read_required_json
from fedrepro.runs.paths import Paths, repository_root

if TYPE_CHECKING:
    import pandas


def runs(paper: str, experiment: str, scale: str = "paper", reports: Path | None = None) -> "pandas.DataFrame":
    """One row per run of a gathered experiment: series, seed, status, rounds, bytes sent, dataset, where its numbers come from.

    The resolved settings of its series stand beside it as `settings.<key>`, e.g. `settings.lr`, `settings.algorithm.name`.
    `reports`: the folder of that name, else the one of the repository that the working folder lies in. Raises UserError.
    """
    import pandas

    note = read_required_json(_gathered(paper, experiment, scale, reports, "json"))
    rows = []
    for label, series in note["series"].items():
        settings = pandas.json_normalize(series["config"]).to_dict("records")[0] if "config" in series else {}
        settings = {f"settings.{key}": value for key, value in settings.items() if key != "seed"}
        rows += [{"series": label} | run | settings for run in series["runs"]]
    return pandas.DataFrame(rows, columns=None if rows else ["series", "seed", "run", "status"]).convert_dtypes()


def curves(paper: str, experiment: str, scale: str = "paper", reports: Path | None = None) -> "pandas.DataFrame":
    """One row per series, seed and round of a gathered experiment, all seeds: what was measured (0..1, nats), sent bytes, rate.

    Of a study, `<experiment>-<study>`, one row per unit of its work. Numbers are numbers, and what was not measured is missing.
    `reports` as in `runs`. Raises UserError where nothing was gathered.
    """
    import pandas

    path = _gathered(paper, experiment, scale, reports, "csv")
    missing = {"keep_default_na": False, "na_values": ["", "nan"]}  # a series may be called None
    return pandas.read_csv(path, dtype={"series": "string", "run": "string"}, **missing)


def verdicts(paper: str, scale: str = "paper", reports: Path | None = None) -> "pandas.DataFrame":
    """One row per claim of a paper: what it reports, our number, the verdict and why; as numbers (0..1, nats or rounds) our
    `mean` over `seeds`, the `half_width` of its 95 % interval, `p` of no difference where one is claimed
    (of two that have to be true that of the less sure one), `p_holm`, the same with all of the page corrected together,
    `reported_number`, and `seeds_needed` to show so large a difference. Raises UserError where there are none."""
    import pandas

    from fedrepro.report import artifacts

    path = (reports or repository_root() / "reports") / scale / paper / "tables" / "verdicts.json"
    if not path.exists():
        raise UserError(f"{path}: no such file; make it: snakemake --cores 2 {paper} --config scale={scale}")
    return pandas.DataFrame(read_records(path), columns=artifacts.VERDICT_FIELDS).convert_dtypes()


def _gathered(paper: str, experiment: str, scale: str, reports: Path | None, ending: str) -> Path:
    folder = (reports or repository_root() / "reports") / scale / paper / "data"
    path = folder / f"{experiment}.{ending}"
    if not path.exists() and reports is None:
        _gather(paper, experiment, scale, folder)
    if not path.exists():
        there = sorted(found.stem for found in folder.glob("*.json"))
        if not there:
            raise UserError(f"{folder}: no results yet; make them: snakemake --cores 2 {paper} --config scale={scale}")
        raise unknown_name("experiment", experiment, there)
    return path


def _gather(paper: str, experiment: str, scale: str, folder: Path) -> None:
    """Gather what is finished of an experiment, or of its study. Raises UserError for what is unknown."""
    from fedrepro.config.params import read_params
    from fedrepro.experiments.reports import result_sources
    from fedrepro.runs import gather

    top = repository_root()
    params = read_params(top / "params.yaml", {"scale": scale, "report_only": True})
    gather.gather(result_sources(paper, experiment, params, Paths(data=top / "data", results=top / "results")), folder)
