"""From settings to work: which runs an experiment consists of at the active scale, and where each of them lies.

A run's folder is `results/runs/<paper>/<dataset>-<algorithm>-s<seed>-<hash>`; the hash covers its resolved config, its data's
identity and the code that it executes, so that a changed number or line names another folder and nothing stale is ever read.
Committed results under `results/kept/` stand for every run with the same config and data, whatever was refactored since.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedrepro import algorithms
from fedrepro.config.params import Experiment, Params, RunConfig
from fedrepro.config.types import Choice
from fedrepro.core.errors import Unavailable
from fedrepro.core.formatting import count
from fedrepro.data import datasets
from fedrepro.experiments.finished_runs import Data, Finder, stored_runs
from fedrepro.experiments.jobs import Piece
from fedrepro.experiments.resolve import BESIDE, at_scale, configs, located_at_scale
from fedrepro.runs import reasons
from fedrepro.runs.gather import Gathering
from fedrepro.runs.kept import is_kept
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import Kind, Reason
from fedrepro.runs.run import Run, code_digest, run_id

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Series:
    """One line of a figure: an algorithm with its settings, one run per seed."""

    label: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Planned:
    """An experiment at the active scale; `skipped` says why it has no series, `waiting` names all that it would have if its
    runs were finished, where they are not, and `unfinished` those runs; `remarks` is what a user should know before it is
    trained; `elsewhere`: runs that are to be trained though they are kept, of other data; `where` its settings stand, for
    messages about them."""

    paper: str
    name: str
    training: Experiment | None
    series: tuple[Series, ...]
    skipped: Reason | None = None
    waiting: tuple[str, ...] = ()
    unfinished: tuple[Run, ...] = ()
    remarks: tuple[str, ...] = ()
    elsewhere: tuple[Run, ...] = ()
    where: str = ""

    @property
    def lacking(self) -> bool:
        """Whether it is skipped since its data are not here."""
        return self.skipped is not None and self.skipped.kind == Kind.DATA_MISSING

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for series in self.series for run in series.runs)


def plan(params: Params, paths: Paths, data: Data | None = None) -> dict[str, dict[str, Planned]]:
    """paper -> experiment -> what it consists of. Nothing is fetched or drawn for it. Raises UserError, naming file and key,
    for any name or number that cannot be."""
    data = data or Data(params, paths)
    planned: dict[str, dict[str, Planned]] = {}
    for paper, settings in params.settings.items():
        finder = _finder(paths, paper, params.kept)
        planned[paper] = {}
        for name in settings.experiments:
            try:
                with located_at_scale(params, paper, name) as where:
                    training = at_scale(params, paper, name, where)
                    chosen = {} if isinstance(training, Reason) else training.series
                    series = tuple(
                        Series(label, tuple(_runs(params, training, choice, data, finder, f"{where}: series.{label}")))
                        for label, choice in chosen.items()
                    )
            except Unavailable as error:
                training = Reason(Kind.DATA_MISSING, str(error))
            if isinstance(training, Reason):
                planned[paper][name] = Planned(paper, name, None, (), training)
                continue
            item = Planned(paper, name, training, series, where=where)
            planned[paper][name] = _reportable(item) if params.only_finished else _remarked(item, data, finder)
    return planned


def plan_training(
    params: Params,
    paths: Paths,
    choose: Callable[[dict[str, dict[str, Planned]]], Iterable[Planned]] | None = None,
) -> dict[str, dict[str, Planned]]:
    """`plan`, once the data of the experiments that `choose` picks are here, where only they tell which runs are meant."""
    data = Data(params, paths)
    planned = plan(params, paths, data)
    brought = data.bring(run.config.dataset for item in (choose or every)(planned) for run in item.runs)
    return plan(params, paths, data) if brought else planned


def _finder(paths: Paths, paper: str, kept: bool) -> Finder:
    def new(config: RunConfig, data: str) -> Run:
        return Run(paths.runs(paper) / run_id(config, data), config, data, code_digest(config))

    return Finder(stored_runs(paths.kept(paper)) if kept else {}, lambda: stored_runs(paths.runs(paper)), new)


def _reportable(planned: Planned) -> Planned:
    """With `only_finished` a series is left out until all its runs are finished; with less than two, which could be compared,
    an experiment counts as skipped."""
    missing = [run for run in planned.runs if not run.summary.exists()]
    if not missing:
        return planned
    done = tuple(series for series in planned.series if not set(series.runs) & set(missing))
    labels = tuple(series.label for series in planned.series)
    waiting = replace(planned, series=done, waiting=labels, unfinished=tuple(missing))
    reason = Reason(Kind.NOT_FINISHED, missing=len(missing), total=len(planned.runs))
    return waiting if len(done) > 1 else replace(waiting, training=None, series=(), skipped=reason)


def _remarked(planned: Planned, data: Data, finder: Finder) -> Planned:
    """With what is to be said of its data and methods."""
    keys = dict.fromkeys(datasets.key(run.config.dataset) for run in planned.runs)
    about = [f"{key} {data.told[key]}" for key in keys if key in data.told]
    elsewhere = finder.elsewhere(dict.fromkeys(planned.runs))
    said = [finder.remark(elsewhere), *dict.fromkeys(algorithms.caution(run.config) for run in planned.runs)]
    return replace(planned, remarks=(*about, *filter(None, said)), elsewhere=tuple(elsewhere))


def remarks(chosen: list[Planned], compare: str = "none") -> list[str]:
    """What is to be said before some experiments are trained, each of it once; also of those whose data are not here, where
    others are trained without them. `compare`: how far the scale is held against the papers."""
    about: dict[str, list[str]] = {}
    for item in chosen:
        lacking = [str(item.skipped)] if item.lacking else []
        for remark in (*item.remarks, *lacking):
            about.setdefault(remark, []).append(f"{item.paper} {item.name}")
    told = [f"{', '.join(names)}: {remark}" for remark, names in about.items()] + _shelved(chosen)
    return told if compare == "none" else told + _single(chosen)


def _shelved(chosen: list[Planned]) -> list[str]:
    """That earlier code trained what is shown."""
    runs = unique(chosen)
    older = sum(is_kept(run.folder) and run.code != code_digest(run.config) for run in runs)
    told = f"{older} of {count(len(runs), 'run')} {'is' if older == 1 else 'are'} kept, as earlier code trained"
    return [f"{told} {'it' if older == 1 else 'them'}; with kept=false today's trains all"] if older else []


def _single(chosen: list[Planned]) -> list[str]:
    """That what is to be trained will decide nothing."""
    asked = [item for item in chosen if any(not run.summary.exists() for run in item.runs)]
    single = [item for item in asked if len({run.config.seed for run in item.runs}) == 1]
    told = f"{len(single)} of {count(len(asked), 'experiment')} to be trained {'has' if len(single) == 1 else 'have'} one seed"
    return [f"{told}, which decides no claim: `seeds` of the scale or the experiment asks for more"] if single else []


def _runs(params: Params, training: Experiment, choice: Choice, data: Data, finder: Finder, where: str) -> Iterator[Run]:
    """One per seed."""
    for config in configs(params, training, choice, where):
        yield finder.find(config, data.identity(config.dataset), params.only_finished)


def every(planned: dict[str, dict[str, Planned]]) -> list[Planned]:
    """Return the experiments of all papers."""
    return [item for group in planned.values() for item in group.values()]


def unique(chosen: list[Planned]) -> list[Run]:
    """Their runs, each once: a baseline that two figures share is trained once."""
    return list({run.folder: run for item in chosen for run in item.runs}.values())


def pieces(planned: dict[str, dict[str, Planned]]) -> list[Piece[Run]]:
    """Every run that is not kept, once, named by the first experiment and series that need it."""
    first: dict[Path, Piece[Run]] = {}
    for paper, name, label, run in listed(planned):
        first.setdefault(run.folder, Piece(f"{paper}_{name}", f"{label}_s{run.config.seed}", run, run.summary, run.recorded))
    return [piece for piece in first.values() if not is_kept(piece.work.folder)]


def note(planned: Planned, params: Params) -> dict[str, Any]:
    """What the gathered results say of an experiment beside its numbers; of a series its first run's config."""
    training = planned.training and planned.training.model_dump(mode="json", exclude=BESIDE)
    configs = {series.label: series.runs[0].config.model_dump(mode="json") for series in planned.series}
    missing = [label for label in planned.waiting if label not in configs] if configs else []
    return {
        "paper": planned.paper,
        "experiment": planned.name,
        "scale": params.scale,
        **({"scale_like": list(params.alike)} if params.alike else {}),
        "scale_note": params.active.note,
        "compare": params.active.compare,
        **reasons.write(planned.skipped),
        "training": training,
        "series": {label: {"algorithm": config["algorithm"], "config": config} for label, config in configs.items()},
        **({"missing": missing} if missing else {}),
    }


def gathering(planned: Planned, params: Params) -> Gathering:
    """What reports get of an experiment."""
    over = [run.summary for run in planned.runs]
    return Gathering(note(planned, params), folders(planned), over=over)


def folders(planned: Planned) -> dict[str, list[Path]]:
    """Label -> the run folders of its seeds."""
    return {series.label: [run.folder for run in series.runs] for series in planned.series}


def listed(planned: dict[str, dict[str, Planned]]) -> list[tuple[str, str, str, Run]]:
    """(paper, experiment, label, run) of everything that is planned."""
    return [
        (paper, item.name, series.label, run)
        for paper, group in planned.items()
        for item in group.values()
        for series in item.series
        for run in series.runs
    ]
