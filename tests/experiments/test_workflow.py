"""The work that Snakemake's rules read, without Snakemake."""

import copy
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from fedrepro.config import registry, strict_yaml
from fedrepro.config.inheritance import merge
from fedrepro.core.errors import UserError
from fedrepro.experiments import jobs, plan, request, workflow
from fedrepro.experiments.request import Command
from fedrepro.experiments.workflow import Capacity, Workflow, plan_workflow
from fedrepro.runs.mlflow_mirror import MirrorOutcome
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind, MissingReason
from fedrepro.runs.run import Run
from support.experiments import SETTINGS, finish
from support.settings import PAPER, place, place_paper

FIGURES = {"f1": {"title": "One", "experiment": "one"}, "f2": {"title": "Two", "experiment": "two"}}
TARGETS = {
    "data",
    "train",
    "train_p",
    "tune",
    "tune_p",
    "p",
    "p_f1",
    "f1",
    "p_f2",
    "f2",
    "p_verdicts",
    "verdicts",
}
TARGETS |= {f"data_{name}" for name in registry.names("datasets")}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    place_paper(tmp_path, PAPER | {"figures": FIGURES})
    return tmp_path


def made(*requested: str, cores: int = 2, main: bool = True, **settings) -> Workflow:
    capacity = settings.pop("capacity", Capacity(cores=cores))
    file = place(Path(), merge(SETTINGS | {"device": "cpu"}, settings))
    return plan_workflow(
        strict_yaml.read(file), Command(frozenset(requested), runs_jobs=False), capacity, main
    )


def runs_of(work: Workflow) -> list[Run]:
    return plan.unique_runs(work.experiments)


def names_of(work: Workflow) -> list[str]:
    return [item.name for item in work.request.experiments]


def work_of(jobs: Iterable) -> list[str]:
    return sorted(run.id for job in jobs for run in job.items)


def test_every_unfinished_run_is_in_one_job():
    work = made()
    # FedAvg is shared
    assert (
        work_of(work.train_jobs) == sorted(run.id for run in runs_of(work))
        and len(runs_of(work)) == 6
    )
    done = finish(runs_of(work)[0])
    again = made()
    assert work_of(again.train_jobs) == sorted(run.id for run in runs_of(work) if run.id != done.id)
    assert again.finished_before == {done.summary}


def test_a_job_reads_what_the_main_process_packed():
    """Also if some of it is finished by then, and without the costs, which take time."""
    planned = {job.name: job.done_files for job in made().train_jobs}
    finish(runs_of(made())[0])
    job = made(main=False)
    assert {one.name: one.done_files for one in job.train_jobs} == planned and not any(
        one.seconds for one in job.train_jobs
    )


def test_a_paper_on_request_is_made_only_if_it_is_named_or_the_only_one():
    place_paper(Path(), PAPER | {"figures": {"f": {"title": "One", "experiment": "one"}}}, "q")
    scale = {"scales": {"quick": {"on_request": ["p"]}}}
    assert made(**scale).default_papers.keys() == {"p"}
    both = {"papers": {"q": {"one": SETTINGS["papers"]["p"]["one"]}}} | scale
    work = made(**both)
    assert {item.paper for item in work.request.experiments} == work.default_papers.keys() == {"q"}
    assert len(work.targets["train"]) == 4 and len(made("p", **both).targets["p"]) > 0
    assert names_of(made("p_f2", **scale)) == ["two"]
    assert len(made("p", **scale).targets["p"]) == len(made("p").targets["p"]) > 0


@pytest.mark.parametrize(
    ("requested", "names"),
    [
        ((), ["one", "two"]),
        (("p",), ["one", "two"]),
        (("train_p",), ["one", "two"]),
        (("f2",), ["two"]),
        (("p_f1",), ["one"]),
        (("all",), ["one", "two"]),
    ],
)
def test_the_command_line_says_what_is_requested(requested, names):
    assert sorted(names_of(made(*requested))) == names


@pytest.mark.parametrize(
    ("words", "targets", "runs_jobs"),
    [
        ("--cores all f1 --config data_mirror=/some/folder scale=x", {"f1"}, True),
        ("-c 2", set(), True),
        ("-j 2 p --summary", {"p"}, False),
        ("f1 --dag", {"f1"}, False),
        ("--unlock", set(), False),
        ("-n --cores 1 data/x.npz f2", {"data/x.npz", "f2"}, False),
        ("f1 -c1 --rerun-triggers mtime params", {"f1"}, True),
    ],
)
def test_snakemake_says_which_words_are_targets(words, targets, runs_jobs):
    assert request.read_command(words.split()) == Command(frozenset(targets), runs_jobs)


def test_data_are_needed_by_what_is_requested_and_by_rules():
    def names(*requested: str) -> list[str]:
        return sorted({item.name for item in made(*requested).request.trained})

    assert names("f2") == ["two"] and names("f2", "data") == names(
        "f2", "data/partitions/x.npz"
    ) == names() == ["one", "two"]


def test_only_what_is_requested_is_packed():
    """It alone keeps every core busy."""
    work = made("f2")
    assert (
        work_of(work.train_jobs) == sorted(run.id for run in work.plan["p"]["two"].runs)
        and len(work.train_jobs) == 2
    )
    for job in made("results/runs/p/x/summary.json").train_jobs:
        assert len({piece.experiment for piece in job.work}) == 1, (
            "one run that is named waits for no other experiment"
        )


@pytest.mark.parametrize(
    ("short", "kinds"),
    [
        (0, {"activations_p_one", "activations_p_two"}),
        (10**6, {"activations_p_one activations_p_two"}),
    ],
)
def test_studies_share_jobs_where_the_work_is_short(monkeypatch, short, kinds):
    """With long work a study would wait for the other experiment's runs too."""
    monkeypatch.setattr(jobs, "SHORT_WORK_SECONDS", short)
    studied = {
        name: {"studies": {"activations": {"every": every}}}
        for name, every in (("one", 1), ("two", 2))
    }
    work = made(cores=1, papers={"p": studied})
    assert {
        " ".join(sorted({piece.experiment for piece in job.work})) for job in work.study_jobs
    } == kinds


def test_the_longest_job_goes_first():
    seconds = [job.seconds for job in made(cores=1).train_jobs]
    assert seconds == sorted(seconds, reverse=True) and seconds[0] > 0


@pytest.mark.parametrize(("capacity", "each", "slots", "train_slots"), [
    (Capacity(cores=4), 1, 4, 4), (Capacity(cores=4), 3, 4, 1), (Capacity(), 1, 2, 2),
    (Capacity(nodes=30, cores=4), 2, 30, 30),
])  # fmt: skip
def test_slots(capacity, each, slots, train_slots):
    limits = made(capacity=capacity, cores_per_run=each).limits
    assert (limits.slots, limits.train_slots, limits.gpus_per_job, limits.gpu_slots) == (
        slots,
        train_slots,
        0,
        None,
    )


def test_a_gpu_takes_as_many_jobs_as_it_may(monkeypatch):
    monkeypatch.setattr(
        workflow.devices, "planned_device", lambda name: workflow.devices.torch.device("cuda")
    )
    monkeypatch.setattr(workflow.devices, "gpu_indices", lambda gpus: [0, 1])
    work = made(capacity=Capacity(cores=16), gpu_jobs_per_device=2, device="cuda", cores_per_run=4)
    assert (
        work.limits.gpus_per_job,
        work.limits.gpu_slots,
        work.limits.train_slots,
        work.params.cores_per_run,
    ) == (1, 4, 4, 1)
    assert made(capacity=Capacity(cores=16, gpus=1), device="cuda").limits.slots == 1


def test_targets_name_their_files():
    work = made()
    assert work.targets.keys() == TARGETS
    assert (
        set(work.targets["train"])
        == set(work.targets["train_p"])
        == {run.summary for run in runs_of(work)}
    )
    assert work.targets["f1"] == [
        f"reports/quick/p/figures/f1.{ending}" for ending in ("svg", "pdf", "png", "csv")
    ]
    assert set(work.targets["f1"]) < set(work.targets["p"]) == set(work.reports.files("p"))
    assert set(work.targets["data"]) == {
        *work.prepared(runs_of(work)),
        *work.partitions(runs_of(work)),
    }
    for targets in (work.targets, made("data_digits").targets):
        assert (
            targets["data_digits"] == [Path("data/prepared/digits/meta.json")]
            and targets["data_mnist"] == []
        )


def test_reports_of_a_paper_with_kept_results_train_nothing():
    """They say what is not run, with the command that trains it. What names runs or an artifact
    trains it."""
    one, two = made().plan["p"].values()
    for run in one.runs:
        finish(replace(run, folder=Paths().kept("p") / run.id))
    for asked in ((), ("all",), ("notebooks",), ("p",), ("reports/quick/p/figures/f2.svg",)):
        work = made(*asked)
        assert (
            not work.train_jobs
            and not work.study_jobs
            and not work.targets["data"]
            and work.reports.done_files("p")
        )
        assert work.reports.plan["p"]["two"].skipped == MissingReason(
            MissingKind.NOT_FINISHED, missing=2, total=4
        )
        (message,) = work.warnings
        assert re.fullmatch(
            r"p: not run: two\. To train them, in about \d.*: snakemake --cores 2 train_p "
            r"--config scale=quick",
            message,
        )
    missing = sorted(run.id for run in two.runs if run not in one.runs)
    for asked in (
        ("train_p",),
        ("train",),
        ("f2",),
        ("p", "f2"),
        ("results/runs/p/x/record.json",),
    ):
        assert work_of(made(*asked).train_jobs) == missing and not made(*asked).warnings, asked
    assert work_of(made("f1").train_jobs) == [] == made("f1").warnings
    for value, count in (("same_data", 2), (False, 6)):
        assert len(work_of(made("p", use_kept_results=value).train_jobs)) == count


def test_report_only_needs_no_data():
    assert made(report_only=True).targets["data"] == []


def test_the_digest_of_reports_follows_settings_and_runs():
    before = made().reports.digest("p")
    assert made().reports.digest("p") == made("f1").reports.digest("p") == before
    assert made(papers={"p": {"one": {"lr": 0.2}}}).reports.digest("p") != before


def test_a_papers_own_value_under_a_scales_is_part_of_the_digest():
    """Pages show both."""
    at_scale = {"scales": {"quick": {"experiments": {"p": {"one": {"lr": 0.2}, "two": {}}}}}}
    digests = [
        made(papers={"p": {"one": {"lr": lr}}}, **at_scale).reports.digest("p") for lr in (0.3, 0.4)
    ]
    assert digests[0] != digests[1]


def test_a_figure_that_is_requested_alone_waits_for_its_own_runs():
    work, other = made("f2"), made("f2", "p")
    assert set(work.reports.done_files("p")) == {run.summary for run in work.plan["p"]["two"].runs}
    assert [path for path in work.reports.files("p") if "/data/" not in path] == work.targets["f2"]
    assert set(other.reports.done_files("p")) == {run.summary for run in runs_of(other)}


def test_other_papers_add_no_figures():
    place_paper(Path(), PAPER | {"figures": {"f": {"title": "One", "experiment": "one"}}}, "q")
    both = {"papers": {"q": {"one": SETTINGS["papers"]["p"]["one"]}}}
    for work in (made("f2", "f2"), made("f2", "q", **both)):
        assert set(work.reports.done_files("p")) == {
            run.summary for run in work.plan["p"]["two"].runs
        }


def test_skipped_experiments_have_no_files(tmp_path):
    skipped = {"quick": {"experiments": {"p": {"two": {}}}}}
    work = made("f1", scales=skipped)
    assert work.targets["f1"] == [] and work.reports.artifact_keys("p") == []
    assert "f1: nothing to show at scale quick" in work.warnings
    assert work.train_jobs == (), "planned for nothing"
    assert (
        made("f1", "f2", scales=skipped).train_jobs
        and made("f1", "train", scales=skipped).train_jobs
    )
    assert "f1" not in made(scales=skipped).reports.artifact_keys("p")


def test_snakemakes_own_report_shows_pictures_and_tables():
    work = made()
    shown = {
        file: found
        for file in work.reports.files("p")
        if (found := work.reports.snakemake_labels("p", file))
    }
    assert {Path(file).name for file in shown} == {"f1.png", "f2.png"}
    assert shown["reports/quick/p/figures/f1.png"]["labels"] == {"name": "f1", "title": "One"}


def test_a_notebook_of_the_first_figure_that_was_run():
    assert made().reports.notebooks == {Path("reports/quick/notebooks/p_f1.ipynb"): ("p", "f1")}
    alone = made(scales={"quick": {"experiments": {"p": {"two": {}}}}})
    assert alone.reports.notebooks == {Path("reports/quick/notebooks/p_f2.ipynb"): ("p", "f2")}


def test_studies_are_jobs_of_their_own_that_wait_for_their_runs():
    work = made(papers={"p": {"one": {"studies": {"activations": {}}}}})
    cases = [case for job in work.study_jobs for case in job.items]
    assert {case.run.id for case in cases} == {run.id for run in work.plan["p"]["one"].runs}
    assert {case.run.summary for case in cases} <= set(work.study_inputs(cases))
    assert {case.done_file for case in cases} <= set(work.targets["train_p"])


def test_invalid_settings_are_refused():
    with pytest.raises(UserError, match=r"^workflow/papers/p/experiments.yaml: one: .*nonsense"):
        made(papers={"p": {"one": {"model": {"name": "nonsense"}}}})


@pytest.mark.parametrize(
    "series",
    [["fedavg"], "fedavg", 7, {"A": ["x"]}, {"A": None}, {"A": {"name": ["x"]}}, {7: "fedavg"}],
)
def test_series_that_name_no_method_are_refused(series):
    """Before pages assign styles to them."""
    values = copy.deepcopy(SETTINGS)
    values["papers"]["p"]["one"]["series"] = series
    file = place(Path(), values)
    with pytest.raises(
        UserError,
        match=r"^workflow/papers/p/experiments.yaml: (line \d+: a key that|one: series.*: Input "
        r"should be)",
    ):
        plan_workflow(strict_yaml.read(file), Command(), Capacity(cores=2))


@pytest.fixture
def copied(monkeypatch) -> list[set[tuple[str, str]]]:
    """The papers and experiments of each call that copies runs."""
    calls = []

    def mirror(runs, uri, scale):
        calls.append({(paper, experiment) for paper, experiment, _, _ in runs})
        return MirrorOutcome(0, 0, "no answer")

    monkeypatch.setattr(workflow.mlflow_mirror, "mirror", mirror)
    return calls


@pytest.mark.parametrize(("requested", "experiments"), [
    ((), {("p", "one"), ("p", "two")}), (("all",), {("p", "one"), ("p", "two")}),
    (("mirror",), {("p", "one"), ("p", "two")}),
    (("mirror", "f2"), {("p", "two")}), (("q", "mirror"), {("q", "one")}),
])  # fmt: skip
def test_mlflow_gets_the_runs_of_what_is_requested(copied, requested, experiments):
    place_paper(Path(), PAPER | {"figures": {"f": {"title": "One", "experiment": "one"}}}, "q")
    both = {
        "papers": {"q": {"one": SETTINGS["papers"]["p"]["one"]}},
        "scales": {"quick": {"on_request": ["q"]}},
    }
    assert made(*requested, **both).mlflow_problem() == "no answer" and copied == [experiments]
    for none in (None, "null"):  # in the file, and as Snakemake reads it from the command line
        assert (
            made(*requested, **both, mlflow_uri=none).mlflow_problem() is None and len(copied) == 1
        )


@pytest.mark.parametrize("target", ["p", "f2", "train", "data", "page", "reports/quick/index.html"])
def test_a_named_target_uses_mlflow_only_after_training(copied, target):
    work = made(target)
    assert work.mlflow_problem() is None and not copied
    finish(work.plan["p"]["two"].runs[0])
    assert work.mlflow_problem() == "no answer" and len(copied) == 1


@pytest.mark.parametrize("triggers", ["mtime", "mtime input"])
def test_triggers_that_do_not_see_settings_are_refused(triggers):
    with pytest.raises(UserError, match="^--rerun-triggers: without params"):
        request.read_command(["--rerun-triggers", *triggers.split()])


def test_the_first_page_stays_as_it_is_if_a_paper_with_a_page_is_left_out():
    scale = SETTINGS["scale"]
    work = made(scales={scale: {"compare": "full"}})
    assert work.reports.overview_files == [
        "reports/index.html",
        "reports/findings.svg",
        "reports/claims.csv",
    ]
    page = Path("reports", scale, "other", "index.html")
    page.parent.mkdir(parents=True)
    page.touch()
    assert work.reports.overview_files  # a page without settings does not count
    Path("workflow/papers/other").mkdir()
    assert not work.reports.overview_files
