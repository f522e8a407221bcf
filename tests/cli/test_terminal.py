"""What the user of Snakemake sees: cost, one line of progress, failures in one line each, the
end."""

import importlib
import io
import json
import logging
import re
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from rich import cells
from snakemake_interface_logger_plugins.common import LogEvent

from fedrepro.cli.terminal import Event, log_filters, summary
from fedrepro.cli.terminal import failures as failure
from fedrepro.cli.terminal.progress import Progress
from fedrepro.cli.terminal.screen import Screen
from fedrepro.core.errors import STOPPED, UserError
from fedrepro.core.formatting import count, duration
from fedrepro.experiments import cost
from fedrepro.experiments.jobs import Cost, Work
from fedrepro.experiments.plan import PlannedExperiment
from support.pipeline import ROOT, command, environment, shrink
from support.terminal import CTRL_C, OnTerminal, opened


def record(message: str = "", level: int = logging.INFO, **extra) -> logging.LogRecord:
    return logging.makeLogRecord(
        {"msg": message, "levelno": level, "levelname": logging.getLevelName(level)} | extra
    )


def entry(
    name: str, seconds: float, studies: bool = False, folder: Path = Path("results/runs/p")
) -> Work:
    given = {
        "group": "p/fig",
        "name": f"fig {name}",
        "cost": Cost(1, 1, 1e12, seconds),
        "is_study": studies,
    }
    return Work(SimpleNamespace(id=name), folder / name / "record.json", "p_fig", name, **given)


def reach(folder: Path, round: int, value: float | None = 0.813) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    reached = {"round": round, "rounds": 40, "measure": "test_accuracy", "value": value}
    (folder / "progress.json").write_text(json.dumps(reached))


def finish(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.json").write_text("{}")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def runs(tmp_path) -> list[Path]:
    """The folders of three runs that cost 10, 20 and 30 seconds."""
    return [tmp_path / name for name in "abc"]


def jobs_of(runs: list[Path]) -> dict[str, list[Work]]:
    """Of the runs the first two in one job."""
    entries = [
        entry(run.name, 10.0 * place, folder=run.parent) for place, run in enumerate(runs, 1)
    ]
    return {"train_x": entries[:2], "train_y": entries[2:]}


# ---- the line


def test_the_line_says_runs_round_accuracy_and_time_left(runs):
    clock = Clock()
    progress = Progress(clock)
    assert progress.line() == ""
    progress.requested = jobs_of(runs)
    progress.running = {7: "train_x", 8: "train_y"}
    assert progress.line() == "0 of 3 runs done | fig a | fig c"
    runs[0].mkdir()
    (runs[0] / "progress.json").write_text("")  # as after a loss of power
    assert progress.line() == "0 of 3 runs done | fig a | fig c"
    finish(runs[0])
    reach(runs[1], 20)
    clock.now += 60  # for 10 of 10 and 10 of 20 seconds: a third of the work
    assert (
        progress.line()
        == "1 of 3 runs done | about 2 min left | fig b: round 20/40, test accuracy 81.3 % | fig c"
    )
    reach(runs[1], 20, None)
    assert "fig b: round 20/40, test accuracy - | " in progress.line()
    for run in runs:
        finish(run)
    progress.running, progress.steps = {7: "train_x", 9: "page"}, (4, 9)
    assert progress.line() == "3 of 3 runs done | 4 of 9 steps | page"


@pytest.mark.parametrize(("before", "at_first", "seconds", "left"), [
    (20, 20, 1000, None),  # resumed: a quarter of all is there, and nothing is done since
    (20, 40, 1000, 2000),
    (0, 0, 1, None),
])  # fmt: skip
def test_only_what_is_done_since_the_first_line_counts_as_speed(
    runs, before, at_first, seconds, left
):
    clock = Clock()
    progress = Progress(clock)
    progress.requested = jobs_of(runs)
    reach(runs[2], before)
    progress.running = {1: "train_y"}
    progress.line()
    clock.now += seconds
    reach(runs[2], at_first)
    assert progress.seconds_left() == (left and pytest.approx(left))


# ---- the screen


class Terminal(io.StringIO):
    """What is written, and the size of a real terminal."""

    def __init__(self, columns: int = 100) -> None:
        super().__init__()
        self.ours, self.other = opened(columns)

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.other


def screen(stream: io.StringIO | None = None) -> Screen:
    shown = Screen(stream or io.StringIO(), live=True)
    shown.ticker = None  # the tests tick
    return shown


ERROR, WARNING = logging.ERROR, logging.WARNING
RUNNING = record(event=LogEvent.JOB_INFO, jobid=1, rule_name="page")
BROKEN = record("exit code", ERROR, event=LogEvent.ERROR, exception="RuleException")
FAILED = record("x", ERROR, event=LogEvent.JOB_ERROR, jobid=1, rule_name="page", log=[])


@pytest.mark.parametrize(
    ("records", "shown"),
    [
        ([record("a message")], ["a message"]),  # all that there is
        ([record("a message"), record("the last one")], ["the last one"]),
        ([record("a message"), record("a table", event=LogEvent.RUN_INFO), record("more")], []),
        ([record("a message"), record("cores", event=LogEvent.RESOURCES_INFO)], ["a message"]),
        ([record("full", WARNING), record("a message")], ["warning: full", "a message"]),
        (
            [record("a message"), record("no rule", ERROR, event=LogEvent.ERROR, exception="X")],
            ["no rule"],
        ),
        ([record("no backup", WARNING, funcName="restore_output")], []),
        ([BROKEN], ["exit code"]),  # of the Snakefile, not of a job's script
        ([RUNNING, BROKEN, FAILED, record("a job failed", ERROR)], ["FAILED page"]),
        ([record("a group failed", ERROR, event=LogEvent.GROUP_ERROR)], ["a group failed"]),
        (
            [record("the end", event=Event.END), record("x", ERROR, event=LogEvent.ERROR)],
            ["the end"],
        ),
    ],
)
def test_event_and_level_decide_what_is_shown(records, shown):
    terminal = screen()
    for one in records:
        terminal.handle(one)
    terminal.close()
    terminal.close()  # as logging does once more
    assert terminal.stream.getvalue().splitlines() == shown


@pytest.mark.parametrize("columns", [0, 80, 100, 150])
def test_a_narrow_terminal_cuts_the_end_and_never_the_time_left(columns, tmp_path):
    clock, stream, title = (
        Clock(),
        Terminal(columns),
        "a client with shares of 連合学習 and a long title, seed",
    )
    shown = Screen(stream, live=True, progress=Progress(clock))
    runs = [entry(f"{title} {seed}", 30, folder=tmp_path) for seed in range(3)]
    shown.progress.requested = {f"train_{number}": [run] for number, run in enumerate(runs)}
    shown.progress.running = {number: f"train_{number}" for number in range(3)}
    shown.show()
    clock.now += 600
    for run in runs:
        reach(run.done_file.parent, 20)
    shown.show()
    line = stream.getvalue().split("\r\x1b[K")[-1]
    assert line.startswith("0 of 3 runs done | about 10 min left | fig a client") and line.endswith(
        "…"
    )
    assert (columns or 80) - 3 <= cells.cell_len(line) < (columns or 80)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """What a script has around its call, and the failures that it wrote."""
    monkeypatch.syspath_prepend(ROOT / "workflow/scripts")
    module = importlib.import_module("_log")
    monkeypatch.setattr(logging, "basicConfig", lambda **options: None)
    monkeypatch.setattr(module, "stop_on_signals", lambda: None)
    monkeypatch.setattr(module.os, "dup2", lambda *streams: None)
    log = tmp_path / "rule.log"
    failure.write(log, {"of before": KeyError()})
    rule = SimpleNamespace(rule="page", log=[str(log)])

    def read_failures() -> list[tuple[str, str]] | None:
        path = failure.failures_file(log)
        return (
            [(one["name"], one["message"]) for one in json.loads(path.read_text())]
            if path.exists()
            else None
        )

    return lambda: module.failures_logged(rule), read_failures


def test_a_script_that_fails_leaves_its_failures_as_data(script):
    logged, read_failures = script
    with logged():
        pass
    assert read_failures() is None
    for error, message in (
        (UserError("no such file"), "no such file"),
        (KeyError("x"), "KeyError: 'x'"),
        (KeyboardInterrupt(), "stopped; the same command continues from the last checkpoint"),
    ):
        with pytest.raises(SystemExit), logged():
            raise error
        assert read_failures() == [("page", message)]
    with pytest.raises(SystemExit), logged() as failures:
        for name, error in (("a", KeyError(1)), ("b", None), ("c", UserError("no"))):
            with failures.collect(name):
                if error:
                    raise error
    assert read_failures() == [("a", "KeyError: 1"), ("c", "no")]


# ---- a job on the terminal of Snakemake


# ---- stopped by the user, or with the terminal

WORK = """
import atexit, sys, time
from fedrepro.cli import docs, main
if sys.argv[1:]:
    atexit.register(time.sleep, 9)  # as torch takes its time
def work():
    print("at work", flush=True)
    time.sleep(60)
docs.write = work
sys.exit(main.main(["docs"]))
"""


@pytest.mark.parametrize("how", ["Ctrl-C", "Ctrl-C twice", signal.SIGTERM, signal.SIGHUP], ids=str)
def test_a_command_ends_with_one_line(how, tmp_path):
    (tmp_path / "params.yaml").touch()
    command = OnTerminal(
        100,
        sys.executable,
        "-c",
        WORK,
        *["slow"] * (how == "Ctrl-C twice"),
        cwd=tmp_path,
        env=environment(ROOT),
    )
    command.read("at work\r\n")
    if isinstance(how, signal.Signals):
        command.process.send_signal(how)
    else:
        command.type(CTRL_C)
        if how == "Ctrl-C twice":
            command.read(STOPPED)
            time.sleep(1.2)
            command.type(CTRL_C)
    assert command.read().replace("^C", "") == f"at work\r\n{STOPPED}\r\n"
    assert command.code(10) == 130


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Two runs of many rounds."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("src", "workflow", "profiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", folder)
    shrink(folder, rounds=3000, train_images=200, test_images=40, clients_per_round=1)
    return folder


@pytest.mark.parametrize("how", ["Ctrl-C twice", "closed"])
def test_snakemake_ends_with_one_line_and_leaves_no_lock(how, project):
    """And no job; what they have done is stored."""
    terminal = OnTerminal(
        100, *command("--cores", "2", "train"), cwd=project, env=environment(project)
    )
    terminal.read(": round ")
    before = len(terminal.shown)
    if how == "closed":
        terminal.close()
    else:
        terminal.type(CTRL_C)
        time.sleep(0.3)
        terminal.type(CTRL_C)
        *lines, last = terminal.read()[before:].replace("^C", "").split("\r\x1b[K")
        assert last == f"{STOPPED}\r\n" and not [
            line for line in lines if "\n" in line or "FAILED" in line
        ]
        assert "round/s" not in terminal.shown
    assert terminal.code() == 130
    assert not list(project.glob(".snakemake/locks/*"))
    assert not [job for job in psutil.process_iter(["cwd"]) if job.info["cwd"] == str(project)]
    assert list(project.glob("results/runs/*/*/checkpoint.safetensors"))


# ---- what the Snakefile hooks in


def test_the_cost_is_that_of_the_jobs_that_run(caplog):
    jobs = {"train_a": [entry("a", 60), entry("b", 120)], "train_c": [entry("c", 9000)]}
    announce = log_filters.announce_cost(jobs, 2)
    with caplog.at_level(logging.INFO, "snakemake.logging"):
        assert announce(record("chatter")) and not caplog.records
        assert announce(
            record(event=LogEvent.RUN_INFO, stats={"train_a": 1, "page": 1, "total": 2})
        )
        announce(record(event=LogEvent.RUN_INFO, stats={"train_a": 1}))
    (announced,) = caplog.records  # once
    assert (announced.event, announced.requested) == (Event.COST, {"train_a": jobs["train_a"]})
    assert announced.getMessage() == cost.pending_table(jobs["train_a"], 2, 1)
    # 120 s without a start
    assert cost.pending_table(jobs["train_a"], 2).startswith(
        "To be trained: about 2 min on 2 cores,"
    )


def test_a_bill_by_hand():
    """Two runs of a sample and 1e12 operations each, and a study of one of them, on two cores."""
    study = replace(entry("c", 1800, True), group="new clients after them, at most")
    found = [entry("a", 3600), entry("b", 7200), study]
    *lines, last = cost.plan_table(
        [PlannedExperiment("p", "fig", None, ())], found, 2, "quick"
    ).splitlines()
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "p/fig 2 of 0 2.00e+00 2 3.0 h",
        "new clients after them, at most 1 1.00e+00 1 30 min",
        "scale quick, one after the other 2 3.00e+00 3 3.5 h",
    ]
    assert last == "about 2.5 h on 2 cores"


def test_runs_of_several_cores_are_fewer_at_once_and_studies_come_after_them():
    def run(name: str, cores: int) -> Work:
        found = entry(name, 60)
        return replace(found, cost=replace(found.cost, cores=cores))

    assert [cost.wall_seconds([run("a", cores), run("b", cores)], 4) for cores in (1, 2, 4, 8)] == [
        60,
        60,
        120,
        120,
    ]
    assert cost.wall_seconds([entry("a", 60), entry("b", 60), entry("c", 30, True)], 2) == 90
    assert cost.wall_seconds([], 2) == 0


# ---- the end


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (5399, "90 min"),
        (5400, "1.5 h"),
        (200_000, "56 h"),
        (1e6, "12 days"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_counts():
    assert [count(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]


def test_the_end_names_the_folder_of_a_paper():
    last = summary.closing_message(
        ["reports/q/p/tables/verdicts.json"], Path("reports/q"), 1
    ).splitlines()[-1]
    assert last == "reports/q/p: no claim is judged at this scale"


def test_the_end_names_the_pages_to_open(monkeypatch):
    """Those that were made, then the committed first page with what README says of it; figures
    alone name no page."""
    monkeypatch.chdir(ROOT)
    sentence = r"Of the (\d+) numbers .* settings \((\d+) decided\) .* alone \((\d+) decided\)"
    [(claims, paper, small)] = re.findall(sentence, Path("README.md").read_text(encoding="utf-8"))
    *_, quick, first = summary.closing_message(
        ["reports/quick/index.html"], Path("reports/quick"), 1
    ).splitlines()
    assert quick == "Open reports/quick/index.html" and first.startswith(
        "Open reports/index.html, "
    )
    assert first.endswith(
        f", {paper} of {claims} at scale paper and {small} of {claims} at scale small are decided"
    )
    assert "Open" not in summary.closing_message(
        ["reports/quick/p/figures/f.svg"], Path("reports/quick"), 1
    )
