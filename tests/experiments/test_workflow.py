"""The work that Snakemake's rules read, without Snakemake."""

import copy
from pathlib import Path

import pytest

from fedrepro.config import strict_yaml
from fedrepro.config.inheritance import merge
from fedrepro.core.errors import UserError
from fedrepro.experiments import workflow
from fedrepro.experiments.workflow import Capacity, Workflow
from fedrepro.runs.mlflow_mirror import MirrorOutcome
from support.experiments import SETTINGS, finish
from support.settings import PAPER, place, place_paper

FIGURES = {"f1": {"title": "One", "experiment": "one"}, "f2": {"title": "Two", "experiment": "two"}}
TARGETS = {"data", "train", "train_p", "tune", "tune_p", "p", "p_f1", "f1", "p_f2", "f2", "p_verdicts", "verdicts"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    place_paper(tmp_path, PAPER | {"figures": FIGURES})
    return tmp_path


def made(*requested: str, cores: int = 2, main: bool = True, **settings) -> Workflow:
    capacity = settings.pop("capacity", Capacity(cores=cores))
    file = place(Path(), merge(SETTINGS | {"device": "cpu"}, settings))
    return Workflow(strict_yaml.read(file), capacity, main, dry=True, requested=requested)


def work_of(jobs: list) -> list[str]:
    return sorted(run.id for job in jobs for run in job.work)


def test_every_unfinished_run_is_in_one_job():
    work = made()
    assert work_of(work.train_jobs) == sorted(run.id for run in work.runs) and len(work.runs) == 6  # FedAvg is shared
    done = finish(work.runs[0])
    again = made()
    assert work_of(again.train_jobs) == sorted(run.id for run in work.runs if run.id != done.id)
    assert again.finished_before == {done.summary}


def test_a_job_reads_what_the_main_process_packed():
    """Also if some of it is finished by then, and without the costs, which take time."""
    planned = {job.name: job.done_files for job in made().train_jobs}
    finish(made().runs[0])
    job = made(main=False)
    assert {one.name: one.done_files for one in job.train_jobs} == planned and job.costs == job.costs_of_rules == {}


def test_a_paper_on_request_is_made_only_if_it_is_named_or_the_only_one():
    place_paper(Path(), PAPER | {"figures": {"f": {"title": "One", "experiment": "one"}}}, "q")
    scale = {"scales": {"quick": {"on_request": ["p"]}}}
    assert made(**scale).default_papers.keys() == {"p"}
    both = {"papers": {"q": {"one": SETTINGS["papers"]["p"]["one"]}}} | scale
    work = made(**both)
    assert {item.paper for item in work.requested_experiments} == work.default_papers.keys() == {"q"}
    assert len(work.targets["train"]) == 4 and len(made("p", **both).targets["p"]) > 0
    assert [item.name for item in made("p_f2", **scale).requested_experiments] == ["two"]
    assert len(made("p", **scale).targets["p"]) == len(made("p").targets["p"]) > 0


@pytest.mark.parametrize(("requested", "names"), [
    ((), ["one", "two"]), (("p",), ["one", "two"]), (("train_p",), ["one", "two"]), (("f2",), ["two"]), (("p_f1",), ["one"]),
    (("all", "--cores", "2"), ["one", "two"]),
])  # fmt: skip
def test_the_command_line_says_what_is_requested(requested, names):
    assert [item.name for item in made(*requested).requested_experiments] == names


def test_options_values_are_no_targets():
    words = workflow.command_words(["--cores", "all", "f1", "-j", "all", "--config", "data_mirror=/some/folder", "--summary=x"])
    assert words == ["--cores", "f1", "-j", "--config", "--summary=x"]


def test_data_are_needed_by_what_is_requested_and_by_rules():
    def names(*requested: str) -> list[str]:
        work = made(*requested)
        return [item.name for item in work.experiments_needing_data(work.plan)]

    assert names("f2") == ["two"] and names("f2", "data") == names("f2", "data/partitions/x.npz") == names() == ["one", "two"]


def test_runs_of_one_figure_share_no_job_with_others():
    for job in made("f2").train_jobs:
        assert len({piece.experiment for piece in job.items}) == 1


@pytest.mark.parametrize(("short", "kinds"), [(0, {"p_one", "p_two"}), (10**6, {"p_one p_two"})])
def test_runs_that_a_study_needs_share_jobs_where_the_work_is_short(monkeypatch, short, kinds):
    """With long work the study would wait for the others too."""
    monkeypatch.setattr(workflow, "SHORT_WORK_SECONDS", short)
    work = made(cores=1, papers={"p": {"one": {"studies": {"activations": {"every": 1}}}}})
    assert {" ".join(sorted({piece.experiment for piece in job.items})) for job in work.train_jobs} == kinds
    assert len(work.study_jobs) == 1


def test_the_longest_job_goes_first():
    work = made(cores=1)
    seconds = [work.priority(f"train_{job.name}") for job in work.train_jobs]
    assert seconds == sorted(seconds, reverse=True) and work.priority("page") == 0


def test_a_retry_reserves_more_time_and_memory():
    work = made(cores=1)
    rule = f"train_{work.train_jobs[0].name}"
    largest = max(cost.cost.memory for cost in work.costs_of_rules[rule])
    assert work.megabytes(rule, attempt=1) >= largest / 1e6 > 1000 and work.megabytes(rule, 2) == 2 * work.megabytes(rule, 1)
    assert work.minutes(rule, attempt=2) == 2 * work.minutes(rule, attempt=1) > 0


@pytest.mark.parametrize(("capacity", "each", "slots"), [
    (Capacity(cores=4), 1, 4), (Capacity(cores=4), 3, 1), (Capacity(), 1, 2), (Capacity(nodes=30, cores=4), 2, 30),
])  # fmt: skip
def test_slots(capacity, each, slots):
    work = made(capacity=capacity)
    assert work.slots(each) == slots and work.gpus_per_job == 0 and work.gpu_slots is None


def test_a_gpu_takes_as_many_jobs_as_it_may(monkeypatch):
    monkeypatch.setattr(workflow.devices, "planned_device", lambda name: workflow.devices.torch.device("cuda"))
    monkeypatch.setattr(workflow.devices, "gpu_indices", lambda gpus: [0, 1])
    work = made(capacity=Capacity(cores=16), gpu_jobs_per_device=2, device="cuda", cores_per_run=4)
    assert (work.gpus_per_job, work.gpu_slots, work.slots(), work.params.cores_per_run) == (1, 4, 4, 1)
    assert made(capacity=Capacity(cores=16, gpus=1), device="cuda").slots() == 1


def test_targets_name_their_files():
    work = made()
    assert work.targets.keys() == TARGETS
    assert set(work.targets["train"]) == set(work.targets["train_p"]) == {run.summary for run in work.runs}
    assert work.targets["f1"] == [f"reports/quick/p/figures/f1.{ending}" for ending in ("svg", "pdf", "png", "csv")]
    assert set(work.targets["f1"]) < set(work.targets["p"]) == set(work.reports.files("p"))
    assert set(work.targets["data"]) == {*work.prepared(work.runs), *work.partitions(work.runs)}


def test_report_only_needs_no_data():
    assert made(report_only=True).targets["data"] == []


def test_the_digest_of_reports_follows_settings_and_runs():
    before = made().reports.digest("p")
    assert made().reports.digest("p") == made("f1").reports.digest("p") == before
    assert made(papers={"p": {"one": {"lr": 0.2}}}).reports.digest("p") != before


def test_a_papers_own_value_under_a_scales_is_part_of_the_digest():
    """Pages show both."""
    at_scale = {"scales": {"quick": {"experiments": {"p": {"one": {"lr": 0.2}, "two": {}}}}}}
    digests = [made(papers={"p": {"one": {"lr": lr}}}, **at_scale).reports.digest("p") for lr in (0.3, 0.4)]
    assert digests[0] != digests[1]


def test_a_figure_that_is_requested_alone_waits_for_its_own_runs():
    work, other = made("f2"), made("f2", "p")
    assert set(work.reports.done_files("p")) == {run.summary for run in work.plan["p"]["two"].runs}
    assert [path for path in work.reports.files("p") if "/data/" not in path] == work.targets["f2"]
    assert set(other.reports.done_files("p")) == {run.summary for run in other.runs}


def test_options_and_other_papers_add_no_figures():
    place_paper(Path(), PAPER | {"figures": {"f": {"title": "One", "experiment": "one"}}}, "q")
    both = {"papers": {"q": {"one": SETTINGS["papers"]["p"]["one"]}}}
    for work in (made("f2", "--profile", "profiles/slurm"), made("f2", "q", **both)):
        assert set(work.reports.done_files("p")) == {run.summary for run in work.plan["p"]["two"].runs}


def test_skipped_experiments_have_no_files(tmp_path):
    skipped = {"quick": {"experiments": {"p": {"two": {}}}}}
    work = made("f1", scales=skipped)
    assert work.targets["f1"] == [] and work.reports.artifact_keys("p") == []
    assert "f1: nothing to show at scale quick" in work.warnings
    assert work.train_jobs == [] and work.costs == {}, "planned for nothing"
    assert made("f1", "f2", scales=skipped).train_jobs and made("f1", "train", scales=skipped).train_jobs
    assert "f1" not in made(scales=skipped).reports.artifact_keys("p")


def test_snakemakes_own_report_shows_pictures_and_tables():
    work = made()
    shown = {file: found for file in work.reports.files("p") if (found := work.reports.snakemake_labels("p", file))}
    assert {Path(file).name for file in shown} == {"f1.png", "f2.png"}
    assert shown["reports/quick/p/figures/f1.png"]["labels"] == {"name": "f1", "title": "One"}


def test_a_notebook_of_the_first_figure_that_was_run():
    assert made().reports.notebooks == [Path("reports/quick/notebooks/p_f1.ipynb")]
    alone = made(scales={"quick": {"experiments": {"p": {"two": {}}}}})
    assert alone.reports.notebooks == [Path("reports/quick/notebooks/p_f2.ipynb")]


def test_studies_are_jobs_of_their_own_that_wait_for_their_runs():
    work = made(papers={"p": {"one": {"studies": {"activations": {}}}}})
    cases = [case for job in work.study_jobs for case in job.work]
    assert {case.run.id for case in cases} == {run.id for run in work.plan["p"]["one"].runs}
    assert {case.run.summary for case in cases} <= set(work.study_inputs(cases))
    assert {case.done_file for case in cases} <= set(work.targets["train_p"])


def test_invalid_settings_are_refused():
    with pytest.raises(UserError, match=r"^workflow/papers/p/experiments.yaml: one: .*nonsense"):
        made(papers={"p": {"one": {"model": {"name": "nonsense"}}}})


@pytest.mark.parametrize("series", [["fedavg"], "fedavg", 7, {"A": ["x"]}, {"A": None}, {"A": {"name": ["x"]}}, {7: "fedavg"}])
def test_series_that_name_no_method_are_refused(series):
    """Before pages assign styles to them."""
    values = copy.deepcopy(SETTINGS)
    values["papers"]["p"]["one"]["series"] = series
    file = place(Path(), values)
    with pytest.raises(
        UserError, match=r"^workflow/papers/p/experiments.yaml: (line \d+: a key that|one: series.*: Input should be)"
    ):
        Workflow(strict_yaml.read(file), Capacity(cores=2), dry=True, requested=())


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
    ((), {("p", "one"), ("p", "two")}), (("all", "--retries", "2"), {("p", "one"), ("p", "two")}),
    (("mirror",), {("p", "one"), ("p", "two")}),
    (("mirror", "f2"), {("p", "two")}), (("q", "mirror"), {("q", "one")}),
])  # fmt: skip
def test_mlflow_gets_the_runs_of_what_is_requested(copied, requested, experiments):
    place_paper(Path(), PAPER | {"figures": {"f": {"title": "One", "experiment": "one"}}}, "q")
    both = {"papers": {"q": {"one": SETTINGS["papers"]["p"]["one"]}}, "scales": {"quick": {"on_request": ["q"]}}}
    assert made(*requested, **both).mlflow_problem() == "no answer" and copied == [experiments]
    assert made(*requested, **both, mlflow_uri=None).mlflow_problem() is None and len(copied) == 1


@pytest.mark.parametrize("target", ["p", "f2", "train", "data", "page", "reports/quick/index.html"])
def test_a_named_target_uses_mlflow_only_after_training(copied, target):
    work = made(target)
    assert work.mlflow_problem() is None and not copied
    finish(work.plan["p"]["two"].runs[0])
    assert work.mlflow_problem() == "no answer" and len(copied) == 1


@pytest.mark.parametrize(
    "triggers", [("--rerun-triggers", "mtime"), ("--rerun-triggers=mtime",), ("--rerun-triggers", "mtime", "input")]
)
def test_triggers_that_do_not_see_settings_are_refused(triggers):
    with pytest.raises(UserError, match="^--rerun-triggers: without params"):
        made(*triggers)
    assert made("--rerun-triggers", "mtime", "params").requested_experiments


def test_the_first_page_stays_as_it_is_if_a_paper_with_a_page_is_left_out():
    scale = SETTINGS["scale"]
    work = made(scales={scale: {"compare": "full"}})
    assert work.reports.overview_files == ["reports/index.html", "reports/findings.svg"]
    page = Path("reports", scale, "other", "index.html")
    page.parent.mkdir(parents=True)
    page.touch()
    assert work.reports.overview_files  # a page without settings does not count
    Path("workflow/papers/other").mkdir()
    assert not work.reports.overview_files
