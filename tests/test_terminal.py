"""What the user of Snakemake sees: cost, one line of progress, failures in one line each, the end."""

import io
import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from fedrepro.cli.terminal import failures, log_filters, summary
from fedrepro.cli.terminal.progress import Job, Position, Progress, position
from fedrepro.cli.terminal.screen import Screen
from fedrepro.core.errors import nearest, not_among, unknown
from fedrepro.core.formatting import count, duration
from fedrepro.experiments import cost as bill
from fedrepro.experiments.cost_model import Cost
from fedrepro.experiments.plan import Planned


def record(message: str = "", level: int = logging.INFO, **extra) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelno": level, "levelname": logging.getLevelName(level)} | extra)


def log_round(folder: Path, round: int, rounds: int = 40, value: str = "0.8130") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a") as file:
        file.write(f"2026-01-02T03:04:05 round {round}/{rounds}: test accuracy {value}, train loss 0.5000\n")


def finish(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text("{}")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def runs(tmp_path) -> list[Path]:
    """The folders of three runs that cost 10, 20 and 30 seconds."""
    return [tmp_path / name for name in "abc"]


def asked(runs: list[Path]) -> dict[str, tuple[str, float]]:
    return {str(run / "summary.json"): (f"fig {run.name}", 10.0 * place) for place, run in enumerate(runs, 1)}


def outputs(*folders: Path) -> list[Path]:
    return [folder / "summary.json" for folder in folders]


# ---- the line


def test_where_a_run_is(tmp_path):
    assert position(tmp_path / "absent") is None
    log_round(tmp_path / "run", 3)
    assert position(tmp_path / "run") == Position(3, 40, "test accuracy 81.3 %")
    (tmp_path / "run/log.txt").open("a").write("2026-01-02 resumed after round 3\n" * 20)
    log_round(tmp_path / "run", 4, value="-")
    assert position(tmp_path / "run") == Position(4, 40, "test accuracy -")


def test_the_line_says_runs_round_accuracy_and_time_left(runs):
    clock = Clock()
    progress = Progress(clock)
    assert progress.line() == ""
    progress.ask(asked(runs))
    progress.running = {7: None, 8: None}
    progress.jobs = {7: Job("train_x", outputs(*runs[:2])), 8: Job("train_y", outputs(runs[2]))}
    assert progress.line() == "0 of 3 runs done | fig a | fig c"
    finish(runs[0])
    log_round(runs[1], 20)
    clock.now += 60  # for 10 of 10 and 10 of 20 seconds: a third of the work
    assert progress.line() == "1 of 3 runs done | fig b: round 20/40, test accuracy 81.3 % | fig c | about 2 min left"
    for run in runs:
        finish(run)
    progress.running, progress.jobs[9], progress.steps = {7: None, 9: None}, Job("page", []), (4, 9)
    assert progress.line() == "3 of 3 runs done | page | 4 of 9 steps"


def test_what_was_done_before_does_not_count_as_speed(runs):
    clock = Clock()
    progress = Progress(clock)
    log_round(runs[2], 20)  # resumed: a quarter of all is there
    progress.ask(asked(runs))
    progress.running, progress.jobs = {1: None}, {1: Job("train", outputs(runs[2]))}
    progress.line()
    clock.now += 1000
    assert progress.left() is None
    log_round(runs[2], 40)
    assert progress.left() == pytest.approx(2000)


def test_what_is_done_before_the_first_line_does_not_count_as_speed(runs):
    """The clock begins with the line, and so does what is counted."""
    clock = Clock()
    progress = Progress(clock)
    progress.ask(asked(runs))
    log_round(runs[2], 20)
    progress.running, progress.jobs = {1: None}, {1: Job("train", outputs(runs[2]))}
    progress.line()
    clock.now += 1
    assert progress.left() is None


# ---- the screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def screen(stream: io.StringIO) -> Screen:
    shown = Screen(stream, live=True)
    shown.ticker = None  # the tests tick
    return shown


def test_noise_stays_away_and_warnings_do_not(tmp_path):
    shown = screen(io.StringIO())
    for message in ("Building DAG of jobs...", "Using shell: bash", "Elapsed time: 3"):
        shown.take(record(message))
    shown.take(record("RuleException:\nCalledProcessError in file x", logging.ERROR, event="error"))
    shown.take(record("a stats table", event="run_info"))
    shown.take(record("Nothing to be done."))
    shown.take(record("disk is full", logging.WARNING))
    shown.take(record("Cannot restore reports/quick/p/figures/fig1.png: no backup found.", logging.WARNING))
    shown.take(record("no such rule", logging.ERROR, event="error"))
    assert shown.stream.getvalue() == "Nothing to be done.\nwarning: disk is full\nno such rule\n"


def test_the_line_moves_on_a_terminal_and_is_written_when_it_changed_elsewhere(runs):
    for stream, expected in (
        (Terminal(), ["\r\x1b[K0 of 3 runs done | fig a", "\r\x1b[Khello\n"]),
        (io.StringIO(), ["0 of 3 runs done | fig a\n", "hello\n"]),
    ):
        shown = screen(stream)
        shown.take(record("To be trained", tasks=asked(runs)))
        shown.take(record(event="job_started", jobs=[1]))
        shown.take(record(event="job_info", jobid=1, rule_name="train_x", output=[str(runs[0] / "summary.json")], log=[]))
        shown.show()
        shown.show()
        shown.say("hello")
        assert "".join(expected) in stream.getvalue()
        assert stream.getvalue().count("0 of 3") == (2 if stream.isatty() else 1)
        shown.take(record(event="job_finished", job_id=1))
        assert shown.progress.line() == ""


def test_a_failed_job_names_run_reason_and_log(runs, tmp_path):
    log = tmp_path / "job.log"
    log.write_text("2026-01-02 03:04:05,678 b on cpu\n2026-01-02 03:04:06,000 b failed: ValueError: boom\nTraceback\n")
    shown = screen(io.StringIO())
    shown.take(record("", tasks=asked(runs)))
    told = {"rule_name": "train_x", "jobid": 3, "log": [f"{log} (check log file(s) for error details)"]}
    shown.take(record("Error in rule", logging.ERROR, event="job_error", **told))
    assert shown.stream.getvalue().splitlines()[-2:] == ["FAILED fig b: ValueError: boom", f"  its log: {log}"]


def test_a_failed_study_names_its_run_and_reason(tmp_path):
    """Each of several; the error that sums them up, or carries them on, is none of its own."""
    log, names = tmp_path / "job.log", {"b": "fig b, seed 0"}
    stamp = "2026-01-02 03:04:06,000"
    text = f"{stamp} activations of b failed: ValueError: the reason\nTraceback\n{stamp} new clients of c failed: no weights\n"
    log.write_text(text + f"{stamp} error: failed: activations of b, new clients of c (2 sub-exceptions)\nTraceback\n")
    lines = [
        "FAILED activations of fig b, seed 0: ValueError: the reason",
        "FAILED new clients of c: no weights",
        f"  its log: {log}",
    ]
    assert failures.told("activations_x", [log], names).splitlines() == lines


def test_a_crash_is_told_by_its_last_line(tmp_path):
    log = tmp_path / "page.log"
    log.write_text("2026-01-02 03:04:05,678 error: x\nTraceback (most recent call last):\n  File\nKeyError: 'x'\n\n")
    assert failures.told("page", [log], {}) == f"FAILED page: KeyError: 'x'\n  its log: {log}"
    log.write_text("2026-01-02 03:04:05,678 error: params.yaml: no such file\n")
    assert failures.told("page", [log], {}).startswith("FAILED page: error: params.yaml: no such file\n")
    assert failures.told("page", [tmp_path / "absent"], {}).startswith("FAILED page: it left no message\n")
    assert failures.told("page", [], {}) == "FAILED page"


# ---- what the Snakefile hooks in


def entry(name: str, seconds: float, studies: bool = False) -> bill.Entry:
    return bill.Entry("p/fig", name, Path("results/runs/p", name, "summary.json"), Cost(1, 1, 1e12, seconds), studies)


def test_the_cost_is_that_of_the_jobs_that_run(caplog):
    given = log_filters.Announcement({"train_a": [entry("a", 60), entry("b", 120)], "train_c": [entry("c", 9000)]}, 2)
    with caplog.at_level(logging.INFO, "snakemake.logging"):
        assert given.filter(record("chatter")) and not caplog.records
        assert given.filter(record(event="run_info", stats={"train_a": 1, "page": 1, "total": 2}))
        given.filter(record(event="run_info", stats={"train_a": 1}))
    (told,) = caplog.records  # once
    assert told.getMessage().startswith("To be trained: about 2 min on 2 cores")
    assert told.tasks == {str(entry(name, 0).over): (name, seconds) for name, seconds in (("a", 60), ("b", 120))}


def test_studies_come_after_the_runs():
    assert bill.seconds([entry("a", 60), entry("b", 60), entry("c", 30, True)], 2) == 90
    assert bill.seconds([], 2) == 0


def test_a_bill_by_hand():
    """Two runs of a sample and 1e12 operations each, and a study of one of them, on two cores."""
    study = replace(entry("c", 1800, True), group="new clients after them, at most")
    found = [entry("a", 3600), entry("b", 7200), study]
    *lines, last = bill.plan([Planned("p", "fig", None, ())], found, 2, "quick").splitlines()
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "p/fig 2 of 0 2.00e+00 2 3.0 h",
        "new clients after them, at most 1 1.00e+00 1 30 min",
        "scale quick, one after the other 2 3.00e+00 3 3.5 h",
    ]
    assert last == "about 2.5 h on 2 cores"


def test_runs_of_several_cores_are_fewer_at_once():
    def run(name: str, cores: int) -> bill.Entry:
        found = entry(name, 60)
        return replace(found, cost=replace(found.cost, cores=cores))

    assert [bill.seconds([run("a", cores), run("b", cores)], 4) for cores in (1, 2, 4, 8)] == [60, 60, 120, 120]


@pytest.mark.parametrize(
    ("costs", "cores", "told"),
    [
        ([(3600, 1, 10)], 4, "cores_per_run=4 the clients of the run are"),
        ([(3600, 1, 10), (60, 1, 10)], 4, "cores_per_run=2 the clients of each run are"),
        ([(3600, 1, 3)], 16, "cores_per_run=3 "),
        ([(3600, 1, 10)], 8, "cores_per_run=5 "),  # two turns either way
        ([(3600, 4, 10)], 4, None),
        ([(3600, 1, 10)], 1, None),
        ([(3600, 1, 10), (3600, 1, 1)], 8, None),
        ([(60, 1, 10)], 8, None),
    ],
)
def test_cores_that_stay_idle_are_told(costs, cores, told):
    found = [replace(entry(str(cost), 0), cost=Cost(1, 1, 1e12, *cost)) for cost in costs]
    text = bill.asked(found, cores)
    assert told in text if told else "cores_per_run" not in text
    assert "cores_per_run" not in bill.asked(found, cores, here=False)


def test_an_unknown_target_is_answered_with_the_nearest():
    targets = [f"fig{number}{letter}" for number in (4, 5) for letter in "abcdef"]
    told = record("No rule to produce fig4g (if you use input functions ...).", event="error", exception="MissingRuleException")
    assert log_filters.Nearest(targets).filter(told)
    assert told.getMessage().startswith("unknown target 'fig4g': nearest are fig4") and "fedrepro list" in told.getMessage()
    dashed = record("No rule to produce fig-4d (if", event="error", exception="MissingRuleException")
    assert log_filters.Nearest(targets).filter(dashed) and dashed.getMessage().startswith(
        "unknown target 'fig-4d': nearest are "
    )
    other = record("No rule to produce reports/x.pdf (if", event="error", exception="MissingRuleException")
    assert log_filters.Nearest(targets).filter(other) and other.getMessage().startswith("No rule to produce reports")


def test_nearest_names():
    assert nearest("FIG5c", ["fig4a", "fig5c_start", "fig5c", "table1"])[0] == "fig5c"
    assert nearest("fig2", ["fig2a", "fig2b", "fig2c", "fig2d", "fedcl_fig2"])[0] == "fedcl_fig2"
    assert str(unknown("thing", "x", ["a", "b"])) == "unknown thing 'x': choose from a, b"
    assert str(unknown("thing", "x", [])) == not_among("thing", "x", []) == "unknown thing 'x': choose from nothing"
    assert not_among("thing", "x", "012345678").endswith("0, 1, 2, 3, 4, 5, 6, 7, 8")  # where no other place lists them


# ---- the end


def test_the_end_tells_what_was_made_the_tally_and_the_page(tmp_path):
    tables = tmp_path / "quick/p/tables"
    tables.mkdir(parents=True)
    statuses = ["not run", "reproduced", "not run", "partly"]
    (tables / "verdicts.json").write_text(json.dumps([{"verdict": status, "by": "the paper"} for status in statuses]))
    made = ["results/runs/p/a/summary.json", "results/runs/p/a/newcomers-1.json", ".snakemake/made-quick/p/all-0a1b"]
    told = summary.told([*made, f"{tmp_path}/quick/index.html"], tmp_path / "quick", 200).splitlines()
    assert told == [
        "Done in 3 min: 1 run trained, 1 study made.",
        "p: 4 claims: 1 reproduced, 1 partly, 2 not run",
        f"Open {tmp_path}/quick/index.html",
    ]
    (tables / "table1.csv").write_text("")
    told = summary.told([".snakemake/made-quick/p/table1-0a1b"], tmp_path / "quick", 2).splitlines()
    assert told == ["Done in 2 s: nothing had to be trained.", f"table1: {tables / 'table1.csv'}"]
    (tables / "verdicts.json").write_text("[]")
    assert summary.told(["results/crate-quick.zip"], tmp_path / "quick", 2).endswith("\nWrote results/crate-quick.zip")
    told = summary.told([".snakemake/made-quick/p/verdicts-0a1b"], tmp_path / "quick", 2).splitlines()
    assert told[-1] == "p: no claim is judged at this scale"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h"), (200_000, "56 h"), (1e6, "12 days")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_counts():
    assert [count(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
