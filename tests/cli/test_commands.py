"""The command line: a mistake is one message with exit code 2; a tiny federation is planned,
trained, kept and pruned."""

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fedrepro.cli import main, targets
from fedrepro.runs import records
from fedrepro.runs.paths import Paths
from support import settings
from support.checkout import ROOT
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


def test_a_shell_completes_every_command(capsys):
    with pytest.raises(SystemExit, match="0"):
        main.main(["--print-completion", "bash"])
    script = capsys.readouterr().out
    assert all(name in script for name, *_ in main.COMMANDS) and "--scale" in script


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scale": "huge"}, ["scale: unknown scale 'huge'"]),
        ({"scael": "quick"}, ["scael: unknown key", "scale"]),
        (
            {"scales": {"quick": {"compare": "all"}}},
            ["scales.quick.compare: ", "'none', 'direction' or 'full'"],
        ),
        ({"scales": {"quick": {"experiments": {"p": {"x": {}}}}}}, ["unknown experiment 'x'"]),
        (fig(rounds=-3), ["yaml: fig: ", "rounds: ", "(got -3)"]),
        (
            fig(rounds=-3, variants={"own": {"lr": -1}}),
            ["(got -3)", "\nworkflow", "yaml: own: ", "(got -1)"],
        ),
        (
            fig(clients_per_round=9, variants={"own": {"clients_per_round": 8}}),
            ["(got 9)", "yaml: own: ", "(got 8)"],
        ),
        (
            fig(clients_per_round=9),
            ["yaml: fig: ", "clients_per_round: at most the 3 clients of the partition (got 9)"],
        ),
        (fig(dataset="mnst"), ["unknown dataset 'mnst'", "mnist"]),
        (fig(model={"name": "mnist_cnn", "arch": [1]}), ["yaml: fig: ", "model mnist_cnn: arch"]),
        (
            fig(series={"X": {"name": "fedx"}}),
            ["yaml: fig: ", "series.X", "unknown algorithm 'fedx'", "fedprox"],
        ),
        (fig(series={"Prox": {"my": 1}}), ["series.Prox", "my: unknown key", "mu"]),
        (
            fig(series={"CL": {"name": "fedcl", "every": 0}}),
            ["series.CL", "algorithm fedcl: every: ", "(got 0)"],
        ),
        (
            fig(partition={"name": "dirichlet", "alpha": 0}),
            ["yaml: fig: ", "partition dirichlet: alpha: ", "(got 0)"],
        ),
        (
            fig(partition={"clients": 61}),
            [f"{WHERE}partition.clients: at most the 60 train images of digits (got 61)"],
        ),
        (fig(train_images=9999), [f"{WHERE}train_images: digits has 1438 (got 9999)"]),
        (
            fig(proxy={"share": 0.97, "removed": True}),
            [f"{WHERE}proxy.share: removed: true takes", "leaves 2 for 3 clients"],
        ),
    ],
    ids=str,
)
def test_mistakes_in_the_settings(changes, words, here, capsys):
    write(here, changes, "mine.yaml")
    for command in ("train", "plan"):
        output = refused(capsys, command, "--params", "mine.yaml")
        assert output.startswith(("mine.yaml: ", "workflow/papers/p/"))
        assert all(word in output for word in words)
    assert sorted(path.name for path in here.iterdir()) == ["mine.yaml", "workflow"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "--scale", "huge"), "unknown scale 'huge'"),
        (("store", "--paper", "q"), "unknown paper 'q'"),
        (("plan", "--device", "tpu"), "--device"),
        (("train", "--executor", "fast"), "--executor"),
        (("train", "--runs", "absent.json", "--executor", "fast"), "unknown executor 'fast'"),
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
        *(
            (arguments, "an argument: empty. Give a value, or leave it out.")
            for arguments in (
                ("train", "--device", ""),
                ("keep", "--scale", ""),
                ("plan", ""),
                ("train", "--budget", ""),
                ("plan", "--params", ""),
            )
        ),
        (("train", "--device="), "--device=: empty. Give a value, or leave it out."),
        (
            ("train", "--runs", "/proc/self/mem"),
            "/proc/self/mem: damaged; write it with: fedrepro plan --export",
        ),
        (("train", "--runs", "/dev/zero"), "/dev/zero: not a file; "),
    ],
)
def test_mistakes_in_the_options(arguments, words, here, capsys, request):
    write(here, {})
    if "--results" in arguments:
        (here / "data").symlink_to(request.getfixturevalue("ready") / "data")
    if "--data-mirror" in arguments:
        write(here, fig(dataset="mnist"))
    assert words in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "error: "),
        (("fly",), "error: "),
        (("plan", "--budget", "3"), "unrecognized arguments: --"),
        *((("train", "--part", text), "expected a part") for text in ("4/3", "0/3", "3", "1/-1")),
        *(
            (("train", "--budget", text), "with s, m or h")
            for text in ("soon", "m", "3d", "1 h", "1e3", "nan", ".5m")
        ),
        *(
            (command, "unrecognized arguments: --")
            for command in (
                ("train", "--no"),
                ("prune", "--scale", "quick"),
                ("keep", "--device", "cpu"),
                ("docs", "--params=x"),
            )
        ),
    ],
)
def test_usage(arguments, words, here, capsys):
    """A command takes no option that it would not obey."""
    with pytest.raises(SystemExit) as caught:
        main.main(list(arguments))
    assert caught.value.code == 2 and words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("9m", 540), ("1.5h", 5400), ("0", 0)]
)
def test_budget(text, seconds):
    assert main.parse_seconds(text) == seconds


@pytest.mark.parametrize("mirror", ["http://127.0.0.1:9", "mirror"])
@pytest.mark.parametrize(
    "data",
    [
        {"dataset": "mnist"},
        {
            "dataset": {"name": "synthetic", "devices": 3, "train": 40, "side": 16},
            "pixel_scaling": "raw",
        },
    ],
    ids=["fetched", "drawn"],
)
def test_plans_and_lists_fetch_draw_and_prepare_nothing(data, mirror, paper, monkeypatch):
    """Though only the data can tell whether the mirror's are the official release, and what a draw
    with these options gives."""

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


def test_train_trains(ready):
    runs = sorted((ready / "results" / "runs" / "p").iterdir())
    assert [re.sub("-[0-9a-f]{10}$", "", run.name) for run in runs] == [
        "digits-fedavg-s0",
        "digits-fedprox-s0",
    ]
    for run in runs:
        record = records.load(run)
        assert (record["status"], record["rounds"]) == ("finished", 2) and 0 <= record["final"][
            "test_accuracy"
        ] <= 1
        assert record["columns"]["round"] == [0, 1, 2]
    assert len(list((ready / "data" / "partitions").glob("*.npz"))) == 1  # the two share it


def test_plan_and_export(ready, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(ready)
    assert main.main(["plan"]) == 0 and re.search(r"p/fig +0 of 2 ", capsys.readouterr().out)
    params = write(
        tmp_path,
        fig(rounds=1, series={"Prox": None, "FedAvg": {"name": "fedavg"}}) | {"scale": "quick"},
    )
    results = str(tmp_path / "results")
    assert (
        main.main(
            [
                "plan",
                "--params",
                str(params),
                "--results",
                results,
                "--export",
                str(tmp_path / "runs.json"),
            ]
        )
        == 0
    )
    assert re.search(r"p/fig +1 of 1 ", capsys.readouterr().out)
    asked = []
    # a machine with the variable has its data from there, as params.yaml has it
    with monkeypatch.context() as patch:
        patch.setenv("FEDREPRO_DATA_MIRROR", "there")
        patch.setattr(
            "fedrepro.training.runner.train",
            lambda *arguments, mirror, **options: asked.append(mirror) or [],
        )
        assert main.main(
            ["train", "--runs", str(tmp_path / "runs.json"), "--results", results]
        ) == 0 and asked == ["there"]
    training = [
        "train",
        "--runs",
        str(tmp_path / "runs.json"),
        "--results",
        results,
        "--device",
        "cpu",
    ]
    assert (
        main.main([*training, "--part", "2/2"]) == 0
        and not (tmp_path / "results" / "runs").exists()
    )
    assert main.main([*training, "--part", "1/2"]) == 0
    (run,) = (tmp_path / "results" / "runs" / "p").iterdir()
    assert records.load(run)["rounds"] == 1
    assert main.main(["plan", "--params", str(params), "--results", results]) == 0
    assert re.search(r"p/fig +0 of 1 ", capsys.readouterr().out)
    (tmp_path / "file").write_text("")  # where nothing can be written
    assert (
        main.main(["plan", "--results", str(tmp_path / "file")]) == 0
        and "2 of 2" in capsys.readouterr().out
    )


def test_keep_and_prune(ready, monkeypatch, capsys, tmp_path):
    shutil.copytree(ready, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    assert main.main(["keep"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert (
        sorted(lines) == [f"p {run}" for run in records.load_kept(Paths().kept("p"))]
        and len(lines) == 2
    )
    assert last == "kept 2 runs; 2 of 2 runs are finished"
    assert main.main(["keep"]) == 0
    assert (
        capsys.readouterr().out
        == "nothing to keep: 2 of 2 runs are finished, 2 of them kept before\n"
    )
    assert main.main(["keep", "--scale", "other"]) == 0
    assert capsys.readouterr().out == "nothing to keep: 0 of 0 runs are finished\n"
    write(tmp_path / "copy", fig(lr=0.2))
    assert main.main(["prune"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(line.startswith("results/runs/p/digits-") for line in lines)
    for line in lines:
        shutil.rmtree(line)
    assert main.main(["prune"]) == 0
    assert capsys.readouterr() == (
        "",
        "nothing to prune: params.yaml names all that is there\n",
    )  # a list of paths may be deleted
    assert (
        not any(Path("results/runs/p").iterdir()) and len(records.load_kept(Paths().kept("p"))) == 2
    )


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

    assert listed()["fig"] == ["finished", "What it shows"] and listed()["p"] == [
        "finished",
        "A paper",
    ]
    assert listed("--scale", "other")["fig"][0] == "skipped"
    assert main.main(["list", "--scale", "other"]) == 0
    assert (
        "skipped: p, fig: not part of scale other; run it at scale quick" in capsys.readouterr().out
    )
    long = targets.Target(
        "fig",
        "A title that goes on in the next line",
        "not run",
        "1 s",
        "for a reason that goes on as well",
    )
    assert targets.format_table([long], 48).splitlines()[1:] == [
        "fig     not run   1 s  A title that goes on in",
        "                       the next line",
        "skipped: fig: for a reason that goes on as well",
    ]
    write(paper, fig(series={"Two": {"name": "fedavg", "overrides": {"lr": 0.3}}}))
    state, left, title = listed()["fig"]
    assert state == "2 of 3 runs" and left.endswith(" s") and title == "What it shows"
    assert main.main(["plan", "fig", "--cores", "1"]) == 0
    output = capsys.readouterr()
    assert re.search("p/fig +1 of 3 ", output.out) and "on 1 core\n" in output.out
    # what was measured is remembered
    assert main.main(["plan", "fig"]) == 0 and "measuring" not in capsys.readouterr().err
    assert refused(capsys, "plan", "fog").startswith("unknown target 'fog'")


def test_verdicts_of_all_papers_are_the_main_ones(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main.main(["verdicts"]) == 0
    main_claims = capsys.readouterr().out.replace("−", "-")
    assert re.search(
        r"FedMAX, scale small, directions only\n  \d+ claims: .*\n  [\w ]+  {3}.*: reported ",
        main_claims,
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    # at small
    before = [
        line.split(" | ")[4] for line in readme.splitlines() if line.endswith(" (earlier runs) |")
    ]
    assert before and all(
        f"; earlier runs: {cell}\n" in main_claims for cell in before if cell != "-"
    )
    assert main.main(["verdicts", "fedmax", "--scale", "small"]) == 0
    claims = capsys.readouterr().out
    assert (
        claims.count("\n  supported ") == 7
        and "\n  open, leans for " in claims
        and "\x1b" not in claims
    )
    assert (
        main.main(["verdicts", "fedavg"]) == 2
        and "unknown paper 'fedavg'" in capsys.readouterr().err
    )
    assert (
        main.main(["verdicts", "--scale", "quick"]) == 2
        and "Choose from small, paper" in capsys.readouterr().err
    )


def test_a_reader_that_ends_early_is_no_error():
    # more than a buffer holds
    command = [sys.executable, "-m", "fedrepro.cli", "verdicts", "fedmax", "--scale", "small"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as shown:
        shown.stdout.close()
        assert shown.wait() == 0 and shown.stderr.read() == b""
