"""Tuning runs: trials of the values in a series' grid, and the choice of the best in chosen.yaml.

A trial is an ordinary run for each seed of `tuning.seeds`, which measures validation images alone:
it is named by a hash, packed into jobs, resumed and kept like any other.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from fedrepro.config.params import CHOSEN, Chosen, Experiment, Params, Tuning
from fedrepro.core.errors import DataUnavailable, UserError
from fedrepro.core.files import atomic_write
from fedrepro.core.metrics import MEASURES
from fedrepro.experiments import plan, tuning
from fedrepro.experiments.plan import Plan, PlannedExperiment, Series
from fedrepro.experiments.resolve import error_prefix_at_scale, experiment_at_scale, run_configs
from fedrepro.experiments.run_lookup import DatasetIdentities, RunLookup
from fedrepro.experiments.tuning import Values
from fedrepro.report.statistics import EPSILON
from fedrepro.runs import records
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingReason
from fedrepro.runs.run import Run, code_digest

NOTE = (
    "# Written by `fedrepro tune`: for each scale, experiment and series the chosen values "
    "and how they were chosen.\n"
)
DIGITS = 5  # of a score


@dataclass(frozen=True)
class Trial:
    """Values that are tried, and a run for each seed."""

    values: Values
    runs: tuple[Run, ...]

    @property
    def finished(self) -> bool:
        return all(run.summary.exists() for run in self.runs)

    def score(self, by: Tuning) -> float | None:
        """Return the mean of the measure over the last measured rounds and the seeds; None if not
        finite or a run diverged."""
        scores: list[float] = []
        for run in self.runs:
            record = records.load(run.folder)
            if record["status"] != "finished":
                return None
            trained = (row for row in records.rows(record["columns"]) if int(row["round"]) > 0)
            scores.append(
                mean([float(row[by.by]) for row in trained if row.get(by.by)][-by.last :])
            )
        score = mean(scores)
        return score if math.isfinite(score) else None


@dataclass(frozen=True)
class TunedSeries:
    """A series with a grid, its trials, and the values that were chosen before, if any."""

    paper: str
    experiment: str
    label: str
    training: Experiment
    trials: tuple[Trial, ...]
    before: Chosen | None

    @property
    def location(self) -> str:
        return f"{self.paper} {self.experiment} {self.label}"

    @property
    def settings(self) -> str:
        return tuning.settings_digest(self.training, self.training.series[self.label])

    @property
    def stale(self) -> str | None:
        """Why values have to be chosen; None if the chosen ones are of these settings, data and
        code."""
        run = self.trials[0].runs[0]
        if self.before is None:
            return "no values are chosen"
        now = {"settings": self.settings, "data": run.data, "code": code_digest(run.config)}
        other = [name for name, value in now.items() if getattr(self.before, name) != value]
        return f"the values were chosen with other {' and '.join(other)}" if other else None

    @property
    def unfinished(self) -> bool:
        return not all(trial.finished for trial in self.trials)

    def choose(self) -> Chosen:
        """Return the outcome: the first of the best trials. Raises UserError if all diverged."""
        by = self.training.tuning
        assert by is not None
        scores = [trial.score(by) for trial in self.trials]
        finished = {number: score for number, score in enumerate(scores) if score is not None}
        if not finished:
            raise UserError(
                f"{self.location}: all {len(scores)} trials diverged. Change the values in its "
                f"grid."
            )
        top = max(_sign(by) * score for score in finished.values())
        best = next(
            number for number, score in finished.items() if _sign(by) * score >= top - EPSILON
        )
        values, grid = (
            self.trials[best].values,
            self.training.series[self.label].options[tuning.TUNE],
        )
        return Chosen(
            values=values,
            score=round(finished[best], DIGITS),
            at_edge=tuple(name for name, value in values.items() if _is_at_edge(value, grid[name])),
            trials=len(scores),
            budget=by.budget,
            by=by.by,
            grid=grid,
            scores=tuple(None if score is None else round(score, DIGITS) for score in scores),
            settings=self.settings,
            data=self.trials[0].runs[0].data,
            code=self.trials[0].runs[0].code,
        )


def _sign(by: Tuning) -> int:
    """Return what makes a higher score the better."""
    return -1 if MEASURES[by.by].score == "loss" else 1


def _is_at_edge(value: Any, listed: list[Any]) -> bool:
    """Return whether a number is the smallest or the largest of several; others have no order."""
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in listed)
    return numbers and len(listed) > 1 and value in (min(listed), max(listed))


def plan_trials(
    params: Params,
    paths: Paths,
    papers: Collection[str] | None = None,
    fetch: bool = False,
    data: DatasetIdentities | None = None,
) -> list[TunedSeries]:
    """Plan the trials of the active scale, of some papers or of all. Raises UserError, naming file
    and key.

    Args:
        fetch: whether to prepare the data without which runs have no names.
    """
    data, tuned = data or DatasetIdentities(params, paths), []
    for paper, settings in params.paper_settings.items():
        if papers is not None and paper not in papers:
            continue
        lookup = plan.run_lookup(paths, paper, params)
        for name in settings.experiments:
            try:
                with error_prefix_at_scale(params, paper, name) as where:
                    training = experiment_at_scale(params, paper, name, where)
                    if isinstance(training, MissingReason) or training.tuning is None:
                        continue
                    if fetch:
                        data.prepare_unidentified([training.dataset])
                    tuned += _plan_experiment(params, paper, name, training, data, lookup, where)
            except DataUnavailable as error:
                raise UserError(f"{paper} {name}: {error}") from None
    return tuned


def _plan_experiment(
    params: Params,
    paper: str,
    name: str,
    training: Experiment,
    data: DatasetIdentities,
    lookup: RunLookup,
    where: str,
) -> list[TunedSeries]:
    assert training.tuning is not None
    trial = training.model_copy(
        update={"seeds": training.tuning.seeds, "measures": (training.tuning.by,), "studies": {}}
    )
    chosen, tuned = params.chosen(paper, name), []
    for label, choice in training.series.items():
        if tuning.TUNE not in choice.options:
            continue
        place, trials = f"{where}: series.{label}", []
        for values in tuning.combinations(training, choice, place):
            configs = run_configs(params, trial, tuning.with_values(choice, values), place)
            runs = tuple(lookup.find(config, data.identity(config.dataset)) for config in configs)
            trials.append(Trial(values, runs))
        tuned.append(TunedSeries(paper, name, label, training, tuple(trials), chosen.get(label)))
    return tuned


def as_plan(tuned: Iterable[TunedSeries]) -> Plan:
    """Return the trials as experiments named `<experiment>-tuning`, with a series for each
    trial."""
    planned: dict[str, dict[str, PlannedExperiment]] = {}
    for one in tuned:
        name = f"{one.experiment}-tuning"
        before = planned.setdefault(one.paper, {}).get(name)
        series = tuple(
            Series(f"{one.label} {number}", trial.runs) for number, trial in enumerate(one.trials)
        )
        training = one.training.model_copy(update={"studies": {}})
        planned[one.paper][name] = PlannedExperiment(
            one.paper, name, training, (*(before.series if before else ()), *series)
        )
    return planned


def write_choices(tuned: Collection[TunedSeries], params: Params) -> list[Path]:
    """Write the choices of series whose trials are finished to chosen.yaml of each paper; returns
    the changed files.

    Choices at the active scale of series that no longer have a grid are left out.
    """
    changed = []
    for paper in dict.fromkeys(one.paper for one in tuned):
        settings, at_scale = params.paper_settings[paper], {}
        for one in (one for one in tuned if one.paper == paper):
            if choice := one.before if one.unfinished else one.choose():
                at_scale.setdefault(one.experiment, {})[one.label] = choice
        path, text = settings.folder / CHOSEN, _to_yaml(settings.chosen | {params.scale: at_scale})
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            with atomic_write(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def _to_yaml(chosen: Mapping[str, Mapping[str, Mapping[str, Chosen]]]) -> str:
    values = {
        scale: {
            name: {label: choice.model_dump(mode="json") for label, choice in group.items()}
            for name, group in experiments.items()
        }
        for scale, experiments in chosen.items()
    }
    return NOTE + yaml.safe_dump(
        values, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True
    )
