"""The whole pipeline on a tiny job, in a folder of its own: what runs, what does not run again,
what a kill leaves."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import time
from pathlib import Path

import pandas
import pytest
import yaml
from snakemake.common import NOTHING_TO_BE_DONE_MSG

from fedrepro.cli import main
from fedrepro.core import provenance
from fedrepro.report.verdicts.claim import listed_claims
from support import pipeline
from support.checkout import save
from support.experiments import without_times
from support.pipeline import NEWCOMERS, PAPER, PAPERS, ROOT, TINY, begun, environment, shrink

MADE = shutil.ignore_patterns(
    "results", "reports", ".snakemake", "logs", "mlflow.db", "mlartifacts"
)
SHOWN = {"fig4a", "fig4d", "fig4d_code_net", "fig6", "fig4_rounds", "table1", "table2"}


def cut(folder: Path) -> None:
    """The paper's files with a few of its artifacts and claims: what follows from the settings of
    all is drawn by `.ci/run`."""
    path = folder / PAPERS / PAPER / "artifacts.yaml"
    values = pipeline.read(path)
    del values["elsewhere"]  # of headlines, whose protocols go below
    for room in ("figures", "tables"):
        values[room] = {key: item for key, item in values[room].items() if key in SHOWN}
    save(path, values)
    claims = listed_claims(pipeline.read(path.with_name("claims.yaml")), {}, "claims.yaml")
    save(
        path.with_name("claims.yaml"),
        {key: own for key, own in claims if own["experiment"] in ("fig4a", "fig4d")},
    )
    path.with_name("protocols.yaml").unlink()


def snakemake(folder: Path, *arguments: str, fails: bool = False) -> str:
    """Run to the end; what it printed."""
    code, output = pipeline.snakemake(folder, environment(folder), *arguments)
    assert code is not None and (code != 0) == fails, output
    return output


def fresh(project: Path, folder: Path) -> None:
    """A copy of the project without data and results."""
    shutil.copytree(project, folder, ignore=MADE)
    shutil.rmtree(folder / "data")


def summaries(folder: Path) -> dict[str, float]:
    return {
        path.parent.name: path.stat().st_mtime
        for path in folder.glob("results/runs/*/*/record.json")
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of the project with the tiny job done at one core."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("src", "workflow"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", folder)
    cut(folder)
    shrink(folder)
    snakemake(folder, "--cores", "1")
    return folder


def test_everything_is_made_then_nothing_is_left_to_do(project):
    made = project / "reports" / "quick"
    for name in (
        "index.html",
        f"{PAPER}/index.html",
        "report.tex",
        "metrics.json",
        f"notebooks/{PAPER}_fig4d.ipynb",
        f"{PAPER}/figures/fig4d.pdf",
        f"{PAPER}/figures/fig4d.png",
        f"{PAPER}/figures/fig4d.csv",
        f"{PAPER}/tables/fig4_rounds.tex",
        f"{PAPER}/tables/verdicts.json",
    ):
        assert (made / name).stat().st_size > 0, name
    assert len(summaries(project)) == 3
    with contextlib.closing(sqlite3.connect(project / "mlflow.db")) as copies:
        assert copies.execute("SELECT status FROM runs").fetchall() == [("FINISHED",)] * 3
    assert "Nothing to be done" in snakemake(project, "--cores", "2")


def test_only_jobs_ask_a_mirror_or_a_gpu(project, tmp_path):
    """A cluster's login node plans for GPUs that it has not: where CUDA is started here, that ends
    in an error."""
    other = tmp_path / "other"
    fresh(project, other)
    shrink(other, dataset="mnist")
    with socket.create_server(("127.0.0.1", 0)) as server:
        mirror = f"data_mirror=http://127.0.0.1:{server.getsockname()[1]}"
        snakemake(other, "-n", "--cores", "2", "--config", mirror, "device=cuda")
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not (other / "data").exists()


def test_no_target_undoes_another(project, tmp_path):
    """In both orders; nor do scripts whose time is in the future. Snakemake compares what it
    recorded of each file."""
    other = profiled(project, tmp_path / "other", None)
    for path in (other / "workflow").rglob("*.*"):
        os.utime(path, (time.time() + 10**6,) * 2)
    figure = other / f"reports/quick/{PAPER}/figures/fig4d.svg"

    for first, second in (("all", "fig4d"), ("fig4d", "all")):
        figure.unlink()
        snakemake(other, "--cores", "2", first)
        snakemake(other, "--cores", "2", second)
        for target in ("all", "fig4d"):
            assert NOTHING_TO_BE_DONE_MSG in snakemake(other, "-n", "--cores", "2", target)


def test_the_executed_notebook_shows_the_panel(project):
    cells = json.loads(
        (project / f"reports/quick/notebooks/{PAPER}_fig4d.ipynb").read_text(encoding="utf-8")
    )["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert not any(output["output_type"] == "error" for output in shown)


def profiled(project: Path, folder: Path, ignore=MADE) -> Path:
    """A copy of the project with the options that a clone has."""
    shutil.copytree(project, folder, ignore=ignore)
    shutil.copytree(ROOT / "profiles", folder / "profiles")
    return folder


@pytest.fixture(scope="module")
def again(project, tmp_path_factory) -> tuple[Path, str]:
    """A copy made anew at two cores, with the options that a clone has; what the terminal
    showed."""
    folder = profiled(project, tmp_path_factory.mktemp("again") / "project")
    return folder, snakemake(folder, "--cores", "2", "fig4d")


def test_two_cores_give_the_same_artifacts(project, again):
    """Whether two jobs have them or one run, which tells so."""
    folder, _ = again
    [run] = folder.glob("results/runs/*/digits-l2-*")
    shutil.rmtree(run)
    snakemake(folder, "--cores", "2", PAPER, "--config", "cores_per_run=2")
    times = json.loads((run / "record.json").read_text(encoding="utf-8"))
    assert times["core_seconds"] == pytest.approx(2 * times["seconds"], abs=0.02)
    for room in ("figures", "tables"):
        for path in (project / "reports/quick" / PAPER / room).iterdir():
            assert (
                path.read_bytes()
                == (folder / "reports/quick" / PAPER / room / path.name).read_bytes()
            ), path.name
    numbers = [
        pandas.read_csv(root / "reports/quick" / PAPER / "data/fig4d.csv")
        for root in (project, folder)
    ]
    # times differ
    assert numbers[0].drop(columns="seconds").equals(numbers[1].drop(columns="seconds"))


def test_the_terminal_shows_cost_progress_and_end_and_no_noise(again):
    folder, output = again[0], again[1].splitlines()
    assert re.fullmatch(
        "To be trained: about .* on 2 cores, by the seconds of similar runs.", output[1]
    )
    assert re.fullmatch(r"fedmmd/fig4d +3 .* s", output[3])
    assert (
        output[-2].startswith("Done in ")
        and "3 runs trained" in output[-2]
        and "figures/fig4d.png" in output[-1]
    )
    assert len(output) < 30 and not any(
        line.lstrip().startswith(("rule", "localrule", "Finished")) for line in output
    )
    assert "localrule artifacts_fedmmd:" in min((folder / ".snakemake/log").iterdir()).read_text(
        encoding="utf-8"
    )
    assert snakemake(folder, "--cores", "2", PAPER).splitlines()[1:] == [NOTHING_TO_BE_DONE_MSG]


def test_a_failing_job_is_told_in_one_line_with_its_log(project, tmp_path):
    other = profiled(project, tmp_path / "other")
    path = other / "src/fedrepro/algorithms/l2.py"
    path.write_text(
        path.read_text(encoding="utf-8")
        + "\n\nclass L2(L2):\n    def loss(self, *given):\n        return {}[1]\n"
    )
    output = snakemake(other, "--cores", "2", "fig4d", fails=True)
    assert "Traceback" not in output and "CalledProcessError" not in output
    failed, log = output[output.index("FAILED ") :].splitlines()[:2]
    assert failed == "FAILED fig4d L2 0.001, seed 0: KeyError: 1"
    assert "Traceback" in (other / log.split(": ")[1]).read_text(encoding="utf-8")
    assert "the same command continues with the rest" in output
    # nor after an interrupt, which is the same to Snakemake
    assert not (other / "mlflow.db").exists()


def test_code_that_is_edited_after_the_plan_trains_nothing_under_the_old_name(project, tmp_path):
    """As by an edit while Snakemake runs: before the job imports it. The others are trained; the
    next call plans anew."""
    other = profiled(project, tmp_path / "other")
    script, method = other / "workflow/scripts/train.py", other / "src/fedrepro/algorithms/l2.py"
    text = script.read_text(encoding="utf-8")

    def trained() -> set[str]:
        return {
            path.parent.name.split("-")[1]
            for path in other.glob("results/runs/*/*/model.safetensors")
        }

    script.write_text(
        f"open({str(method)!r}, 'a').write('EDITED = 1\\n')\n{text}", encoding="utf-8"
    )
    output = snakemake(other, "--cores", "1", "train", fails=True)
    assert (
        "FAILED fig4d L2 0.001, seed 0: code changed since the work was planned; start the same "
        "command again\n" in output
    )
    without = trained()
    # though Snakemake deletes those of a job that failed
    assert len(summaries(other)) == len(without)
    script.write_text(text, encoding="utf-8")
    snakemake(other, "--cores", "1", "train")
    assert without and trained() == without | {"l2"} != without


def test_a_changed_target_redraws_the_paper(project, tmp_path):
    """And the one before draws the files before, to the byte."""
    project = shutil.copytree(project, tmp_path / "other")
    path, folder = project / PAPERS / PAPER / "artifacts.yaml", project / "reports/quick" / PAPER
    text = path.read_text(encoding="utf-8")
    before = {path: path.read_bytes() for path in folder.glob("*/*")}
    changed = yaml.safe_load(text)
    changed["experiments"]["fig4d"]["target"]["quick"] = 0.7
    path.write_text(yaml.safe_dump(changed, sort_keys=False), encoding="utf-8")
    snakemake(project, "--cores", "2", PAPER)
    assert (folder / "figures/fig4d.png").read_bytes() != before[folder / "figures/fig4d.png"]
    path.write_text(text, encoding="utf-8")
    snakemake(project, "--cores", "2", PAPER)
    assert {path: path.read_bytes() for path in folder.glob("*/*")} == before


def test_a_clone_makes_committed_artifacts_anew(project, tmp_path):
    """There the numbers that they were drawn from are missing."""
    clone = tmp_path / "clone"
    shutil.copytree(project, clone, ignore=shutil.ignore_patterns(".snakemake"))
    shutil.rmtree(clone / "reports/quick" / PAPER / "data")
    assert f"artifacts_{PAPER}" in snakemake(clone, "-n", PAPER)


def test_new_clients_are_followed_after_the_runs_that_they_need(project, tmp_path):
    """Fig. 6 alone: its four runs, then their new clients; another target asks for the clients
    anew, not for the runs."""
    other = tmp_path / "other"
    shutil.copytree(project, other, ignore=MADE)
    shrink(other, {"fig5c": TINY | {"studies": {"newcomers": NEWCOMERS}}})
    assert f"newcomers_{PAPER}_fig5c" in snakemake(other, "--cores", "2", "fig6")
    assert (other / f"reports/quick/{PAPER}/figures/fig6.png").stat().st_size > 0
    assert len(summaries(other)) == 4
    shrink(other, {"fig5c": TINY | {"studies": {"newcomers": NEWCOMERS | {"target": 0.2}}}})
    again = snakemake(other, "-n", "fig6")
    assert f"newcomers_{PAPER}_fig5c" in again and f"train_{PAPER}" not in again


def test_killed_and_called_again_it_ends_the_same(project, tmp_path, monkeypatch):
    """kill -9 of everything when one seed of a job is over and another is not, then the same
    command: same bytes as an undisturbed run, which needs no Snakemake."""
    folder = profiled(project, tmp_path / "killed")
    shrink(folder, rounds=12, train_images=200, test_images=40)
    params = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8")) | {
        "checkpoint_seconds": 0
    }
    params["scales"]["quick"]["seeds"] = [0, 1]
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    process = begun(folder, "--cores", "1", "train")
    deadline = time.monotonic() + 120
    while not (summaries(folder) and list(folder.glob("results/runs/*/*/checkpoint.safetensors"))):
        assert time.monotonic() < deadline and process.poll() is None, (
            "no run was over before the others"
        )
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    over = summaries(folder)
    assert 0 < len(over) < 6, "killed too late: all runs were over"
    snakemake(folder, "--unlock")
    snakemake(folder, "--cores", "1", "train")
    assert len(after := summaries(folder)) == 6 and {run: after[run] for run in over} == over

    calm = tmp_path / "calm"
    shutil.copytree(folder, calm, ignore=MADE)
    monkeypatch.chdir(calm)
    monkeypatch.setattr(provenance, "current_commit", lambda modules=(): "7e57ed0")
    assert main.main(["train"]) == 0
    for run in (calm / f"results/runs/{PAPER}").iterdir():
        other = folder / run.relative_to(calm)
        assert without_times(run) == without_times(other), run.name
        assert (run / "model.safetensors").read_bytes() == (
            other / "model.safetensors"
        ).read_bytes(), run.name


def test_a_node_does_the_job_that_it_was_given(project, tmp_path):
    """As a cluster's executor calls it there: the main process packed three runs into two jobs, one
    of them is over by now."""
    folder = tmp_path / "node"
    shutil.copytree(project, folder, ignore=MADE)
    snakemake(folder, "-n", "--cores", "2", "train")
    jobs = {
        path.stem: json.loads(path.read_text())
        for path in (folder / ".snakemake/packed/quick/train").glob("*.json")
    }
    assert sorted(map(len, jobs.values())) == [1, 2]
    name, (one, two) = next(item for item in jobs.items() if len(item[1]) == 2)
    shutil.copytree((project / one).parent, (folder / one).parent)
    job = (
        "--mode",
        "remote",
        "--target-jobs",
        f"train_{name}:",
        "--allowed-rules",
        f"train_{name}",
        "--cores",
        "1",
    )
    snakemake(folder, *job, "--force", "--nolock", "--ignore-incomplete")
    assert summaries(folder).keys() == {Path(over).parent.name for over in (one, two)}
    (folder / one).unlink()  # as Snakemake does if another run of its job fails
    assert (
        f"train_{name}" not in snakemake(folder, "-n", "--cores", "2", "train")
        and (folder / one).exists()
    )


def test_a_cluster_gets_what_trains_and_nothing_else():
    """All rules that have names of their own and make files are local; of those that are named by
    what they make, the drawn partitions and the artifacts."""
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "workflow/rules").glob("*.smk"))
    )
    rules = re.findall(r"^rule (\w+):\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    making = {name for name, body in rules if "    output:" in body}
    listed = re.search(
        r"^localrules:\n((?:    \w+,\n)+)",
        (ROOT / "Snakefile").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert making and set(re.findall(r"\w+", listed[1])) == making
    made = re.findall(r"^    rule:\n((?:        .*\n|\n)+)", text, re.MULTILINE)
    making = [body for body in made if "script:" in body]
    trains = [("scripts/train.py" in body or "scripts/study.py" in body) for body in making]
    assert sum(trains) == 2 and trains == ["localrule: True" not in body for body in making]
