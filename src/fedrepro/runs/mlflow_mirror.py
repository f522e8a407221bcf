"""Copies of finished runs in MLflow, for browsing and comparing.

The run folders are the source and MLflow is a view of them: a copy may be deleted and is then made again, and a store that does
not answer costs a warning, never a result. There is one MLflow experiment per paper and one MLflow run per run. A copy with the
status RUNNING was interrupted; the next call replaces it. One process at a time writes to a database, the others wait.
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
from fedrepro.core.files import read_json, single_process
from fedrepro.core.metrics import MEASURES
from fedrepro.runs import integrity
from fedrepro.runs.kept import Rows
from fedrepro.runs.run import LOG, RESULT_FILES, Run

log = logging.getLogger(__name__)
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # the UI then opens the view of training runs
    "mlflow.experiment.primaryMetric.name": "test_accuracy",  # and shows this metric first
}
SETTINGS = {  # environment variables that mlflow reads on import or use; set unless the user has set them
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds; mlflow's own patience with a silent server is many minutes
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
}
COPIED_FILES = (*RESULT_FILES, LOG, "model.safetensors")
MAX_FILE_BYTES = 5_000_000  # larger weights stay in the run's folder
METRICS_PER_CALL = 1000  # MLflow accepts no more


@dataclass(frozen=True)
class MirrorOutcome:
    """Numbers of runs that a call copied, found copied or found unfinished; `problem` says what failed, if anything."""

    new: int
    present: int
    unfinished: int
    problem: str | None


@dataclass(frozen=True)
class FinishedRun:
    """The parts of a run that are copied; times in milliseconds since 1970."""

    run: Run
    rows: Rows
    tags: dict[str, str]
    start: int
    end: int


def mirror(runs_by_experiment: Iterable[tuple[str, str, str, Run]], uri: str, scale: str) -> MirrorOutcome:
    """Bring MLflow at `uri` up to date with tuples (paper, experiment, series label, run). Never raises for a store's failure.

    The call overwrites the tags experiment, series and scale, so pass all experiments of a paper at once; each pair of scale
    and experiment has a tag, too, which copies lose once the plan does not name them any more.
    """
    papers, unfinished, problems = _group_by_paper(runs_by_experiment, scale)
    new = present = 0
    try:
        with _database_lock(uri) if papers else contextlib.nullcontext():
            client = _client(uri) if papers else None  # None: the loop below is empty
            for paper, runs in papers.items():
                experiment = _experiment_id(client, uri, paper)
                copies = _complete_copies(client, experiment)
                planned = {finished.tags["digest"]: finished.tags for finished in runs}
                for digest, copy in copies.items():
                    _remove_tags(client, copy, f"experiment.{scale}.", planned.get(digest, {}))
                for finished in runs:
                    if copy := copies.get(finished.tags["digest"]):
                        _update_tags(client, copy, finished.tags)
                        present += 1
                    else:
                        _copy_run(client, experiment, finished)
                        new += 1
    except Exception as error:  # of a store, its driver or the network: a broken view must not stop the pipeline
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        reason = " ".join(str(error).split()).replace(uri, masked(uri))
        problems.append(masked(f"{uri}: {type(error).__name__}: {reason[:300]}"))
    log.info("MLflow: %d runs copied, %d already there, %d not finished", new, present, unfinished)
    if problems:
        log.warning("MLflow is not up to date; the results are safe, call again later: %s", "; ".join(problems))
    return MirrorOutcome(new, present, unfinished, "; ".join(problems) or None)


def remove_stale_marker(uri: str, marker: Path) -> None:
    """Delete the file that marks a finished mirroring if it names a problem or its database is gone, so that the job runs."""
    failed = bool((read_json(marker, "problem") or {"problem": None})["problem"])
    if failed or ((file := _database_file(uri)) and not file.exists()):
        marker.unlink(missing_ok=True)


def _database_lock(uri: str) -> contextlib.AbstractContextManager:
    file = _database_file(uri)
    return single_process(file.with_name(f".{file.name}.lock")) if file else contextlib.nullcontext()


def _group_by_paper(runs_by_experiment: Iterable[tuple[str, str, str, Run]], scale: str) -> tuple[dict, int, list[str]]:
    """Return each paper's finished runs, each once; the number of unfinished runs; and messages on unreadable ones.

    The tag `experiment` names the first experiment of a run; each of its experiments has a tag with scale and series.
    """
    uses: dict[tuple[str, Path], tuple[Run, dict[str, str]]] = {}
    papers, unfinished, problems = defaultdict(list), 0, []
    for paper, experiment, label, run in runs_by_experiment:
        _, labels = uses.setdefault((paper, run.folder), (run, {}))
        labels.setdefault(experiment, label)
    for (paper, _), (run, labels) in uses.items():
        experiment, label = next(iter(labels.items()))
        tags = {"paper": paper, "scale": scale, "experiment": experiment, "series": label}
        tags |= {f"experiment.{scale}.{name}": series for name, series in labels.items()}
        tags["mlflow.runName"] = f"{label}, {experiment}, seed {run.config.seed}"
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
    final = [(MEASURES[name], value) for name, value in record.get("final", {}).items()]
    results = [f"{measure.title} {100 * value:.2f} %" for measure, value in final if measure.percent]
    tags = tags | {
        "run": run.id,
        "digest": provenance.value_digest([run.id, record["metrics"]], 32),  # other hardware gives a run other numbers
        "seed": str(run.config.seed),
        "status": status,
        "data": run.data,
        "code": run.code,
        "commit": record["environment"]["commit"],
        "mlflow.note.content": f"{', '.join([status, *results])} (scale {tags['scale']})",  # the column "Description"
    }
    ended = datetime.fromisoformat(record["ended"]).timestamp() if "ended" in record else run.summary.stat().st_mtime
    return FinishedRun(run, rows, tags, int((ended - record.get("seconds", 0.0)) * 1000), int(ended * 1000))


def _client(uri: str) -> Any:
    for key, value in SETTINGS.items():
        os.environ.setdefault(key, value)
    if file := _database_file(uri):
        _check_writable(file)
    elif uri.startswith("sqlite"):
        raise ValueError("names no database file; expected sqlite:///<path>")
    from mlflow import MlflowClient  # takes seconds to import

    return MlflowClient(tracking_uri=uri)  # creates the tables of a new database


def _database_file(uri: str) -> Path | None:
    """Return the file of an SQLite database; None for a server, or a database in memory."""
    match = re.match(r"sqlite(?:\+\w+)?:///(?!:memory:|file:)([^?]+)", uri)
    return Path(match[1]) if match else None


def _check_writable(file: Path) -> None:
    """Raise OSError or sqlite3.Error if a database cannot be written; mlflow itself tries for 100 s before it fails."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("BEGIN IMMEDIATE")


def _experiment_id(client: Any, uri: str, paper: str) -> str:
    """Return the id of a paper's MLflow experiment; create it if it is missing and restore it if it was deleted."""
    location = None  # of artifact files: a server has its own, a database gets a folder next to it
    if file := _database_file(uri):
        location = (file.parent / "mlartifacts" / paper).absolute().as_uri()  # MLflow keeps absolute paths only
    experiment = client.get_experiment_by_name(paper)
    if experiment is None:
        return client.create_experiment(paper, artifact_location=location, tags=EXPERIMENT_TAGS)
    if location and experiment.artifact_location != location:  # the database was copied: do not write into its old folder
        raise ValueError(f"its files are elsewhere, at {experiment.artifact_location}; delete the database, it is made again")
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


def _complete_copies(client: Any, experiment: str) -> dict[str, Any]:
    """Return the complete MLflow runs of an experiment by their tag `digest`; delete interrupted ones."""
    copies = {}
    for copy in client.search_runs([experiment], max_results=50_000):  # the most that MLflow gives
        if copy.info.status == "RUNNING":
            client.delete_run(copy.info.run_id)
        else:
            copies[copy.data.tags.get("digest")] = copy
    return copies


def _update_tags(client: Any, copy: Any, tags: dict[str, str]) -> None:
    for key, value in tags.items() - copy.data.tags.items():
        client.set_tag(copy.info.run_id, key, value)


def _remove_tags(client: Any, copy: Any, prefix: str, tags: dict[str, str]) -> None:
    """Remove the tags of a copy that begin with `prefix` and are not among `tags`."""
    for key in copy.data.tags:
        if key.startswith(prefix) and key not in tags:
            client.delete_tag(copy.info.run_id, key)


def _copy_run(client: Any, experiment: str, finished: FinishedRun) -> None:
    """Create an MLflow run; its final status is written last."""
    from mlflow.entities import Metric, Param

    run = finished.run
    copy = client.create_run(experiment, start_time=finished.start, tags=finished.tags).info.run_id
    client.log_batch(copy, params=[Param(*item) for item in _flatten(run.config.model_dump(mode="json"))])
    metrics = [Metric(*point) for point in _metric_points(finished)]
    for start in range(0, len(metrics), METRICS_PER_CALL):
        client.log_batch(copy, metrics=metrics[start : start + METRICS_PER_CALL])
    for path in (run.folder / name for name in COPIED_FILES):
        if path.exists() and path.stat().st_size <= MAX_FILE_BYTES:
            client.log_artifact(copy, str(path))
    client.set_terminated(copy, "FINISHED" if finished.tags["status"] == "finished" else "FAILED", finished.end)


def _flatten(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested settings with dotted keys, `{"algorithm": {"mu": 0.1}}` as ("algorithm.mu", "0.1"); values that are no
    texts become JSON."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value if isinstance(value, str) else json.dumps(value)


def _metric_points(finished: FinishedRun) -> Iterator[tuple[str, float, int, int]]:
    """Yield (column, value, milliseconds, round) of all measured values; infinity becomes NaN, which MLflow draws as a gap."""
    for number, row in enumerate(finished.rows):
        time = finished.start + (finished.end - finished.start) * number // max(1, len(finished.rows) - 1)
        for column, cell in row.items():
            if column != "round" and cell:
                yield column, float(cell) if math.isfinite(float(cell)) else math.nan, time, number
