"""Gathered results as data frames, for notebooks and whoever goes on from here. Light: imports no torch, and pandas only where
it is needed."""

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from fedrepro.core.errors import UserError, unknown
from fedrepro.core.files import read_records, read_whole_json

if TYPE_CHECKING:
    import pandas


def root() -> Path:
    """The repository that the working folder lies in: its top folder has params.yaml. Raises UserError."""
    start = Path().resolve()
    for folder in (start, *start.parents):
        if (folder / "params.yaml").exists() and (folder / "workflow").exists():
            return folder
    raise UserError(f"{start}: not inside a fedrepro checkout: no params.yaml here nor above; go into one or say reports=")


def runs(paper: str, experiment: str, scale: str = "paper", reports: Path | None = None) -> "pandas.DataFrame":
    """One row per run of a gathered experiment: series, seed, status, rounds, bytes sent, dataset, where its numbers come from.

    The resolved settings of its series stand beside it as `settings.<key>`, e.g. `settings.lr`, `settings.algorithm.name`.
    `reports`: the folder of that name, else the one of the repository that the working folder lies in. Raises UserError.
    """
    import pandas

    note = read_whole_json(_gathered(paper, experiment, scale, reports, "json"))
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

    path = _folder(paper, scale, reports) / "tables" / "verdicts.json"
    if not path.exists():
        raise UserError(f"{path}: no such file; make it: snakemake --cores 2 {paper} --config scale={scale}")
    told = read_records(path)
    columns = None if told else pandas.read_csv(path.with_suffix(".csv")).columns.str.lower()  # which the table beside it has
    return pandas.DataFrame(told, columns=columns).convert_dtypes()


def _gathered(paper: str, experiment: str, scale: str, reports: Path | None, ending: str) -> Path:
    folder = _folder(paper, scale, reports) / "data"
    path = folder / f"{experiment}.{ending}"
    if not path.exists():
        there = sorted(found.stem for found in folder.glob("*.json"))
        if not there:
            raise UserError(f"{folder}: no results yet; make them: snakemake --cores 2 {paper} --config scale={scale}")
        raise unknown("experiment", experiment, there)
    return path


def _folder(paper: str, scale: str, reports: Path | None) -> Path:
    """Where a paper's artifacts lie at a scale. Raises UserError for a scale or paper that has none, though others have."""
    reports = reports or root() / "reports"
    scales = defaultdict(list)  # of each paper that has results
    for found in sorted(reports.glob("*/*/data")):
        scales[found.parent.name].append(found.parent.parent.name)
    there = list(dict.fromkeys(name for names in scales.values() for name in names))
    if there and scale not in there:
        _check_scale(scale, reports.parent / "params.yaml")
    if paper in scales and scale not in scales[paper]:
        made = f"results of {paper} are there of {', '.join(scales[paper])}"
        raise UserError(f"{reports}: {made}; those of {scale} are made by: snakemake --cores 2 {paper} --config scale={scale}")
    if scales and paper not in scales:
        raise unknown("paper", paper, sorted(scales))
    return reports / scale / paper


def _check_scale(scale: str, settings: Path) -> None:
    """Raises UserError for one that the settings do not have, if they are there."""
    from fedrepro.config.params import read_params

    if settings.exists() and scale not in (valid := read_params(settings).scales):
        raise unknown("scale", scale, list(valid))
