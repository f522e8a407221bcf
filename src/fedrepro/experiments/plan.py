"""The plan: the runs of every experiment at the active scale, and their folders.

A run's folder is `results/runs/<paper>/<dataset>-<algorithm>-s<seed>-<hash>`. The hash covers its
resolved config, the identity of its data and the code that it executes, so that a changed number or
line names another folder and nothing stale is ever read. Committed results in `results/kept/`
replace every run with the same config and data, whatever code was refactored since.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from fedrepro import algorithms
from fedrepro.config import registry
from fedrepro.config.params import Chosen, Experiment, Params, RunConfig
from fedrepro.core.errors import DataUnavailable, for_each, unknown_name
from fedrepro.core.formatting import count
from fedrepro.data import datasets
from fedrepro.experiments import tuning
from fedrepro.experiments.jobs import Work
from fedrepro.experiments.resolve import (
    NOT_TRAINING,
    check_study,
    error_prefix_at_scale,
    experiment_at_scale,
    run_configs,
)
from fedrepro.experiments.run_lookup import DatasetIdentities, RunLookup, stored_runs
from fedrepro.experiments.study_plan import PlannedStudy, StudyRun, plan_study
from fedrepro.runs import reasons, records
from fedrepro.runs.gather import ResultSources
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
    """An experiment at the active scale."""

    paper: str
    name: str
    training: Experiment | None
    series: tuple[Series, ...]
    skipped: MissingReason | None = None  # why there are no series
    # labels, also of those left out because a run is unfinished
    requested_series: tuple[str, ...] = ()
    unfinished: tuple[Run, ...] = ()  # the runs without which it is reported
    # what is reported if nothing is trained; None: all of it
    finished: "PlannedExperiment | None" = None
    warnings: tuple[str, ...] = ()  # what the user should know before it is trained
    of_other_data: tuple[Run, ...] = ()  # kept, of other data than those at hand
    location: str = ""  # file and key of its settings, for messages
    studies: Mapping[str, PlannedStudy] = field(default_factory=dict)  # of its runs, by name

    @property
    def blocked(self) -> bool:
        """Whether it is skipped because its data are not here, or its series are not tuned."""
        return self.skipped is not None and self.skipped.kind in (
            MissingKind.DATA_MISSING,
            MissingKind.NOT_TUNED,
        )

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for series in self.series for run in series.runs)

    @property
    def study_runs(self) -> tuple[StudyRun, ...]:
        return tuple(study_run for study in self.studies.values() for study_run in study.study_runs)


Plan = Mapping[str, Mapping[str, PlannedExperiment]]  # paper -> name -> experiment


def plan_experiments(params: Params, paths: Paths, data: DatasetIdentities | None = None) -> Plan:
    """Plan the experiments of all papers. Nothing is fetched or drawn. Raises UserError, naming
    file and key, for a name or number that is not valid."""
    data = data or DatasetIdentities(params, paths)
    planned: dict[str, dict[str, PlannedExperiment]] = {}
    for paper, settings in params.paper_settings.items():
        lookup = run_lookup(paths, paper, params)

        def plan_one(
            name: str, paper: str = paper, lookup: RunLookup = lookup
        ) -> PlannedExperiment:
            experiment = _plan_series(params, paper, name, data, lookup)
            if params.report_only:
                return reported(experiment, params, paths)
            return replace(experiment, studies=_plan_studies(experiment, params, paths))

        planned[paper] = {one.name: one for one in for_each(settings.experiments, plan_one)}
    return planned


def reported(experiment: PlannedExperiment, params: Params, paths: Paths) -> PlannedExperiment:
    """Return an experiment without what is not finished."""
    shown = experiment.finished or experiment
    return replace(shown, studies=_plan_studies(shown, params, paths, finished_only=True))


def _plan_studies(
    experiment: PlannedExperiment, params: Params, paths: Paths, finished_only: bool = False
) -> dict[str, PlannedStudy]:
    """Return every study of an experiment by name; one that it does not have says why."""
    names, paper = registry.names("studies"), experiment.paper
    if experiment.training is None:
        return {name: PlannedStudy(None, {}, experiment.skipped) for name in names}
    requested = {
        name: values for name, values in experiment.training.studies.items() if values is not None
    }
    with error_prefix_at_scale(params, paper, experiment.name) as where:
        for name, values in requested.items():
            for run in experiment.runs:
                check_study(name, values, run.config, where)
    series = {one.label: one.runs for one in experiment.series}
    return {
        name: plan_study(name, requested.get(name), series, paths, paper, finished_only)
        for name in names
    }


def _plan_series(
    params: Params, paper: str, name: str, data: DatasetIdentities, lookup: RunLookup
) -> PlannedExperiment:
    try:
        with error_prefix_at_scale(params, paper, name) as where:
            training = experiment_at_scale(params, paper, name, where)
            if isinstance(training, MissingReason):
                return PlannedExperiment(paper, name, None, (), training)
            chosen = params.chosen(paper, name)
            if untuned := tuning.untuned(training, chosen):
                command = tuning.command(paper, params.scale)
                return PlannedExperiment(
                    paper,
                    name,
                    None,
                    (),
                    MissingReason(MissingKind.NOT_TUNED, command, series=untuned),
                )
            configs: dict[str, list[RunConfig]] = {}
            for label, choice in training.series.items():
                choice = tuning.with_values(
                    choice, chosen[label].values if tuning.TUNE in choice.options else {}
                )
                configs[label] = list(
                    run_configs(params, training, choice, f"{where}: series.{label}")
                )
    except DataUnavailable as error:
        return PlannedExperiment(
            paper, name, None, (), MissingReason(MissingKind.DATA_MISSING, str(error))
        )
    by_dataset: dict[str, list[RunConfig]] = {}
    for config in chain.from_iterable(configs.values()):
        by_dataset.setdefault(datasets.key(config.dataset), []).append(config)
    here = {key: data.identity(group[0].dataset) for key, group in by_dataset.items()}
    copies = {key: lookup.copies(group, here[key]) for key, group in by_dataset.items()}

    def of_copies(most_finished: bool) -> PlannedExperiment:
        def find(config: RunConfig) -> Run:
            return lookup.find(config, copies[datasets.key(config.dataset)][most_finished])

        series = tuple(Series(label, tuple(map(find, group))) for label, group in configs.items())
        experiment = PlannedExperiment(paper, name, training, series, location=where)
        other = tuple(
            run for run in experiment.runs if run.data != here[datasets.key(run.config.dataset)]
        )
        return replace(
            experiment, warnings=tuple(_tuning_warnings(experiment, params)), of_other_data=other
        )

    experiment = of_copies(most_finished=False)
    if all(run.summary.exists() for run in experiment.runs):
        return experiment
    finished = _without_unfinished(of_copies(most_finished=True))
    return _with_warnings(replace(experiment, finished=finished), data)


def _tuning_warnings(experiment: PlannedExperiment, params: Params) -> list[str]:
    """Warn of values that were chosen on other data or, where numbers are compared with a paper's,
    with other code."""
    chosen, runs = (
        chosen_values(experiment, params),
        {series.label: series.runs[0] for series in experiment.series},
    )
    data = any(choice.data != runs[label].data for label, choice in chosen.items())
    code = params.active_scale.compare != "none" and any(
        choice.code != code_digest(runs[label].config) for label, choice in chosen.items()
    )
    why = [name for name, differs in (("data", data), ("code", code)) if differs]
    text = f"its values were chosen with other {' and '.join(why)}; to choose again: "
    return [text + tuning.command(experiment.paper, params.scale)] if why else []


def plan_training(
    params: Params,
    paths: Paths,
    choose: Callable[[Plan], Iterable[PlannedExperiment]] | None = None,
) -> Plan:
    """Plan the experiments of all papers, after preparing the data without which the runs of some
    have no names.

    Args:
        choose: picks the experiments whose data are prepared; all by default.
    """
    data = DatasetIdentities(params, paths)
    planned = plan_experiments(params, paths, data)
    runs = [
        run
        for run in unique_runs((choose or all_experiments)(planned))
        if not run.is_kept and not params.report_only
    ]
    return (
        plan_experiments(params, paths, data)
        if data.prepare_unidentified(run.config.dataset for run in runs)
        else planned
    )


def run_lookup(paths: Paths, paper: str, params: Params) -> RunLookup:
    def new(config: RunConfig, data: str) -> Run:
        return Run(paths.runs(paper) / run_id(config, data), config, data, code_digest(config))

    kept = stored_runs(paths.kept(paper)).values() if params.use_kept_results else ()
    return RunLookup(kept, new, any_copy=params.use_kept_results is True)


def _without_unfinished(experiment: PlannedExperiment) -> PlannedExperiment:
    """Leave out the series with unfinished runs; skip the experiment if fewer than two are left,
    which cannot be compared."""
    missing = [run for run in experiment.runs if not run.summary.exists()]
    finished = tuple(series for series in experiment.series if not set(series.runs) & set(missing))
    labels = tuple(series.label for series in experiment.series)
    total = len(experiment.runs)
    shown = {run for series in finished for run in series.runs}
    experiment = replace(
        experiment,
        series=finished,
        requested_series=labels,
        unfinished=tuple(missing),
        of_other_data=tuple(run for run in experiment.of_other_data if run in shown),
    )
    if len(finished) > 1:
        return experiment
    reason = MissingReason(MissingKind.NOT_FINISHED, missing=len(missing), total=total)
    return replace(experiment, training=None, series=(), skipped=reason, of_other_data=())


def _with_warnings(experiment: PlannedExperiment, data: DatasetIdentities) -> PlannedExperiment:
    """Add the warnings about the data and methods of unfinished runs; leave all out if their data
    are not here."""
    missing = [run for run in experiment.runs if not run.summary.exists()]
    keys = {datasets.key(run.config.dataset): run.config.dataset for run in missing}
    try:
        for choice in keys.values():
            data.check_available(choice)
    except DataUnavailable as error:
        reason = MissingReason(MissingKind.DATA_MISSING, str(error))
        return replace(experiment, training=None, series=(), skipped=reason, warnings=())
    messages = [
        *experiment.warnings,
        *(f"{key} {data.warnings[key]}" for key in keys if key in data.warnings),
        *dict.fromkeys(algorithms.warning(run.config) for run in experiment.runs),
    ]
    return replace(experiment, warnings=tuple(filter(None, messages)))


def warnings(chosen: Sequence[PlannedExperiment], compare: str = "none") -> list[str]:
    """Return what the user should know before some experiments are trained, each warning once.

    Includes experiments that are left out because their data are not here or their series are not
    tuned.

    Args:
        compare: how the scale is compared with the papers.
    """
    names: dict[str, list[str]] = {}  # warning -> experiments
    for item in chosen:
        for warning in (*item.warnings, *([str(item.skipped)] if item.blocked else [])):
            names.setdefault(warning, []).append(f"{item.paper} {item.name}")
    messages = [f"{', '.join(group)}: {warning}" for warning, group in names.items()]
    messages += _other_data_note(chosen) + _other_code_warning(chosen)
    return messages if compare == "none" else messages + _single_seed_warning(chosen)


def _other_data_note(chosen: Sequence[PlannedExperiment]) -> list[str]:
    """Say of which other data than those at hand runs are kept."""
    runs = list({run.folder: run for item in chosen for run in item.of_other_data}.values())
    labels = sorted({records.load(run.folder)["dataset"] for run in runs})
    text = (
        f"{len(runs)} of {count(len(unique_runs(chosen)), 'run')} "
        f"{'is' if len(runs) == 1 else 'are'} kept"
    )
    return (
        [
            f"{text}, made from {', '.join(labels)}; use_kept_results=same_data trains them on "
            f"the data here"
        ]
        if runs
        else []
    )


def _other_code_warning(chosen: Sequence[PlannedExperiment]) -> list[str]:
    """Warn that earlier code trained some of the kept runs."""
    runs = unique_runs(chosen)
    older = sum(run.is_kept and run.code != code_digest(run.config) for run in runs)
    start = (
        f"{older} of {count(len(runs), 'run')} {'was' if older == 1 else 'were'} trained by "
        f"earlier code"
    )
    return [f"{start}; use_kept_results=false trains all runs with today's code"] if older else []


def _single_seed_warning(chosen: Sequence[PlannedExperiment]) -> list[str]:
    """Warn that experiments with one seed decide no claim."""
    pending = [item for item in chosen if any(not run.summary.exists() for run in item.runs)]
    single = sum(len({run.config.seed for run in item.runs}) == 1 for item in pending)
    start = (
        f"{single} of {count(len(pending), 'experiment')} to be trained "
        f"{'has' if single == 1 else 'have'} one seed"
    )
    return (
        [f"{start}, which decides no claim: `seeds` of the scale or the experiment asks for more"]
        if single
        else []
    )


def all_experiments(planned: Plan) -> list[PlannedExperiment]:
    """Return the experiments of all papers."""
    return [item for group in planned.values() for item in group.values()]


def unique_runs(chosen: Iterable[PlannedExperiment]) -> list[Run]:
    """Return the runs of some experiments, each once: a baseline that two figures share is trained
    once."""
    return list({run.folder: run for item in chosen for run in item.runs}.values())


def planned_work(chosen: Sequence[PlannedExperiment]) -> list[Work]:
    """Return every run, then every study, that is not kept, once, named after the first experiment
    and series that need it."""
    names: dict[str, str] = {}
    found: dict[Path, Work] = {}
    for item in chosen:
        group, of_job = f"{item.paper}/{item.name}", f"{item.paper}_{item.name}"
        for label, run in ((one.label, run) for one in item.series for run in one.runs):
            where, seed = f"{item.location}: series.{label}", run.config.seed
            name = names.setdefault(run.id, f"{item.name} {label}, seed {seed}")
            if not run.is_kept:
                found.setdefault(
                    run.folder,
                    Work(run, run.summary, of_job, f"{label}_s{seed}", group, name, where),
                )
    for item in chosen:
        for kind, study in item.studies.items():
            of_job = f"{kind}_{item.paper}_{item.name}"
            for label, one in (
                (label, one)
                for label, every in study.series.items()
                for one in every
                if not one.is_kept
            ):
                title, series = one.study.title, f"{label}_s{one.run.config.seed}"
                name, group = (
                    f"{title} of {names.get(one.run.id, one.run.id)}",
                    f"{title} after them, at most",
                )
                found.setdefault(
                    one.table,
                    Work(one, one.done_file, of_job, series, group, name, one.id, is_study=True),
                )
    return list(found.values())


def experiment_note(planned: PlannedExperiment, params: Params) -> dict[str, Any]:
    """Return the description of an experiment that is stored with its results; a series has the
    config of its first run."""
    training = planned.training and planned.training.model_dump(mode="json", exclude=NOT_TRAINING)
    configs = {
        series.label: series.runs[0].config.model_dump(mode="json") for series in planned.series
    }
    tuned = {
        label: {"tuned": choice.model_dump(mode="json")}
        for label, choice in chosen_values(planned, params).items()
    }
    missing = (
        [label for label in planned.requested_series if label not in configs] if configs else []
    )
    return {
        "paper": planned.paper,
        "experiment": planned.name,
        "scale": params.scale,
        **({"scale_like": list(params.inherited_scales)} if params.inherited_scales else {}),
        "scale_note": params.active_scale.note,
        "compare": params.active_scale.compare,
        **reasons.to_note(planned.skipped),
        "training": training,
        "series": {
            label: {"algorithm": config["algorithm"], "config": config} | tuned.get(label, {})
            for label, config in configs.items()
        },
        **({"missing": missing} if missing else {}),
    }


def chosen_values(planned: PlannedExperiment, params: Params) -> dict[str, Chosen]:
    """Return the outcome of tuning of an experiment's tuned series, by label."""
    chosen = params.chosen(planned.paper, planned.name)
    tuned = planned.training.series if planned.training else {}
    return {
        label: chosen[label] for label, choice in tuned.items() if tuning.TUNE in choice.options
    }


def result_sources(planned: PlannedExperiment, study: str, params: Params) -> ResultSources:
    """Return what reports read of an experiment or, unless `study` is empty, of its study of this
    name. Raises UserError for an unknown one."""
    note, summaries = experiment_note(planned, params), [run.summary for run in planned.runs]
    if not study:
        return ResultSources(note, run_folders(planned), done_files=summaries)
    if study not in planned.studies:
        raise unknown_name("study", study, planned.studies)
    one = planned.studies[study]
    settings = one.settings and one.settings.model_dump(mode="json")
    note |= {
        "experiment": f"{planned.name}-{study}",
        **reasons.to_note(one.skipped),
        "study": study,
        "settings": settings,
    }
    if one.skipped:
        note.pop("missing", None)
        return ResultSources(note | {"series": {}}, {}, {})
    tables = {
        label: [study_run.table for study_run in study_runs]
        for label, study_runs in one.series.items()
    }
    done_files = dict.fromkeys((*summaries, *(study_run.done_file for study_run in one.study_runs)))
    return ResultSources(note, run_folders(planned), tables, list(done_files))


def run_folders(planned: PlannedExperiment) -> dict[str, list[Path]]:
    """Return the run folders of each series' seeds by label."""
    return {series.label: [run.folder for run in series.runs] for series in planned.series}


def planned_runs(chosen: Iterable[PlannedExperiment]) -> list[tuple[str, str, str, Run]]:
    """Return paper, experiment, label and run of some experiments."""
    runs: list[tuple[str, str, str, Run]] = []
    for item in chosen:
        for series in item.series:
            runs += [(item.paper, item.name, series.label, run) for run in series.runs]
    return runs
