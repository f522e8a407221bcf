"""Gathered results as pandas data frames, for notebooks and further analysis. Imports no torch.

docs/results.md describes the columns.
"""

import io
import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas

from fedrepro.config.params import Params, read_params
from fedrepro.core.errors import UserError, unknown_name
from fedrepro.core.files import read_file, read_records, read_required_json
from fedrepro.report.inputs.gathered import LazyResults
from fedrepro.report.paper import Paper, paper_data, read_curves, read_paper
from fedrepro.report.verdicts.summary import (
    SAMPLE_COLUMNS,
    VERDICT_FIELDS,
    VERDICTS,
    read_verdicts,
    sample_rows,
)
from fedrepro.runs.paths import Paths, repository_root

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["claims", "curves", "paper_curves", "plot", "runs", "targets", "verdicts"]

TEXT = ("series", "run", "block")  # columns of a CSV file that are not numbers


def __dir__() -> list[str]:
    return __all__


def frame(rows: list[dict[str, Any]], columns: list[str] | None = None) -> pandas.DataFrame:
    """Return rows as a frame whose columns have numpy's types; what is missing is NaN."""

    made = pandas.DataFrame(rows, columns=columns)
    return made.where(made.notna(), math.nan).infer_objects()


def runs(
    paper: str, experiment: str, scale: str = "paper", reports: Path | str | None = None
) -> pandas.DataFrame:
    """Return one row per run of a gathered experiment: series, seed, status, rounds, bytes sent,
    data set and provenance.

    The resolved settings of its series are in columns `settings.<key>`, e.g. `settings.lr`,
    `settings.algorithm.name`.

    Args:
        paper: a folder of workflow/papers.
        experiment: a name in the paper's experiments.yaml, `<experiment>-<study>`, or a figure or
            table that shows only one.
        scale: a scale of params.yaml.
        reports: the folder of reports; by default that of the repository around the working folder,
            where missing results are gathered first.

    Raises:
        UserError: if a name is unknown or nothing has been gathered.
    """
    note = read_required_json(_gathered(paper, experiment, scale, reports, "json"))
    rows = []
    for label, series in note["series"].items():
        settings = (
            pandas.json_normalize(series["config"]).to_dict("records")[0]
            if "config" in series
            else {}
        )
        settings = {f"settings.{key}": value for key, value in settings.items() if key != "seed"}
        rows += [{"series": label} | run | settings for run in series["runs"]]
    return frame(rows, None if rows else ["series", "seed", "run", "status"])


def curves(
    paper: str, experiment: str, scale: str = "paper", reports: Path | str | None = None
) -> pandas.DataFrame:
    """Return one row per series, seed and round of a gathered experiment: measures (0..1 or nats),
    bytes sent, learning rate, and the round's seconds, which earlier runs did not record.

    Of a study, `<experiment>-<study>`, return one row per unit of its work. A value that was not
    measured is missing. Arguments and errors are those of `runs`.
    """
    path = _gathered(paper, experiment, scale, reports, "csv")
    table = io.BytesIO(read_file(path))
    numbers = [column for column in pandas.read_csv(table, nrows=0) if column not in TEXT]
    table.seek(0)
    # a series may be called None or nan
    missing = {"keep_default_na": False, "na_values": dict.fromkeys(numbers, ["", "nan"])}
    return pandas.read_csv(table, dtype=dict.fromkeys(TEXT, str), **missing)


def verdicts(
    paper: str, scale: str = "paper", reports: Path | str | None = None
) -> pandas.DataFrame:
    """Return one row per claim of a paper: the paper's statement, our number, the verdict
    (supported, contradicted, open or not tested), whether an open one has a `lean` (for or
    against), and the reasons.

    Numeric columns (0..1, nats or rounds): `mean` over `seeds` and the `half_width` of its 95 %
    interval; `p` of the hypothesis of no difference (the larger one, if a claim consists of two
    differences); `p_holm`, corrected over the paper's headlines at the scale or over its other
    claims; `reported_number`; and `seeds_needed` to detect so large a difference.

    Raises UserError if the verdicts have not been made. Arguments are those of `runs`.
    """
    path = _reports(reports) / scale / paper / "tables" / f"{VERDICTS}.json"
    if not path.exists():
        if reports is None:
            _paper(paper, scale=scale)
        raise UserError(
            f"{path}: no such file; make it: snakemake --cores 2 {paper} --config scale={scale}"
        )
    # which `claims` returns
    return frame(read_records(path), [name for name in VERDICT_FIELDS if name != "samples"])


def _reports(folder: Path | str | None) -> Path:
    return repository_root() / "reports" if folder is None else Path(folder)


def claims(
    scales: Iterable[str] = ("paper", "small"),
    papers: Iterable[str] | None = None,
    reports: Path | str | None = None,
) -> pandas.DataFrame:
    """Return one row per claim, panel and seed with a value, of several papers and scales: what
    `reports/claims.csv` holds.

    By default of all papers whose verdicts have been made. Raises UserError if a named one has
    none.
    """
    scales, named = [scales] if isinstance(scales, str) else list(scales), papers is not None
    folders = {
        paper: [_reports(reports) / scale / paper for scale in scales]
        for paper in papers or _params().papers
    }
    records = {
        paper: [record for one in of_paper for record in read_verdicts(one)]
        for paper, of_paper in folders.items()
    }
    absent = [paper for paper, found in records.items() if not found]
    if len(absent) == len(records) or (named and absent):
        remedy = "make them: snakemake --cores 2 PAPER --config scale=SCALE"
        raise UserError(
            f"claims: no verdicts of {', '.join(absent)} at scale {' or '.join(scales)}; {remedy}"
        )
    return frame(sample_rows(itertools.chain.from_iterable(records.values())), [*SAMPLE_COLUMNS])


def targets() -> pandas.DataFrame:
    """Return one row per figure or table and per source of it: paper, target on the command line,
    artifact, title, source.

    A source is what `runs` and `curves` take: an experiment, or `<experiment>-<study>`.
    """
    rows = []
    for paper in _params().papers:
        spec = _paper(paper)
        for artifact in (*spec.figures, *spec.tables):
            shared = {
                "paper": paper,
                "target": f"{paper}_{artifact}",
                "artifact": artifact,
                "title": spec[artifact].title,
            }
            rows += [shared | {"source": source} for source in spec.sources([artifact])]
    return pandas.DataFrame(rows)


def paper_curves(paper: str, experiment: str | None = None) -> pandas.DataFrame:
    """Return one row per round of a curve that was digitised from the paper, for each of our series
    that is compared with it.

    `curve` names figure and series in the paper, `value` is 0..1; `experiment` and `series` are
    ours, as in `curves`.

    Args:
        paper: a folder of workflow/papers.
        experiment: only the curves that this one is compared with; by default all.
    """
    spec = _paper(paper)
    if experiment not in (None, *spec.experiments):
        raise unknown_name("experiment", experiment, spec.experiments)
    points = read_curves(spec)
    names = paper_data(spec, {}, points).curve_name
    rows = [
        {"experiment": name, "series": label, "curve": names(key), "round": round, "value": value}
        for name, display in spec.experiments.items()
        for label, key in display.reported.items()
        if experiment in (None, name)
        for round, value in points[key]
    ]
    return pandas.DataFrame(rows, columns=["experiment", "series", "curve", "round", "value"])


def plot(
    paper: str, figure: str, scale: str = "paper", reports: Path | str | None = None
) -> "Figure":
    """Return a figure as the pipeline draws it. Arguments and errors are those of `runs`."""
    import matplotlib

    from fedrepro.report.figures import _layout

    spec = _paper(paper)
    if figure not in spec.figures:
        raise unknown_name("figure", figure, spec.figures)
    files = [_gathered(paper, source, scale, reports, "json") for source in spec.sources([figure])]
    with matplotlib.rc_context():
        _layout.set_print_style()
        drawing = _layout.compose(
            spec.figures[figure], paper_data(spec, LazyResults(files[0].parent), read_curves(spec))
        )
        drawing.draw_without_rendering()  # ticks take their style when they are drawn first
    return drawing


def _params(**overrides: Any) -> Params:
    return read_params(repository_root() / "params.yaml", overrides)


def _paper(paper: str, **overrides: Any) -> Paper:
    """Return the specification of a paper. Raises UserError for an unknown paper or scale."""
    params = _params(**overrides)
    if paper not in params.papers:
        raise unknown_name("paper", paper, params.papers)
    return read_paper(paper, params)


def _gathered(
    paper: str, experiment: str, scale: str, reports: Path | str | None, ending: str
) -> Path:
    folder = _reports(reports) / scale / paper / "data"
    experiment = _source(paper, experiment)
    path = folder / f"{experiment}.{ending}"
    if reports is None and _is_outdated(path, paper):
        _gather(paper, experiment, scale, folder)
    if not path.exists():
        existing = sorted(file.stem for file in folder.glob("*.json"))
        if not existing:
            raise UserError(
                f"{folder}: no results yet; make them: snakemake --cores 2 {paper} --config "
                f"scale={scale}"
            )
        raise unknown_name("experiment", experiment, existing)
    return path


def _is_outdated(path: Path, paper: str) -> bool:
    """Return whether results were not gathered, or runs or studies were finished or kept since."""
    top = repository_root() / "results"
    files = [
        file
        for where in ("kept/{}.jsonl", "runs/{}/*/record.json", "runs/{}/*/*-*.json")
        for file in top.glob(where.format(paper))
    ]
    return not path.exists() or any(file.stat().st_mtime > path.stat().st_mtime for file in files)


def _source(paper: str, name: str) -> str:
    """Return the source behind a figure or table of one source; any other name as it is."""
    try:
        spec = _paper(paper)
    except UserError:  # outside of the repository, or a paper of other reports
        return name
    if name in spec.experiments or name not in (*spec.figures, *spec.tables):
        return name
    sources = spec.sources([name])
    if len(sources) > 1:
        raise UserError(
            f"{name} of {paper} shows several experiments: choose one of {', '.join(sources)}"
        )
    return sources[0]


def _gather(paper: str, experiment: str, scale: str, folder: Path) -> None:
    """Gather the finished runs of an experiment, or of its study. Raises UserError for an unknown
    name."""
    from fedrepro.experiments.reports import result_sources
    from fedrepro.runs import gather

    top = repository_root()
    sources = result_sources(
        paper,
        experiment,
        _params(scale=scale, report_only=True),
        Paths(data=top / "data", results=top / "results"),
    )
    if not any(sources.series.values()):
        reason = sources.note.get("skipped") or "no run is finished"
        raise UserError(f"{paper} {experiment}: scale {scale}: {reason}")
    gather.gather(sources, folder)
