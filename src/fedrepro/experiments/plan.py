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
from fedrepro.core.errors import DataUnavailable
from fedrepro.core.formatting import count
from fedrepro.data import datasets
from fedrepro.experiments.finished_runs import DatasetIdentities, RunLookup, stored_runs
from fedrepro.experiments.jobs import WorkItem
from fedrepro.experiments.resolve import BESIDE, error_prefix_at_scale, experiment_at_scale, run_configs
from fedrepro.runs import reasons
from fedrepro.runs.gather import ResultSources
from fedrepro.runs.kept import is_kept
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind, MissingReason
from fedrepro.runs.run import Run, code_digest, run_id

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Series:
    """One line of a figure: an algorithm with its settings, one run per seed."""

    label: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class PlannedExperiment:
    """An experiment at the active scale; `skipped` says why it has no series, `waiting` names all that it would have if its
    runs were finished, where they are not, and `unfinished` those runs; `remarks` is what a user should know before it is
    trained; `elsewhere`: runs that are to be trained though they are kept, of other data; `where` its settings stand, for
    messages about them."""

    paper: str
    name: str
    training: Experiment | None
    series: tuple[Series, ...]
    skipped: MissingReason | None = None
    unfinished_series: tuple[str, ...] = ()
    unfinished: tuple[Run, ...] = ()
    warnings: tuple[str, ...] = ()
    kept_with_other_data: tuple[Run, ...] = ()
    location: str = ""

    @property
    def data_missing(self) -> bool:
        """Whether it is skipped since its data are not here."""
        return self.skipped is not None and self.skipped.kind == MissingKind.DATA_MISSING

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for series in self.series for run in series.runs)


def plan_experiments(
    params: Params, paths: Paths, data: DatasetIdentities | None = None
) -> dict[str, dict[str, PlannedExperiment]]:
    """paper -> experiment -> what it consists of. Nothing is fetched or drawn for it. Raises UserError, naming file and key,
    for any name or number that cannot be."""
    data = data or DatasetIdentities(params, paths)
    planned: dict[str, dict[str, PlannedExperiment]] = {}
    for paper, settings in params.paper_settings.items():
        finder = _lookup(paths, paper, params.use_kept_results)
        planned[paper] = {}
        for name in settings.experiments:
            try:
                with error_prefix_at_scale(params, paper, name) as where:
                    training = experiment_at_scale(params, paper, name, where)
                    chosen = {} if isinstance(training, MissingReason) else training.series
                    series = tuple(
                        Series(label, tuple(_runs(params, training, choice, data, finder, f"{where}: series.{label}")))
                        for label, choice in chosen.items()
                    )
            except DataUnavailable as error:
                training = MissingReason(MissingKind.DATA_MISSING, str(error))
            if isinstance(training, MissingReason):
                planned[paper][name] = PlannedExperiment(paper, name, None, (), training)
                continue
            item = PlannedExperiment(paper, name, training, series, location=where)
            planned[paper][name] = _without_unfinished(item) if params.report_only else _with_warnings(item, data, finder)
    return planned


def plan_training(
    params: Params,
    paths: Paths,
    choose: Callable[[dict[str, dict[str, PlannedExperiment]]], Iterable[PlannedExperiment]] | None = None,
) -> dict[str, dict[str, PlannedExperiment]]:
    """`plan`, once the data of the experiments that `choose` picks are here, where only they tell which runs are meant."""
    data = DatasetIdentities(params, paths)
    planned = plan_experiments(params, paths, data)
    brought = data.bring(run.config.dataset for item in (choose or all_experiments)(planned) for run in item.runs)
    return plan_experiments(params, paths, data) if brought else planned


def _lookup(paths: Paths, paper: str, kept: bool) -> RunLookup:
    def new(config: RunConfig, data: str) -> Run:
        return Run(paths.runs(paper) / run_id(config, data), config, data, code_digest(config))

    return RunLookup(stored_runs(paths.kept(paper)) if kept else {}, lambda: stored_runs(paths.runs(paper)), new)


def _without_unfinished(planned: PlannedExperiment) -> PlannedExperiment:
    """With `report_only` a series is left out until all its runs are finished; with less than two, which could be compared,
    an experiment counts as skipped."""
    missing = [run for run in planned.runs if not run.summary.exists()]
    if not missing:
        return planned
    done = tuple(series for series in planned.series if not set(series.runs) & set(missing))
    labels = tuple(series.label for series in planned.series)
    waiting = replace(planned, series=done, unfinished_series=labels, unfinished=tuple(missing))
    reason = MissingReason(MissingKind.NOT_FINISHED, missing=len(missing), total=len(planned.runs))
    return waiting if len(done) > 1 else replace(waiting, training=None, series=(), skipped=reason)


def _with_warnings(planned: PlannedExperiment, data: DatasetIdentities, finder: RunLookup) -> PlannedExperiment:
    """With what is to be said of its data and methods."""
    keys = dict.fromkeys(datasets.key(run.config.dataset) for run in planned.runs)
    about = [f"{key} {data.told[key]}" for key in keys if key in data.told]
    elsewhere = finder.kept_with_other_data(dict.fromkeys(planned.runs))
    said = [finder.other_data_message(elsewhere), *dict.fromkeys(algorithms.warning(run.config) for run in planned.runs)]
    return replace(planned, warnings=(*about, *filter(None, said)), kept_with_other_data=tuple(elsewhere))


def warnings(chosen: list[PlannedExperiment], compare: str = "none") -> list[str]:
    """What is to be said before some experiments are trained, each of it once; also of those whose data are not here, where
    others are trained without them. `compare`: how far the scale is held against the papers."""
    about: dict[str, list[str]] = {}
    for item in chosen:
        lacking = [str(item.skipped)] if item.data_missing else []
        for remark in (*item.warnings, *lacking):
            about.setdefault(remark, []).append(f"{item.paper} {item.name}")
    told = [f"{', '.join(names)}: {remark}" for remark, names in about.items()] + _other_code_warning(chosen)
    return told if compare == "none" else told + _single_seed_warning(chosen)


def _other_code_warning(chosen: list[PlannedExperiment]) -> list[str]:
    """That earlier code trained what is shown."""
    runs = unique_runs(chosen)
    older = sum(is_kept(run.folder) and run.code != code_digest(run.config) for run in runs)
    told = f"{older} of {count(len(runs), 'run')} {'is' if older == 1 else 'are'} kept, as earlier code trained"
    return [f"{told} {'it' if older == 1 else 'them'}; with kept=false today's trains all"] if older else []


def _single_seed_warning(chosen: list[PlannedExperiment]) -> list[str]:
    """That what is to be trained will decide nothing."""
    asked = [item for item in chosen if any(not run.summary.exists() for run in item.runs)]
    single = [item for item in asked if len({run.config.seed for run in item.runs}) == 1]
    told = f"{len(single)} of {count(len(asked), 'experiment')} to be trained {'has' if len(single) == 1 else 'have'} one seed"
    return [f"{told}, which decides no claim: `seeds` of the scale or the experiment asks for more"] if single else []


def _runs(
    params: Params, training: Experiment, choice: Choice, data: DatasetIdentities, finder: RunLookup, where: str
) -> Iterator[Run]:
    """One per seed."""
    for config in run_configs(params, training, choice, where):
        yield finder.find(config, data.identity(config.dataset), params.report_only)


def all_experiments(planned: dict[str, dict[str, PlannedExperiment]]) -> list[PlannedExperiment]:
    """Return the experiments of all papers."""
    return [item for group in planned.values() for item in group.values()]


def unique_runs(chosen: list[PlannedExperiment]) -> list[Run]:
    """Their runs, each once: a baseline that two figures share is trained once."""
    return list({run.folder: run for item in chosen for run in item.runs}.values())


def work_items(planned: dict[str, dict[str, PlannedExperiment]]) -> list[WorkItem[Run]]:
    """Every run that is not kept, once, named by the first experiment and series that need it."""
    first: dict[Path, WorkItem[Run]] = {}
    for paper, name, label, run in planned_runs(planned):
        first.setdefault(
            run.folder, WorkItem(f"{paper}_{name}", f"{label}_s{run.config.seed}", run, run.summary, run.step_cache_key)
        )
    return [piece for piece in first.values() if not is_kept(piece.work.folder)]


def experiment_note(planned: PlannedExperiment, params: Params) -> dict[str, Any]:
    """What the gathered results say of an experiment beside its numbers; of a series its first run's config."""
    training = planned.training and planned.training.model_dump(mode="json", exclude=BESIDE)
    configs = {series.label: series.runs[0].config.model_dump(mode="json") for series in planned.series}
    missing = [label for label in planned.unfinished_series if label not in configs] if configs else []
    return {
        "paper": planned.paper,
        "experiment": planned.name,
        "scale": params.scale,
        **({"scale_like": list(params.inherited_scales)} if params.inherited_scales else {}),
        "scale_note": params.active_scale.note,
        "compare": params.active_scale.compare,
        **reasons.to_note(planned.skipped),
        "training": training,
        "series": {label: {"algorithm": config["algorithm"], "config": config} for label, config in configs.items()},
        **({"missing": missing} if missing else {}),
    }


def result_sources(planned: PlannedExperiment, params: Params) -> ResultSources:
    """What reports get of an experiment."""
    over = [run.summary for run in planned.runs]
    return ResultSources(experiment_note(planned, params), run_folders(planned), keeps_existing=over)


def run_folders(planned: PlannedExperiment) -> dict[str, list[Path]]:
    """Label -> the run folders of its seeds."""
    return {series.label: [run.folder for run in series.runs] for series in planned.series}


def planned_runs(planned: dict[str, dict[str, PlannedExperiment]]) -> list[tuple[str, str, str, Run]]:
    """(paper, experiment, label, run) of everything that is planned."""
    return [
        (paper, item.name, series.label, run)
        for paper, group in planned.items()
        for item in group.values()
        for series in item.series
        for run in series.runs
    ]
