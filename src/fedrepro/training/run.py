"""Training of one run and the files in its folder. It can be stopped and resumed at any time.

record.json            the run's record (runs/records.py); exists exactly if the run is finished
begun.json             settings, data, code, environment and times so far, from which the record is
made model.safetensors      the global weights and the server's state; clients' states are kept in
snapshots alone log.txt                times checkpoint.safetensors, checkpoint.clients/,
clients-*/, progress.json   while unfinished snapshots/             states that studies need
(training/replay.py)
"""

import contextlib
import logging
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from fedrepro.config.params import RunConfig
from fedrepro.core import provenance
from fedrepro.core.errors import CONTINUED, UserError
from fedrepro.core.files import (
    check_no_links,
    remove_stale_parts_below,
    single_process,
)
from fedrepro.core.metrics import MEASURES
from fedrepro.data import source_label
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import Partition
from fedrepro.runs import records
from fedrepro.runs.records import BEGUN, Record
from fedrepro.runs.run import Row, Run
from fedrepro.training import checkpoint, progress_bar, replay
from fedrepro.training.compiled_step import fx_passes
from fedrepro.training.federation import Federation, State
from fedrepro.training.round import run_round
from fedrepro.training.state import remove_left

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """When to save and when to stop; times in seconds, `deadline` on the monotonic clock."""

    checkpoint_seconds: float = 30
    deadline: float | None = None

    def forbid(self, seconds: float) -> bool:
        """Return whether a piece of work of this length would pass the deadline."""
        return self.deadline is not None and time.monotonic() + seconds >= self.deadline


def is_finished(run: Run) -> bool:
    """Return whether the run is finished. If only its record is missing, write it from the final
    state."""
    if run.summary.exists():
        return True
    if not (run.folder / "model.safetensors").exists():
        return False
    check_no_links(run.folder)
    state, rows = _load_state(run, run.folder / "model.safetensors")
    _write_record(run, state, rows, records.load_begun(run.folder))
    return True


def train(
    run: Run,
    dataset: Dataset,
    partition: Partition,
    device: torch.device,
    limits: Limits,
    executor: str = "auto",
    snapshots: frozenset[int] = frozenset(),
    recordings: dict | None = None,
    cores: int = 1,
) -> bool:
    """Train the run to its end, from its checkpoint if there is one. Returns False if it stopped at
    the deadline.

    `snapshots` are the rounds before which its state is stored for studies; `recordings`: see
    `compiled_step.step.Step`; `cores`: see `Federation`."""
    if is_finished(run):
        return True
    _create_folder(run.folder)
    check_no_links(run.folder)
    with single_process(run.log, wait=False), _LogToFile(run.log):
        # before training: a commit that is made while this process trains is not the code that it
        # runs
        environment = provenance.environment(device, provenance.modules(run.config))
        begun = run.config_record() | {
            "dataset": source_label.format_label(dataset.meta),
            "environment": environment,
        }
        clock = _Clock(run, begun)
        federation = None
        try:
            remove_left(run.folder)
            federation = Federation(
                run.config,
                dataset,
                partition,
                device,
                executor,
                recordings,
                cores,
                folder=run.folder,
            )
            return _train(run, federation, limits, snapshots, clock)
        except RuntimeError as error:
            if not (
                isinstance(error, torch.OutOfMemoryError)
                or "DefaultCPUAllocator: can't allocate" in str(error)
            ):
                raise
        finally:
            if federation:
                federation.close()
    name = federation.executor.name if federation else executor
    cores = federation.cores if federation else 1
    # outside the handler, in which the error keeps its tensors alive
    raise _memory_error(run.config, device, name, cores)


def _train(
    run: Run, federation: Federation, limits: Limits, snapshots: frozenset[int], clock: "_Clock"
) -> bool:
    state, rows = _resume(run, federation)
    alone_on_cpu = federation.device.type == "cpu" and not federation.worker_pool
    clock.start(state.round, None if alone_on_cpu else federation.cores)
    state = _train_rounds(run, federation, state, rows, limits, snapshots, clock)
    if state.round < run.config.rounds and not state.diverged:
        log.info(
            "stopped at the time limit after round %d of %d; the same command resumes it",
            state.round,
            run.config.rounds,
        )
        return False
    environment = clock.begun["environment"]
    # of one image's forward pass
    environment.update(executor=federation.executor.name, operations=federation.flops)
    if federation.device.type == "cpu":
        # library of large matrix products
        environment["products"] = "oneDNN" if fx_passes.prefers_onednn() else "torch"
    _finish(run, state, rows, clock)
    return True


def _memory_error(config: RunConfig, device: torch.device, executor: str, cores: int) -> UserError:
    """Return the error for a full memory, with the settings that need less."""
    stacked = executor.startswith("stacked")
    remedy = (
        "choose executor: sequential, which trains one client at a time, or lower"
        if stacked
        else "lower"
    )
    jobs = "cores_per_run" if cores > 1 else "--cores"
    if device.type == "cuda":
        jobs = "gpu_jobs_per_device"
    return UserError(
        f"memory is full on {device.type}, with executor {executor}, {config.clients_per_round} "
        f"clients a round and batches of {config.batch_size}: {remedy} {jobs}, or, for another "
        f"run, batch_size or clients_per_round; {CONTINUED}"
    )


def _resume(run: Run, federation: Federation) -> tuple[State, list[Row]]:
    path = run.folder / "checkpoint.safetensors"
    if not path.exists():
        state, row = federation.start()
        return state, [row]
    state, rows = _load_state(run, path, federation.client_store.keep)
    checkpoint.delete_unreferenced(path, state)
    log.info("resumed after round %d", state.round)
    return federation.state_to_device(state), rows


def _load_state(run: Run, path: Path, *keep: checkpoint.Keep) -> tuple[State, list[Row]]:
    """Load a state of this run and a row for each of its rounds. Raises UserError if the file has
    others."""
    state, rows = checkpoint.load(path, run.id, *keep)
    rounds = [row.get("round") for row in rows]
    has_measures = set(run.config.measures) <= set(rows[0]) if rows else False
    if (
        state.round > run.config.rounds
        or rounds != list(range(state.round + 1))
        or not has_measures
    ):
        raise UserError(
            f"{path}: round {state.round} with {len(rows)} rows: not of this run; "
            f"{checkpoint.RESTART_REMEDY}"
        )
    if not state.diverged and not all(tensor.isfinite().all() for tensor in state.weights.values()):
        raise UserError(f"{path}: weights are not finite; {checkpoint.RESTART_REMEDY}")
    return state, rows


def _train_rounds(
    run: Run,
    federation: Federation,
    state: State,
    rows: list[Row],
    limits: Limits,
    snapshots: frozenset[int],
    clock: "_Clock",
) -> State:
    saved, last_seconds = time.monotonic(), 0.0
    with progress_bar.report_progress(run, rows) as report:
        while state.round < run.config.rounds and not state.diverged:
            if state.round + 1 in snapshots:
                replay.store_snapshot(run.folder, state)
            began = time.monotonic()
            if limits.forbid(last_seconds):  # the next round will take about as long as the last
                _save(run, state, rows, clock)
                break
            try:
                state, row = run_round(federation, state)
            except KeyboardInterrupt:
                extra = progress_bar.SHOWN_AS_BAR  # the command says that it stopped
                log.warning(
                    "stopped after round %d of %d", state.round, run.config.rounds, extra=extra
                )
                _save(run, state, rows, clock)
                raise
            rows.append(row)
            _log_round(run, row)
            report()
            last_seconds = time.monotonic() - began
            clock.round_seconds.append(round(last_seconds, 4))
            if time.monotonic() - saved >= limits.checkpoint_seconds:
                _save(run, state, rows, clock)
                saved = time.monotonic()
    return state


def _save(run: Run, state: State, rows: list[Row], clock: "_Clock") -> None:
    checkpoint.save(run.folder / "checkpoint.safetensors", state, rows, run.id)
    clock.write(state.round)


def _finish(run: Run, state: State, rows: list[Row], clock: "_Clock") -> None:
    """Write the final files, the record last: where it exists, the run is complete."""
    if state.diverged:
        log.warning("diverged at round %d: the loss or a weight is not finite", state.round)
    clock.write(state.round)
    checkpoint.save(run.folder / "model.safetensors", replace(state, clients={}), rows, run.id)
    final = _write_record(run, state, rows, clock.begun)["final"]
    log.info(
        "finished: %s",
        ", ".join(f"{MEASURES[name].title} {value:.4f}" for name, value in final.items()),
    )


def _write_record(run: Run, state: State, rows: list[Row], begun: Record) -> Record:
    """Delete the files that only an unfinished run needs, then write the record."""
    checkpoint.delete(run.folder / "checkpoint.safetensors")
    run.progress.unlink(missing_ok=True)
    remove_stale_parts_below(run.folder)
    record = _record(run, state, rows, begun)
    records.write(run.summary, record)
    return record


def _record(run: Run, state: State, rows: list[Row], begun: Record) -> Record:
    measured = {
        name: [row[name] for row in rows if row[name] is not None] for name in run.config.measures
    }
    measured = {name: values for name, values in measured.items() if values}
    columns = records.columns(rows[0], [row.values() for row in rows])
    seconds = {records.SECONDS: [None, *begun["round_seconds"]]}
    return {
        "run": run.id,
        **{name: value for name, value in begun.items() if name != "round_seconds"},
        "status": f"diverged at round {state.round}" if state.diverged else "finished",
        "rounds": state.round,
        "final": {name: values[-1] for name, values in measured.items()},
        "best": {name: max(values) for name, values in measured.items() if MEASURES[name].percent},
        "bytes_down": sum(row["bytes_down"] for row in rows),
        "bytes_up": sum(row["bytes_up"] for row in rows),
        "weights": sum(tensor.numel() for tensor in state.weights.values()),
        "metrics": records.digest(columns),
        "columns": columns | seconds,
    }


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot create the run's folder: {error.strerror}. Choose another with "
            f"--results."
        ) from None


class _Clock:
    """The seconds of a run's training in all its sessions and of each round, and core seconds: CPU
    time, which counts neither waiting nor a machine that stood still, or seconds times cores where
    a GPU or other processes train too.

    Written to `begun.json` with each checkpoint, so that what a kill loses counts neither as rounds
    nor as seconds."""

    def __init__(self, run: Run, begun: Record) -> None:
        """Args: begun: settings, data, code and environment of this session."""
        self._path = run.folder / BEGUN
        resumes = (run.folder / "checkpoint.safetensors").exists()
        # a run without checkpoint starts at 0
        earlier = records.load_begun(run.folder) if resumes else {}
        self._before = {
            name: earlier.get(name, 0) for name in ("timed_rounds", "seconds", "core_seconds")
        }
        self.round_seconds: list[float | None] = earlier.get("round_seconds", [])
        self.begun: Record = begun | self._before | {"round_seconds": self.round_seconds}
        records.write(self._path, self.begun)

    def start(self, reached: int, cores: int | None) -> None:
        """Begin to measure, after so many rounds that are done. `cores`: None if this process alone
        trains, on the CPU."""
        self._reached, self._cores = reached, cores
        self._began, self._cpu_began = time.monotonic(), time.process_time()
        # a kill may part them from the checkpoint
        self.round_seconds[:] = [*self.round_seconds, *[None] * reached][:reached]

    def write(self, reached: int) -> None:
        rounds, seconds = reached - self._reached, time.monotonic() - self._began
        session = {
            "timed_rounds": rounds,
            "seconds": seconds,
            "core_seconds": seconds * self._cores
            if self._cores
            else time.process_time() - self._cpu_began,
        }
        self.begun |= {
            name: round(self._before[name] + value, 2) for name, value in session.items()
        }
        self.begun["ended"] = datetime.now(UTC).isoformat(timespec="seconds")
        records.write(self._path, self.begun)


def _log_round(run: Run, row: Row) -> None:
    name = run.config.measures[0]
    value, loss = (
        f"{row[key]:.4f}" if row[key] is not None else "-" for key in (name, "train_loss")
    )
    text = "round %d/%d: %s %s, train loss %s"
    log.info(
        text,
        row["round"],
        run.config.rounds,
        MEASURES[name].title,
        value,
        loss,
        extra=progress_bar.SHOWN_AS_BAR,
    )


class _LogToFile:
    """Context in which the package's log also goes to the run's own file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        self.handler = LogFile(self.path, encoding="utf-8")
        self.handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
        logging.getLogger("fedrepro").addHandler(self.handler)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("fedrepro").removeHandler(self.handler)
        with contextlib.suppress(OSError):  # already raised by `handleError`
            self.handler.close()


class LogFile(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """Raise errors that logging would print with a traceback, such as a full disk."""
        error = sys.exception()
        assert error is not None  # logging calls this method while it handles one
        raise (
            OSError(error.errno, error.strerror, self.baseFilename)
            if isinstance(error, OSError)
            else error
        )
