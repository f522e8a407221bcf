"""The command line: a mistake is one message with exit code 2; a tiny federation is planned, trained, kept and pruned."""

import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedrepro.cli import commands, main
from fedrepro.cli import targets as listing
from fedrepro.config import strict_yaml
from fedrepro.config.params import read_params
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.experiments.plan import plan_experiments
from fedrepro.experiments.request import Command
from fedrepro.experiments.workflow import Capacity, plan_workflow
from fedrepro.runs import records
from fedrepro.runs.paths import Paths
from support import settings
from support.checkout import ROOT
from support.experiments import finish
from support.files import mnist_files, write_all
from support.settings import PAPER, fig, write

WHERE = "workflow/papers/p/experiments.yaml: fig: series.FedAvg: "


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty place to work in."""
    monkeypatch.delenv("FEDREPRO_DATA_MIRROR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, *arguments: str) -> str:
    """The one message of a command that ends with exit code 2."""
    assert main.main(list(arguments)) == 2
    output = capsys.readouterr().err
    messages = [line for line in output.splitlines() if line.startswith("error: ")]
    assert len(messages) == 1 and "Traceback" not in output
    return output[output.index("error: ") + 7 :].strip()


@pytest.mark.parametrize(("changes", "words"), [
    ({"scale": "huge"}, ["scale: unknown scale 'huge': choose from quick, other"]),
    ({"scael": "quick"}, ["scael: unknown key: choose from ", "scale"]),
    ({"scales": {"quick": {"compare": "all"}}}, ["scales.quick.compare: ", "'none', 'direction' or 'full'"]),
    ({"scales": {"quick": {"experiments": {"p": {"x": {}}}}}}, ["unknown experiment 'x': choose from fig"]),
    (fig(rounds=-3), ["yaml: fig: ", "rounds: ", "(got -3)"]),
    (fig(clients_per_round=9), ["yaml: fig: ", "clients_per_round: at most the 3 clients of the partition (got 9)"]),
    (fig(dataset="mnst"), ["unknown dataset 'mnst': choose from ", "mnist"]),
    (fig(model={"name": "mnist_cnn", "arch": [1]}), ["yaml: fig: ", "model mnist_cnn: arch: Input should be 'paper', "]),
    (fig(series={"X": {"name": "fedx"}}), ["yaml: fig: ", "series.X", "unknown algorithm 'fedx': choose from ", "fedprox"]),
    (fig(series={"Prox": {"my": 1}}), ["series.Prox", "my: unknown key: choose from ", "mu"]),
    (fig(series={"CL": {"name": "fedcl", "every": 0}}), ["series.CL", "algorithm fedcl: every: ", "(got 0)"]),
    (fig(partition={"name": "dirichlet", "alpha": 0}), ["yaml: fig: ", "partition dirichlet: alpha: ", "(got 0)"]),
    (fig(partition={"clients": 61}), [f"{WHERE}partition.clients: at most the 60 train images of digits (got 61)"]),
    (fig(train_images=9999), [f"{WHERE}train_images: digits has 1438 (got 9999)"]),
    (fig(proxy={"share": 0.97, "removed": True}), [f"{WHERE}proxy.share: removed: true takes", "leaves 2 for 3 clients"]),
], ids=str)  # fmt: skip
def test_mistakes_in_the_settings(changes, words, here, capsys):
    write(here, changes, "mine.yaml")
    for command in ("train", "plan"):
        output = refused(capsys, command, "--params", "mine.yaml")
        assert output.startswith(("mine.yaml: ", "workflow/papers/p/"))
        assert all(word in output for word in words)
    assert sorted(path.name for path in here.iterdir()) == ["mine.yaml", "workflow"]


def test_a_partition_that_cannot_be_drawn_and_a_file_that_is_no_text(here, capsys, ready):
    write(here, fig(partition={"name": "shards", "clients": 40}))
    (here / "data").symlink_to(ready / "data")
    assert "partition shards: 40 clients x 2 shards need 80 images, got 60" in refused(capsys, "train")
    (here / "params.yaml").write_bytes(b"\x80")
    assert "params.yaml: cannot be read as text: " in refused(capsys, "train")


@pytest.mark.parametrize(("arguments", "words"), [
    (("train", "--scale", "huge"), "unknown scale 'huge': choose from quick, other"),
    (("store", "--paper", "q"), "unknown paper 'q': choose from p"),
    (("plan", "--device", "tpu"), "--device: Input should be 'auto', 'cpu' or 'cuda'"),
    (("train", "--executor", "fast"), "--executor: Input should be 'auto', 'sequential'"),
    (("train", "--runs", "absent.json", "--executor", "fast"), "unknown executor 'fast': choose from auto, sequential"),
    (("train", "--runs", "absent.json"), "absent.json: cannot be read"),
    (("train", "--runs", "absent.json", "--scale", "p"), "--runs: trains what is in the list"),
    (("train", "--runs", "absent.json", "fig"), "cannot be combined with targets"),
    (("train", "--part", "1/2"), "--part: divides a list of runs. Name the list with --runs."),
    (("plan", "--export", "absent/runs.json"), "absent/runs.json: cannot be written"),
    (("train", "--data-mirror", "absent"), "absent"),
    (("train", "--data-mirror", "."), "p fig: data not available: data mirror .: "),
    (("plan", "figure"), "workflow/papers/p/artifacts.yaml: no such file"),
    (("train", "--results", "params.yaml"), "cannot create the run's folder"),
    (("notebook", "fig"), "workflow/papers/p/artifacts.yaml: no such file"),
    *((arguments, "an argument: empty. Give a value, or leave it out.") for arguments in (
        ("train", "--device", ""), ("keep", "--scale", ""), ("plan", ""), ("train", "--budget", ""), ("plan", "--params", ""))),
    (("train", "--device="), "--device=: empty. Give a value, or leave it out."),
    (("train", "--runs", "/proc/self/mem"), "/proc/self/mem: damaged; write it with: fedrepro plan --export"),
    (("train", "--runs", "/dev/zero"), "/dev/zero: not a file; "),
])  # fmt: skip
def test_mistakes_in_the_options(arguments, words, here, capsys, request):
    write(here, {})
    if "--results" in arguments:
        (here / "data").symlink_to(request.getfixturevalue("ready") / "data")
    if "--data-mirror" in arguments:
        write(here, fig(dataset="mnist"))
    assert words in refused(capsys, *arguments)


@pytest.mark.parametrize(("arguments", "words"), [
    ((), "error: "), (("fly",), "error: "), (("plan", "--budget", "3"), "unrecognized arguments: --"),
    *((("train", "--part", text), "expected a part") for text in ("4/3", "0/3", "3", "1/-1")),
    *((("train", "--budget", text), "with s, m or h") for text in ("soon", "m", "3d", "1 h", "1e3", "nan", ".5m")),
    *((command, "unrecognized arguments: --") for command in (
        ("train", "--no"), ("prune", "--scale", "quick"), ("keep", "--device", "cpu"), ("docs", "--params=x"),
    )),
])  # fmt: skip
def test_usage(arguments, words, here, capsys):
    """A command takes no option that it would not obey."""
    with pytest.raises(SystemExit) as caught:
        main.main(list(arguments))
    assert caught.value.code == 2 and words in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("9m", 540), ("1.5h", 5400), ("0", 0)])
def test_budget(text, seconds):
    assert main.parse_seconds(text) == seconds


def shell(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
    folders = os.pathsep.join([str(Path(main.__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": folders} | variables
    return subprocess.run([sys.executable, "-m", "fedrepro.cli", *arguments], capture_output=True, text=True, env=environment)


def test_a_mistake_as_the_shell_sees_it(here):
    write(here, {})
    done = shell("train", "--scale", "q")
    message = "error: --scale: unknown scale 'q': choose from quick, other\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_generated_files_are_written_in_the_repository_alone(here, capsys):
    assert refused(capsys, "docs") == "params.yaml: no such file. Run the command in the folder of the repository."


def test_generated_files_are_not_written_without_their_texts(here, capsys):
    """Python drops docstrings then, and half of the reference with them."""
    write(here, {})
    done = shell("docs", PYTHONOPTIMIZE="2")
    assert done.returncode == 2 and done.stderr.startswith("error: PYTHONOPTIMIZE=2: Python leaves out the texts")


def test_a_variable_that_names_no_commit_is_refused_at_the_start(ready, monkeypatch, capsys):
    """Before any run, and once for all of them."""
    write(ready, fig())
    monkeypatch.setattr(provenance, "head_commit", lambda: (None, ""))
    monkeypatch.setattr(provenance, "current_commit", provenance.current_commit.__wrapped__)
    monkeypatch.setenv("FEDREPRO_COMMIT", "test")
    assert refused(capsys, "train") == "FEDREPRO_COMMIT: 'test' names no commit; set what `git rev-parse HEAD` prints"
    assert not Path("results/runs").exists()
    with pytest.raises(UserError, match="^FEDREPRO_COMMIT: 'test' names no commit"):
        plan_workflow(strict_yaml.read(Path("params.yaml")), Command(), Capacity())


def test_stopped_by_hand(here, capsys, monkeypatch):
    from fedrepro.training import runner

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    write(here, {})
    monkeypatch.setattr(runner, "train", stop)
    assert main.main(["train"]) == 130 and "the same command continues" in capsys.readouterr().err


def test_studies_of_what_is_finished_are_made_though_a_run_failed(here, capsys, monkeypatch):
    from fedrepro.experiments import study_runner
    from fedrepro.training import runner

    def train(runs, *arguments, failures, **options):
        done, failing = runs
        done.folder.mkdir(parents=True)
        done.summary.write_text("{}")
        with failures.collect(failing.id):
            raise UserError("no luck")
        return []

    made = []
    monkeypatch.setattr(runner, "train", train)
    study = SimpleNamespace(snapshots=frozenset)
    monkeypatch.setattr(
        commands, "_unfinished_studies", lambda chosen: [SimpleNamespace(run=run, study=study) for run in chosen[0].runs]
    )
    monkeypatch.setattr(study_runner, "run_studies", lambda cases, *_, **options: made.extend(cases) or [])
    write(here, {})
    assert "digits-fedprox-s0-" in (output := refused(capsys, "train")) and "no luck" in output
    assert [case.run.config.algorithm.name for case in made] == ["fedavg"]


@pytest.mark.parametrize("mirror", ["http://127.0.0.1:9", "mirror"])
@pytest.mark.parametrize("data", [
    {"dataset": "mnist"}, {"dataset": {"name": "synthetic", "devices": 3, "train": 40, "side": 16}, "pixel_scaling": "raw"},
], ids=["fetched", "drawn"])  # fmt: skip
def test_plans_and_lists_fetch_draw_and_prepare_nothing(data, mirror, paper, monkeypatch):
    """Though only the data can tell whether the mirror's are the official release, and what a draw with these options gives."""

    def refuse(*arguments, **options):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    write_all(paper / "mirror" / "mnist", mnist_files())
    write(paper, fig(**data) | {"data_mirror": mirror})
    for command in ("plan", "list", "prune"):
        assert main.main([command]) == 0
    assert not (paper / "data").exists()


# ---- one workplace, in the order of work


@pytest.fixture(scope="module")
def ready(tmp_path_factory) -> Path:
    """A folder with settings where everything was trained, after a budget of nothing."""
    folder = tmp_path_factory.mktemp("work")
    write(folder, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FEDREPRO_DATA_MIRROR", raising=False)
        patch.chdir(folder)
        assert main.main(["train", "--budget", "0s"]) == 3
        assert not list(folder.glob("results/runs/p/*/record.json"))
        assert main.main(["train"]) == 0
    return folder


def snapshot(folder: Path) -> dict:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_train_trains(ready):
    runs = sorted((ready / "results" / "runs" / "p").iterdir())
    assert [re.sub("-[0-9a-f]{10}$", "", run.name) for run in runs] == ["digits-fedavg-s0", "digits-fedprox-s0"]
    for run in runs:
        record = records.load(run)
        assert (record["status"], record["rounds"]) == ("finished", 2) and 0 <= record["final"]["test_accuracy"] <= 1
        assert record["columns"]["round"] == [0, 1, 2]
    assert len(list((ready / "data" / "partitions").glob("*.npz"))) == 1  # the two share it


def test_train_twice_does_nothing(ready, monkeypatch):
    monkeypatch.chdir(ready)
    before = snapshot(ready)
    assert main.main(["train"]) == main.main(["train", "--budget", "0s"]) == 0
    assert snapshot(ready) == before


def test_settings_that_train_nothing(ready, monkeypatch, tmp_path, caplog, capsys):
    write(tmp_path, {"report_only": True})
    monkeypatch.chdir(tmp_path)
    assert main.main(["train"]) == 0 and not list(tmp_path.glob("results/runs/*/*"))
    assert "params.yaml: report_only: true trains nothing" in caplog.messages
    monkeypatch.chdir(ready)
    assert main.main(["train", "--scale", "other"]) == 0
    assert (
        main.main(["plan", "--scale", "other"]) == 0
        and "skipped: not part of scale other; run it at scale quick" in capsys.readouterr().out
    )


def test_plan_and_export(ready, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(ready)
    assert main.main(["plan"]) == 0 and re.search(r"p/fig +0 of 2 ", capsys.readouterr().out)
    params = write(tmp_path, fig(rounds=1, series={"Prox": None, "FedAvg": {"name": "fedavg"}}) | {"scale": "quick"})
    results = str(tmp_path / "results")
    assert main.main(["plan", "--params", str(params), "--results", results, "--export", str(tmp_path / "runs.json")]) == 0
    assert re.search(r"p/fig +1 of 1 ", capsys.readouterr().out)
    asked = []
    with monkeypatch.context() as patch:  # a machine with the variable has its data from there, as params.yaml has it
        patch.setenv("FEDREPRO_DATA_MIRROR", "there")
        patch.setattr("fedrepro.training.runner.train", lambda *arguments, mirror, **options: asked.append(mirror) or [])
        assert main.main(["train", "--runs", str(tmp_path / "runs.json"), "--results", results]) == 0 and asked == ["there"]
    training = ["train", "--runs", str(tmp_path / "runs.json"), "--results", results, "--device", "cpu"]
    assert main.main([*training, "--part", "2/2"]) == 0 and not (tmp_path / "results" / "runs").exists()
    assert main.main([*training, "--part", "1/2"]) == 0
    (run,) = (tmp_path / "results" / "runs" / "p").iterdir()
    assert records.load(run)["rounds"] == 1
    assert main.main(["plan", "--params", str(params), "--results", results]) == 0
    assert re.search(r"p/fig +0 of 1 ", capsys.readouterr().out)
    (tmp_path / "file").write_text("")  # where nothing can be written
    assert main.main(["plan", "--results", str(tmp_path / "file")]) == 0 and "2 of 2" in capsys.readouterr().out


def test_keep_and_prune(ready, monkeypatch, capsys, tmp_path):
    shutil.copytree(ready, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    assert main.main(["keep"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [f"p {run}" for run in records.load_kept(Paths().kept("p"))] and len(lines) == 2
    assert last == "kept 2 runs; 2 of 2 runs are finished"
    assert main.main(["keep"]) == 0
    assert capsys.readouterr().out == "nothing to keep: 2 of 2 runs are finished, 2 of them kept before\n"
    assert main.main(["keep", "--scale", "other"]) == 0
    assert capsys.readouterr().out == "nothing to keep: 0 of 0 runs are finished\n"
    write(tmp_path / "copy", fig(lr=0.2))
    assert main.main(["prune"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(line.startswith("results/runs/p/digits-") for line in lines)
    for line in lines:
        shutil.rmtree(line)
    assert main.main(["prune"]) == 0 and capsys.readouterr().out == "nothing to prune: params.yaml names all that is there\n"
    assert not any(Path("results/runs/p").iterdir()) and len(records.load_kept(Paths().kept("p"))) == 2


@pytest.fixture
def paper(here) -> Path:
    """A place whose settings have a paper with one figure."""
    settings.place_paper(here, PAPER)
    write(here, {})
    return here


def test_what_can_be_asked_for_is_listed_and_planned_by_name(ready, paper, capsys):
    (paper / "results").symlink_to(ready / "results")

    def listed(*arguments: str) -> dict[str, list[str]]:
        assert main.main(["list", "--cores", "3", *arguments]) == 0
        first, head, *lines = capsys.readouterr().out.splitlines()
        assert "3 cores" in first and head.split() == ["target", "state", "left", "title"]
        return {line.split()[0]: re.split("  +", line)[1:] for line in lines}

    assert listed()["fig"] == ["finished", "What it shows"] and listed()["p"] == ["finished", "A paper"]
    assert listed("--scale", "other")["fig"][0] == "skipped"
    assert main.main(["list", "--scale", "other"]) == 0
    assert "skipped: p, fig: not part of scale other; run it at scale quick" in capsys.readouterr().out
    write(paper, fig(series={"Two": {"name": "fedavg", "overrides": {"lr": 0.3}}}))
    state, left, title = listed()["fig"]
    assert state == "2 of 3 runs" and left.endswith(" s") and title == "What it shows"
    assert main.main(["plan", "fig", "--cores", "1"]) == 0
    output = capsys.readouterr()
    assert re.search("p/fig +1 of 3 ", output.out) and "on 1 core\n" in output.out
    assert main.main(["plan", "fig"]) == 0 and "measuring" not in capsys.readouterr().err  # what was measured is remembered
    assert refused(capsys, "plan", "fog").startswith("unknown target 'fog': choose from p, ")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_a_letter_shows_the_list_without_it(encoding, paper):
    settings.place_paper(paper, PAPER | {"title": "A \u03a8-Net"})
    done = shell("list", PYTHONIOENCODING=encoding)
    assert done.returncode == 0 and "A ?-Net" in done.stdout, done.stderr


def test_what_the_list_names_can_be_asked_for(monkeypatch):
    """Fig. 1 of a paper is called otherwise where another paper has one."""
    monkeypatch.chdir(ROOT)
    params = read_params(Path("params.yaml"))
    planned = plan_experiments(params, Paths())
    assert {"fedcl_fig1", "fedcl_fig2", "fig1a_mnist"} <= {
        line.target for line in listing.list_targets(planned, params, Paths(), 2)
    }
    assert {item.paper for item in listing.select_experiments(["fedcl_fig1", "fig1a_mnist"], planned, params)} == {"fedcl"}


def test_a_list_says_what_is_kept_of_other_data(paper, capsys):
    runs = plan_experiments(read_params(paper / "params.yaml"), Paths())["p"]["fig"].runs
    asked = runs[0].config_record() | {"data": "other pixels"}
    finish(replace(runs[0], folder=Paths().kept("p") / f"a-{records.run_hash(asked)}", data="other pixels"))
    assert main.main(["list"]) == 0
    output = capsys.readouterr().out
    assert output.count("not run, 1 kept of other data ") == 2 and "report_only=true reports what is kept" in output


def test_a_list_calls_nothing_finished_that_lacks_a_series_or_a_study(paper, capsys):
    """Of three series two can be reported, and the third waits; of a run that is kept without its weights there is no study."""

    def state(changes: dict) -> str:
        write(paper, changes)
        assert main.main(["list"]) == 0
        return re.search("^fig  +(.*?)  ", capsys.readouterr().out, re.MULTILINE)[1]

    permuted = {"partition": {"name": "permuted", "clients": 3}}
    two, three = fig(**permuted), fig(**permuted, series={"Two": {"name": "fedavg", "overrides": {"lr": 0.3}}})
    runs = plan_experiments(read_params(write(paper, three)), Paths())["p"]["fig"].runs
    for run in runs[:2]:
        finish(run)
    assert state(three) == "2 of 3 runs"
    assert state(three | {"report_only": True}) == "2 of 2 runs and more" and state(two) == "finished"
    for run in runs[:2]:
        finish(replace(run, folder=Paths().kept("p") / run.id))
    asked = fig(**permuted, studies={"newcomers": {"clients": 2, "target": 0.9, "epochs": 1}})
    assert state(two) == "finished" and state(asked) == "2 of 4 runs"  # the weights still lie where they were trained
    (runs[1].folder / "model.safetensors").unlink()
    assert state(asked) == "2 of 3 runs"


def test_verdicts_of_all_papers_are_the_main_ones(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main.main(["verdicts"]) == 0
    main_claims = capsys.readouterr().out
    assert "FedMAX, scale small\n" in main_claims and "\n  direction supported    Over the eight CIFAR panels" in main_claims
    assert main.main(["verdicts", "fedmax", "--scale", "small"]) == 0
    claims = capsys.readouterr().out
    assert len(claims.splitlines()) > main_claims.count("FedMAX ends") + 10 and "\x1b" not in claims
    assert main.main(["verdicts", "fedavg"]) == 2 and "unknown paper 'fedavg'" in capsys.readouterr().err
    assert main.main(["verdicts", "--scale", "quick"]) == 2 and "Choose from small, paper" in capsys.readouterr().err
