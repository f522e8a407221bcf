"""Copies of finished runs in MLflow, for browsing and comparing.

The run folders are the source and MLflow is a view of them: a copy may be deleted and is then made
again, and a store that does not answer costs a warning, never a result. There is one MLflow
experiment per paper and one MLflow run per run, which its tag `digest` identifies. A copy with the
status RUNNING was interrupted; the next call replaces it. One process at a time writes to a
database, the others wait.
"""

import contextlib
import json
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
from fedrepro.runs import records
from fedrepro.runs.records import Record, Rows
from fedrepro.runs.run import Run

EXPERIMENT_TAGS = {
    # the UI then opens the view of training runs
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.experiment.primaryMetric.name": "test_accuracy",  # and shows this metric first
}
# environment variables that mlflow reads on import or use; set unless the user has set them
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # seconds; mlflow's own patience with a silent server is many minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
}
VALUES_PER_CALL = 1000  # parameters and metrics; MLflow accepts no more


@dataclass(frozen=True)
class MirrorOutcome:
    """Numbers of runs that a call copied and found copied; `problem` says what failed, if
    anything."""

    new: int
    present: int
    problem: str | None


def mirror(
    runs_by_experiment: Iterable[tuple[str, str, str, Run]], uri: str, scale: str
) -> MirrorOutcome:
    """Bring MLflow at `uri` up to date with tuples (paper, experiment, series label, run). Never
    raises for a store's failure.

    Each pair of scale and experiment has a tag, which copies lose once the experiment does not name
    them any more.
    """
    papers: dict[str, dict[Path, tuple[Run, dict[str, str]]]] = defaultdict(dict)
    for paper, experiment, label, run in runs_by_experiment:
        if run.summary.exists():
            papers[paper].setdefault(run.folder, (run, {}))[1].setdefault(
                f"experiment.{scale}.{experiment}", label
            )
    new, present, problems = 0, 0, []
    try:
        with _database_lock(uri) if papers else contextlib.nullcontext():
            client = _client(uri) if papers else None  # None: the loop below is empty
            for paper, runs in papers.items():
                experiment = _experiment_id(client, paper)
                copies = _complete_copies(client, experiment)
                mentioned = {key for _, labels in runs.values() for key in labels}
                for run, labels in runs.values():
                    try:
                        record = records.load(run.folder)
                        # other hardware: other numbers
                        digest = provenance.value_digest([run.id, record["metrics"]], 32)
                    except (UserError, OSError, ValueError) as error:
                        problems.append(f"{run.folder}: does not read: {error}")
                        continue
                    if digest in copies:
                        _update_tags(client, copies.pop(digest), labels, mentioned)
                        present += 1
                    else:
                        _copy_run(
                            client,
                            experiment,
                            run,
                            record,
                            labels | {"digest": digest, "paper": paper},
                        )
                        new += 1
                for copy in copies.values():
                    _update_tags(client, copy, {}, mentioned)
    # of a store, its driver or the network: a broken view must not stop the pipeline
    except Exception as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        reason = " ".join(str(error).split()).replace(uri, masked(uri))
        problems.append(masked(f"{uri}: {type(error).__name__}: {reason[:300]}"))
    return MirrorOutcome(new, present, "; ".join(problems) or None)


def _database_lock(uri: str) -> contextlib.AbstractContextManager:
    file = _database_file(uri)
    return (
        single_process(file.with_name(f".{file.name}.lock")) if file else contextlib.nullcontext()
    )


def _write_unsynchronised(connection: Any, _: object) -> None:
    """Let SQLite wait for no disk, which takes two thirds of the time; after a crash of the
    machine, the view is made again."""
    connection.execute("PRAGMA synchronous=OFF")


def _client(uri: str) -> Any:
    for key, value in SETTINGS.items():
        os.environ.setdefault(key, value)
    if file := _database_file(uri):
        _check_writable(file)
    elif uri.startswith("sqlite"):
        raise ValueError("names no database file; expected sqlite:///<path>")
    from mlflow import MlflowClient  # takes seconds to import
    from sqlalchemy import Engine, event

    if file:
        event.listen(Engine, "connect", _write_unsynchronised)
    return MlflowClient(tracking_uri=uri)  # creates the tables of a new database


def _database_file(uri: str) -> Path | None:
    """Return the file of an SQLite database; None for a server, or a database in memory."""
    match = re.match(r"sqlite(?:\+\w+)?:///(?!:memory:|file:)([^?]+)", uri)
    return Path(match[1]) if match else None


def _check_writable(file: Path) -> None:
    """Raise OSError or sqlite3.Error if a database cannot be written; mlflow itself tries for 100 s
    before it fails."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("BEGIN IMMEDIATE")


def _experiment_id(client: Any, paper: str) -> str:
    """Return the id of a paper's MLflow experiment; create it if it is missing and restore it if it
    was deleted."""
    experiment = client.get_experiment_by_name(paper)
    if experiment is None:
        return client.create_experiment(paper, tags=EXPERIMENT_TAGS)
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


def _complete_copies(client: Any, experiment: str) -> dict[str, Any]:
    """Return the complete MLflow runs of an experiment by their tag `digest`; delete interrupted
    ones."""
    copies = {}
    for copy in client.search_runs([experiment], max_results=50_000):  # the most that MLflow gives
        if copy.info.status == "RUNNING":
            client.delete_run(copy.info.run_id)
        else:
            copies[copy.data.tags.get("digest")] = copy
    return copies


def _update_tags(client: Any, copy: Any, tags: dict[str, str], mentioned: set[str]) -> None:
    """Give a copy `tags`, and remove those that are `mentioned` for other runs only."""
    from mlflow.entities import RunTag

    if missing := tags.items() - copy.data.tags.items():
        client.log_batch(copy.info.run_id, tags=[RunTag(*tag) for tag in missing])
    for key in mentioned & copy.data.tags.keys() - tags.keys():
        client.delete_tag(copy.info.run_id, key)


def _copy_run(client: Any, experiment: str, run: Run, record: Record, tags: dict[str, str]) -> None:
    """Create an MLflow run; its final status is written last. Times are in milliseconds since
    1970."""
    from mlflow.entities import Metric, Param

    key, label = next(iter(tags.items()))
    _, scale, name = key.split(".", 2)
    final = [(MEASURES[name], value) for name, value in record.get("final", {}).items()]
    results = [
        f"{measure.title} {100 * value:.2f} %" for measure, value in final if measure.percent
    ]
    tags |= {
        **{"run": run.id, "folder": str(run.folder), "data": run.data, "code": run.code},
        **{"scale": scale, "experiment": name, "series": label, "seed": str(run.config.seed)},
        "status": record["status"],
        "commit": record["environment"]["commit"],
        # the column "Description"
        "mlflow.note.content": f"{', '.join([record['status'], *results])} (scale {scale})",
    }
    ended = (
        datetime.fromisoformat(record["ended"]).timestamp()
        if "ended" in record
        else run.summary.stat().st_mtime
    )
    start, end = int((ended - record.get("seconds", 0.0)) * 1000), int(ended * 1000)
    params = [Param(*item) for item in _flatten(run.config.model_dump(mode="json"))]
    metrics = [
        Metric(*point) for point in _metric_points(records.rows(record["columns"]), start, end)
    ]
    title = f"{label}, {name}, seed {run.config.seed}"
    copy = client.create_run(experiment, start_time=start, tags=tags, run_name=title).info.run_id
    first = VALUES_PER_CALL - len(params)
    client.log_batch(copy, metrics[:first], params)
    for begin in range(first, len(metrics), VALUES_PER_CALL):
        client.log_batch(copy, metrics[begin : begin + VALUES_PER_CALL])
    client.set_terminated(copy, "FINISHED" if record["status"] == "finished" else "FAILED", end)


def _flatten(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested settings with dotted keys, `{"algorithm": {"mu": 0.1}}` as ("algorithm.mu",
    "0.1"); values that are no texts become JSON."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value if isinstance(value, str) else json.dumps(value)


def _metric_points(rows: Rows, start: int, end: int) -> Iterator[tuple[str, float, int, int]]:
    """Yield (column, value, milliseconds, round) of all measured values; infinity becomes NaN,
    which MLflow draws as a gap."""
    for number, row in enumerate(rows):
        time = start + (end - start) * number // max(1, len(rows) - 1)
        for column, cell in row.items():
            if column != "round" and cell:
                yield column, float(cell) if math.isfinite(float(cell)) else math.nan, time, number
