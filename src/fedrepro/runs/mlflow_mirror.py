"""Finished runs, copied once each into MLflow for browsing and comparing.

The run folders are the truth and MLflow is a view of them: a copy may be deleted and made again, and a store that does not
answer costs a warning, never a result. One MLflow experiment per paper, one MLflow run per run. A copy that MLflow still calls
running was interrupted and is replaced by the next call. A database is written by one process at a time, the others wait.
"""

import contextlib
import json
import logging
import math
import os
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fedrepro.core import provenance
from fedrepro.core.errors import UserError, is_interrupt, masked
from fedrepro.core.files import single_process
from fedrepro.core.metrics import MEASURES
from fedrepro.runs import integrity
from fedrepro.runs.kept import Rows
from fedrepro.runs.run import LOG, RESULT_FILES, Run

log = logging.getLogger(__name__)
KIND = {"mlflow.experimentKind": "custom_model_development"}  # the UI then opens the view of training runs
KIND |= {"mlflow.experiment.primaryMetric.name": "test_accuracy"}  # and shows this one first

SETTINGS = {  # for the whole process, where the user has set nothing else; read by mlflow when it is imported or used
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds; mlflow's own patience with a silent server is many minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
}
COPIED = (*RESULT_FILES, LOG, "model.safetensors")
LARGEST_FILE, METRICS_PER_CALL = 5_000_000, 1000  # bytes, larger weights stay in the run folder; MLflow takes no more


@dataclass(frozen=True)
class MirrorOutcome:
    """What a call did, in runs; `problem` is None or says why it could not do all of it."""

    new: int
    present: int
    unfinished: int
    problem: str | None


@dataclass(frozen=True)
class FinishedRun:
    """What is copied of a run; times in milliseconds since 1970."""

    run: Run
    rows: Rows
    tags: dict[str, str]
    start: int
    end: int


def mirror(runs_by_experiment: Iterable[tuple[str, str, str, Run]], uri: str, scale: str) -> MirrorOutcome:
    """Bring MLflow at `uri` up to date with (paper, experiment, series label, run). Never raises for a store's failure.

    The tags experiment, series and scale become what this call says, so give all experiments of a paper at once.
    """
    papers, unfinished, problems = _group_by_paper(runs_by_experiment, scale)
    new = present = 0
    try:
        with _database_lock(uri) if papers else contextlib.nullcontext():
            client = _client(uri) if papers else None
            for paper, runs in papers.items():
                experiment = _experiment_id(client, uri, paper)
                copies = _complete_copies(client, experiment)
                for finished in runs:
                    if copy := copies.get(finished.tags["digest"]):
                        for key, value in finished.tags.items() - copy.data.tags.items():
                            client.set_tag(copy.info.run_id, key, value)
                        present += 1
                    else:
                        _copy_run(client, experiment, finished)
                        new += 1
    except Exception as error:  # whatever a store, its driver or the network raises: a broken view must not stop the pipeline
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        reason = " ".join(str(error).split()).replace(uri, masked(uri))
        problems.append(masked(f"{uri}: {type(error).__name__}: {reason[:300]}"))
    log.info("MLflow: %d runs copied, %d already there, %d not finished", new, present, unfinished)
    if problems:
        log.warning("MLflow is not up to date; the results are safe, call again later: %s", "; ".join(problems))
    return MirrorOutcome(new, present, unfinished, "; ".join(problems) or None)


def remove_stale_marker(uri: str, marker: Path) -> None:
    """Away with the file that tells of a mirroring where the database that it filled is gone: it is made again."""
    if (file := _database_file(uri)) and not file.exists():
        marker.unlink(missing_ok=True)


def _database_lock(uri: str) -> contextlib.AbstractContextManager:
    file = _database_file(uri)
    return single_process(file.with_name(f".{file.name}.lock")) if file else contextlib.nullcontext()


def _group_by_paper(runs_by_experiment: Iterable[tuple[str, str, str, Run]], scale: str) -> tuple[dict, int, list[str]]:
    """paper -> its finished runs, each once; how many are not finished; which do not read."""
    uses, papers, unfinished, problems = {}, defaultdict(list), 0, []
    for paper, experiment, label, run in runs_by_experiment:
        _, experiments, labels = uses.setdefault((paper, run.folder), (run, {}, {}))
        experiments[experiment] = labels[label] = None  # dictionaries as ordered sets
    for (paper, _), (run, experiments, labels) in uses.items():
        tags = {"paper": paper, "scale": scale, "experiment": ", ".join(experiments), "series": "; ".join(labels)}
        tags["mlflow.runName"] = f"{paper}/{next(iter(experiments))}/{next(iter(labels))}/seed {run.config.seed}"
        try:
            if run.summary.exists():
                papers[paper].append(_load_finished(run, tags))
            else:
                unfinished += 1
        except (UserError, OSError, ValueError) as error:
            problems.append(f"{run.folder}: does not read: {error}")
    return papers, unfinished, problems


def _load_finished(run: Run, tags: dict[str, str]) -> FinishedRun:
    record, rows = integrity.load_record(run.folder), integrity.load_metrics(run.folder)
    status = record["status"]
    known = [(MEASURES[name], value) for name, value in record.get("final", {}).items()]
    shown = [f"{measure.title} {100 * value:.2f} %" for measure, value in known if measure.percent]
    note = f"{', '.join([status, *shown])} (scale {tags['scale']})"  # the list's column "Description"
    digest = provenance.value_digest([run.id, record["metrics"]], 32)  # the same run on other hardware has other numbers
    own = {"run": run.id, "digest": digest, "seed": str(run.config.seed), "status": status, "data": run.data}
    own |= {"code": run.code, "commit": record["environment"]["commit"], "mlflow.note.content": note}
    ended = datetime.fromisoformat(record["ended"]).timestamp() if "ended" in record else run.summary.stat().st_mtime
    return FinishedRun(run, rows, tags | own, int((ended - record.get("seconds", 0.0)) * 1000), int(ended * 1000))


def _client(uri: str) -> Any:
    for key, value in SETTINGS.items():
        os.environ.setdefault(key, value)
    if file := _database_file(uri):
        _check_writable(file)
    elif uri.startswith("sqlite"):
        raise ValueError("names no database file; expected sqlite:///<path>")
    from mlflow import MlflowClient  # takes seconds, and only this needs it

    return MlflowClient(tracking_uri=uri)  # creates the tables of a new database


def _database_file(uri: str) -> Path | None:
    """The file of an SQLite database; None for a server, or a database in memory."""
    found = re.match(r"sqlite(?:\+\w+)?:///(?!:memory:|file:)([^?]+)", uri)
    return Path(found[1]) if found else None


def _check_writable(file: Path) -> None:
    """Raises OSError or sqlite3.Error where it cannot be written: mlflow tries for 100 s before it says so."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("BEGIN IMMEDIATE")


def _experiment_id(client: Any, uri: str, paper: str) -> str:
    """The id of the paper's MLflow experiment, made where there is none and restored where it was deleted."""
    location = None  # of the files: a server has a place of its own, a database gets one beside it
    if file := _database_file(uri):
        location = (file.parent / "mlartifacts" / paper).absolute().as_uri()  # MLflow keeps absolute paths only
    found = client.get_experiment_by_name(paper)
    if found is None:
        return client.create_experiment(paper, artifact_location=location, tags=KIND)
    if location and found.artifact_location != location:  # it was copied: do not write into its old folder
        raise ValueError(f"its files lie elsewhere, at {found.artifact_location}; delete the database, it is made again")
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id


def _complete_copies(client: Any, experiment: str) -> dict[str, Any]:
    """digest -> the complete MLflow run that has it; interrupted ones are deleted."""
    found = {}
    for copy in client.search_runs([experiment], max_results=50_000):  # the most that MLflow gives
        if copy.info.status == "RUNNING":
            client.delete_run(copy.info.run_id)
        else:
            found[copy.data.tags.get("digest")] = copy
    return found


def _copy_run(client: Any, experiment: str, finished: FinishedRun) -> None:
    """One new MLflow run; the end comes last."""
    from mlflow.entities import Metric, Param

    run = finished.run
    made = client.create_run(experiment, start_time=finished.start, tags=finished.tags).info.run_id
    client.log_batch(made, params=[Param(*item) for item in _flatten(run.config.model_dump(mode="json"))])
    metrics = [Metric(*point) for point in _metric_points(finished)]
    for start in range(0, len(metrics), METRICS_PER_CALL):
        client.log_batch(made, metrics=metrics[start : start + METRICS_PER_CALL])
    for path in (run.folder / name for name in COPIED):
        if path.exists() and path.stat().st_size <= LARGEST_FILE:
            client.log_artifact(made, str(path))
    client.set_terminated(made, "FINISHED" if finished.tags["status"] == "finished" else "FAILED", finished.end)


def _flatten(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """`{"algorithm": {"mu": 0.1}}` as ("algorithm.mu", "0.1"); texts as they are, all else as JSON."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value if isinstance(value, str) else json.dumps(value)


def _metric_points(finished: FinishedRun) -> Iterator[tuple[str, float, int, int]]:
    """(column, value, milliseconds, round) of all that was measured. Infinity becomes NaN, which MLflow draws as a gap."""
    for number, row in enumerate(finished.rows):
        moment = finished.start + (finished.end - finished.start) * number // max(1, len(finished.rows) - 1)
        for column, cell in row.items():
            if column != "round" and cell:
                yield column, float(cell) if math.isfinite(float(cell)) else math.nan, moment, number
