"""Gathered results as pandas data frames, for notebooks and further analysis. Imports no torch."""

from pathlib import Path
from typing import TYPE_CHECKING

from fedrepro.core.errors import UserError, unknown_name
from fedrepro.core.files import read_records, read_required_json
from fedrepro.runs.paths import Paths, repository_root

if TYPE_CHECKING:
    import pandas


def runs(paper: str, experiment: str, scale: str = "paper", reports: Path | None = None) -> "pandas.DataFrame":
    """Return one row per run of a gathered experiment: series, seed, status, rounds, bytes sent, data set and provenance.

    The resolved settings of its series are in columns `settings.<key>`, e.g. `settings.lr`, `settings.algorithm.name`.

    Args:
        paper: a folder of workflow/papers.
        experiment: a name in the paper's experiments.yaml, or `<experiment>-<study>`.
        scale: a scale of params.yaml.
        reports: the folder of reports; by default that of the repository around the working folder, where missing results are
            gathered first.

    Raises:
        UserError: if a name is unknown or nothing has been gathered.
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
    """Return one row per series, seed and round of a gathered experiment: measures (0..1 or nats), bytes sent, learning rate,
    and the round's seconds, which earlier runs did not record.

    Of a study, `<experiment>-<study>`, return one row per unit of its work. A value that was not measured is missing.
    Arguments and errors are those of `runs`.
    """
    import pandas

    path = _gathered(paper, experiment, scale, reports, "csv")
    missing = {"keep_default_na": False, "na_values": ["", "nan"]}  # a series may be called None
    return pandas.read_csv(path, dtype={"series": "string", "run": "string"}, **missing)


def verdicts(paper: str, scale: str = "paper", reports: Path | None = None) -> "pandas.DataFrame":
    """Return one row per claim of a paper: the paper's statement, our number, the verdict and its reasons.

    Numeric columns (0..1, nats or rounds): `mean` over `seeds` and the `half_width` of its 95 % interval; `p` of the hypothesis
    of no difference (the larger one, if a claim consists of two differences); `p_holm`, corrected over all claims of the page;
    `reported_number`; and `seeds_needed` to detect so large a difference.

    Raises UserError if the verdicts have not been made. Arguments are those of `runs`.
    """
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
        existing = sorted(file.stem for file in folder.glob("*.json"))
        if not existing:
            raise UserError(f"{folder}: no results yet; make them: snakemake --cores 2 {paper} --config scale={scale}")
        raise unknown_name("experiment", experiment, existing)
    return path


def _gather(paper: str, experiment: str, scale: str, folder: Path) -> None:
    """Gather the finished runs of an experiment, or of its study. Raises UserError for an unknown name."""
    from fedrepro.config.params import read_params
    from fedrepro.experiments.reports import result_sources
    from fedrepro.runs import gather

    top = repository_root()
    params = read_params(top / "params.yaml", {"scale": scale, "report_only": True})
    gather.gather(result_sources(paper, experiment, params, Paths(data=top / "data", results=top / "results")), folder)
