"""Tuning: the trials of a series' grid, the choice among them, and the evaluation with what was
chosen."""

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedrepro.cli.main import main
from fedrepro.config import strict_yaml
from fedrepro.config.inheritance import merge
from fedrepro.config.params import Params, read_params
from fedrepro.core.errors import UserError
from fedrepro.experiments import keep, prune, resolve, trials
from fedrepro.experiments import plan as experiments
from fedrepro.experiments.request import Command
from fedrepro.experiments.workflow import Capacity, Workflow, plan_workflow
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind
from fedrepro.runs.run import Run
from support.code import forget
from support.experiments import SETTINGS, finish
from support.settings import PAPER, place, place_paper

GRID = {"mu": [0.1, 1, 10], "lr": [0.05, 0.2]}
TUNED = {
    "validation": {"share": 0.1},
    "tuning": {"budget": 6, "seeds": [7, 8], "last": 2},
    "series": {"Prox": {"name": "fedprox", "tune": GRID}},
}
CHOSEN = Path("workflow/papers/p/chosen.yaml")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    place_paper(tmp_path, PAPER | {"figures": {"f": {"title": "One", "experiment": "one"}}})
    return tmp_path


def settings(**changes) -> Params:
    """The experiment "one" with a grid, and changes of it; its choices are those in the working
    folder."""
    return read_params(
        place(
            Path(),
            merge(SETTINGS | {"device": "cpu"}, {"papers": {"p": {"one": merge(TUNED, changes)}}}),
        )
    )


def planned(params: Params) -> trials.TunedSeries:
    [tuned] = trials.plan_trials(params, Paths())
    return tuned


def measured(value: float, measure: str = "validation_accuracy") -> str:
    """The rows of a run that ends, over its last two rounds, at a mean value."""
    return f"round,{measure}\n0,0\n1,0.9\n2,{value - 0.02!r}\n3,{value + 0.02!r}\n"


def finish_all(tuned: trials.TunedSeries, score, **changes) -> None:
    for trial in tuned.trials:
        for run in trial.runs:
            finish(run, measured(score(trial.values, run), tuned.training.tuning.by), **changes)


def by_mu(values: dict, run: Run) -> float:
    """Best at mu = 1 and the higher rate; seeds scatter."""
    return (
        0.5
        - 0.1 * abs(values["mu"] - 1) / 9
        + values["lr"]
        + (0.05 if run.config.seed == 7 else -0.05)
    )


def chosen(params: Params, score=by_mu) -> trials.Chosen:
    """What is chosen after all trials are finished, as it is read from the file."""
    finish_all(planned(params), score)
    assert trials.write_choices(trials.plan_trials(params, Paths()), params) == [CHOSEN]
    return settings().chosen("p", "one")["Prox"]


def test_trials_are_ordinary_runs_that_measure_validation_images_alone():
    tuned = planned(settings())
    assert [trial.values for trial in tuned.trials] == [
        {"mu": mu, "lr": lr} for mu in GRID["mu"] for lr in GRID["lr"]
    ]
    runs = [run for trial in tuned.trials for run in trial.runs]
    assert len({run.id for run in runs}) == 12 and {run.config.seed for run in runs} == {7, 8}
    for trial in tuned.trials:
        for run in trial.runs:
            assert (
                run.config.measures == ("validation_accuracy",)
                and run.config.lr == trial.values["lr"]
            )
            assert run.config.algorithm.options["mu"] == trial.values["mu"]


def test_the_best_trial_is_chosen_and_evaluated():
    params = settings()
    before = experiments.plan_experiments(params, Paths())["p"]["one"]
    assert before.skipped and before.skipped.kind == MissingKind.NOT_TUNED and before.blocked
    assert str(before.skipped).endswith("for Prox. Choose them: fedrepro tune p --scale quick")
    choice = chosen(params)
    # mu = 1 is within its grid
    assert choice.values == {"mu": 1, "lr": 0.2} and choice.at_edge == ("lr",)
    assert choice.score == pytest.approx(0.7) and choice.scores[3] == choice.score == max(
        choice.scores
    )
    assert (choice.trials, choice.budget, choice.grid) == (6, 6, GRID)
    after = experiments.plan_experiments(settings(), Paths())["p"]["one"]
    prox = {series.label: series.runs for series in after.series}["Prox"]
    assert [run.config.seed for run in prox] == [0, 1] and prox[0].config.lr == 0.2
    assert prox[0].config.algorithm.options["mu"] == 1 and prox[0].config.measures != (
        "validation_accuracy",
    )
    note = experiments.experiment_note(after, settings())
    assert (
        note["series"]["Prox"]["tuned"]["score"] == choice.score
        and "tuned" not in note["series"]["FedMMD"]
    )


def test_a_lower_loss_is_better_and_a_diverged_trial_is_never_chosen():
    params = settings(tuning={"by": "validation_loss"})
    tuned = planned(params)
    finish_all(tuned, by_mu)
    assert tuned.choose().values == {"mu": 10, "lr": 0.05}
    finish(tuned.trials[4].runs[1], measured(0.0, "validation_loss"), status="diverged at round 2")
    assert tuned.choose().values == {"mu": 0.1, "lr": 0.05} and tuned.choose().scores[4] is None
    finish_all(tuned, by_mu, status="diverged at round 2")
    with pytest.raises(
        UserError, match="p one Prox: all 6 trials diverged. Change the values in its grid."
    ):
        tuned.choose()


def test_a_score_is_of_trained_rounds():
    """A window longer than the run has all its measured rounds, but not round 0."""
    tuned = planned(settings(tuning={"last": 9}))
    finish_all(tuned, lambda values, run: 0.3)
    assert (
        tuned.choose().score == pytest.approx((0.9 + 0.28 + 0.32) / 3)
        and min(tuned.choose().scores) == 0.5
    )


def test_rounding_errors_decide_no_choice():
    """The scores of all trials are 0.3, that of the last by its rounding errors a bit more: the
    first is chosen."""
    tuned = planned(settings(tuning={"last": 1}))
    for trial in tuned.trials:
        for run in trial.runs:
            best = 0.1 + 0.2 if trial is tuned.trials[-1] else 0.3
            finish(run, f"round,validation_accuracy\n1,{best!r}\n")
    assert tuned.trials[-1].score(tuned.training.tuning) > tuned.trials[0].score(
        tuned.training.tuning
    )
    assert tuned.choose().values == {"mu": 0.1, "lr": 0.05}


def test_a_choice_of_other_settings_is_none():
    chosen(settings())
    # only the evaluation's
    assert experiments.plan_experiments(settings(seeds=[4]), Paths())["p"]["one"].skipped is None
    for changes in (
        {"rounds": 4},
        {"tuning": {"last": 1}},
        {"series": {"Prox": {"tune": {"mu": [0.1, 1]}}}},
    ):
        skipped = experiments.plan_experiments(settings(**changes), Paths())["p"]["one"].skipped
        assert skipped and skipped.kind == MissingKind.NOT_TUNED
        assert planned(settings(**changes)).stale == "the values were chosen with other settings"


@pytest.mark.parametrize("key", ["data", "code"])
def test_a_choice_of_other_code_or_data_is_used_with_one_message(key):
    chosen(settings())
    CHOSEN.write_text(re.sub(f"{key}: .*", f"{key}: other", CHOSEN.read_text()))
    assert planned(settings()).stale == f"the values were chosen with other {key}"
    item = experiments.plan_experiments(settings().model_copy(update={"scale": "quick"}), Paths())[
        "p"
    ]["one"]
    assert item.skipped is None
    warnings = [line for line in experiments.warnings([item]) if "chosen" in line]
    text = (
        f"p one: its values were chosen with other {key}; to choose again: fedrepro tune p "
        f"--scale quick"
    )
    # of code: where numbers are compared with a paper's
    assert warnings == ([text] if key == "data" else [])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"series": {"Prox": {"tune": {"mu": []}}}},
            "series.Prox.tune: expected options with lists of values, e.g. {lr: [0.01, ",
        ),
        (
            {"series": {"Prox": {"tune": {}}}, "tuning": {"budget": 5}},
            "series.Prox.tune: 6 combinations, the budget is 5. Leave ",
        ),
        (
            {"series": {"Prox": {"tune": {"nu": [1]}}}},
            "series.Prox.tune: unknown option 'nu': choose from ",
        ),
        (
            {"series": {"Prox": {"tune": {"mu": [-1, 1]}}}},
            "mu: Input should be greater than or equal to 0",
        ),
        (
            {"series": {"Prox": {"tune": {"mu": [1, 1]}}}},
            "series.Prox.tune.mu: values must be unique",
        ),
        (
            {"series": {"FedAvg": {"name": "fedavg", "tune": [0.1]}}},
            "series.FedAvg.tune: expected options with lists of values",
        ),
        (
            {"tuning": {"seeds": [1, 7]}},
            "tuning.seeds: 1 is a seed of the evaluation too. Choose others.",
        ),
        (
            {"tuning": {"by": "test_accuracy"}},
            "tuning.by: test_accuracy is measured on the test set. Choose a validation measure.",
        ),
        ({"validation": None}, "tuning: needs validation, e.g. {share: 0.1}"),
        ({"tuning": None}, "series.Prox.tune: needs tuning, e.g. {budget: 6, seeds: [100]}"),
    ],
    ids=str,
)
def test_mistakes_name_file_and_key_before_anything_is_trained(changes, words):
    params = settings(**changes)
    with pytest.raises(UserError) as caught:
        trials.plan_trials(params, Paths())
        experiments.plan_experiments(params, Paths())
    assert words in str(caught.value) and "workflow/papers/p/experiments.yaml: one: " in str(
        caught.value
    )
    with pytest.raises(UserError, match=re.escape(words[:30])):
        resolve.check_other_scales(params.model_copy(update={"scale": "long"}))


def test_a_damaged_file_of_choices_is_an_error():
    CHOSEN.parent.mkdir(parents=True, exist_ok=True)
    CHOSEN.write_text("quick: {one: {Prox: {values: {mu: 1}}}}\n")
    with pytest.raises(UserError, match=r"chosen.yaml: quick.one.Prox.score: Field required"):
        settings()


def work(*requested: str, main: bool = True) -> Workflow:
    settings()
    command = Command(frozenset(requested), runs_jobs=False)
    return plan_workflow(strict_yaml.read(Path("params.yaml")), command, Capacity(cores=2), main)


def test_snakemake_trains_trials_only_if_asked():
    """A job reads them whatever its command line says; those of current choices are not trained
    again."""
    ids = {run.id for trial in planned(settings()).trials for run in trial.runs}
    assert not ids & {run.id for job in work("train").train_jobs for run in job.items}
    asked = work("tune_p")
    assert {run.id for job in asked.train_jobs for run in job.items} == ids
    assert (
        set(asked.targets["tune_p"])
        == set(asked.targets["tune"])
        == {run.summary for trial in planned(settings()).trials for run in trial.runs}
    )
    assert {item.name for item in asked.request.trained} == {"one-tuning"}
    packed = {job.name for job in asked.train_jobs}
    assert {job.name for job in work(main=False).train_jobs} >= packed
    with pytest.raises(UserError, match="p one: no values are chosen with these settings for Prox"):
        work("f")
    chosen(settings())
    assert work("tune_p").targets["tune_p"] == []


def test_the_command_trains_and_writes_and_then_has_nothing_to_do(monkeypatch, capsys):
    commands = []

    def snakemake(command: list[str]) -> SimpleNamespace:
        commands.append(command[1:])
        finish_all(planned(settings()), by_mu)
        return SimpleNamespace(wait=lambda: 0, terminate=None)

    settings()
    monkeypatch.setattr(subprocess, "Popen", snakemake)
    assert main(["tune", "p", "--scale", "quick", "--cores", "1"]) == 0
    assert commands == [["-m", "snakemake", "--cores", "1", "tune_p", "--config", "scale=quick"]]
    assert capsys.readouterr().out == f"p one Prox: no values are chosen\n{CHOSEN}: written\n"
    assert main(["tune"]) == 0 and len(commands) == 1
    assert capsys.readouterr().out == "all chosen values are up to date\n"
    assert main(["tune", "q"]) == 2


def test_trials_are_not_kept_with_their_experiment(monkeypatch):
    asked = []
    monkeypatch.setattr(keep, "keep", lambda chosen, paths: asked.extend(chosen) or [])
    chosen(settings())
    assert main(["keep", "one"]) == 0
    assert [item.name for item in asked] == ["one"]


def test_trials_are_not_pruned():
    tuned = planned(settings())
    finish_all(tuned, by_mu)
    forget()
    folders = {run.folder for trial in tuned.trials for run in trial.runs}
    assert not folders & set(prune.unused(settings(), Paths()))
    assert folders == set(prune.unused(settings(tuning={"seeds": [5]}), Paths()))
