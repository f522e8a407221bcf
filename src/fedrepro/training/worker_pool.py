"""A pool of worker processes (`worker.py`) that train a round's clients in parallel with the run's
own process, a core each.

A worker has its own copy of the federation. It receives what its clients receive, and returns what
they send: to the bit the same as from this process (tests/training/test_worker_pool.py). It opens
no file and takes no lock of the run, and ends with it. The results of all clients of a round arrive
before the first is used: memory has to hold all of them, for a moment twice.
"""

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from fedrepro.algorithms.base import Weights
from fedrepro.config.params import RunConfig
from fedrepro.core import provenance
from fedrepro.core.errors import CONTINUED, UserError
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import Partition

log = logging.getLogger(__name__)
Values = dict[str, float]  # measure -> value

LENGTH_BYTES = 8  # of a message's length, which precedes it
# An awaited worker computes, however long its clients take: one that takes no processor time is
# stopped or frozen.
CHECK_SECONDS = 1.0  # between two checks of its processor time
# idle checks; none is made while the whole job is stopped
CHECKS_BEFORE_WARNING, CHECKS_BEFORE_KILL = 10, 300


class ClientTask(NamedTuple):
    """A local training from the received weights; `lr`, `trained`, `epochs`, `starts` as in
    `RoundRunner.train`.

    `phase` gives each training in a round random draws of its own. `measures` are evaluated at each
    client, those of the received weights only in the `first` training. Clients that are only
    measured send nothing, and train only if a measure needs it."""

    received: Weights
    lr: float
    trained: tuple[str, ...]
    epochs: int | None = None
    starts: dict[int, Weights] = {}
    phase: str = ""
    measures: tuple[str, ...] = ()
    first: bool = True
    trains: bool = True
    sends: bool = True


class ClientResult(NamedTuple):
    """A client's mean loss over its steps, a scalar tensor (None if it did not train), its measured
    values, the message that it sends and the state that it keeps."""

    loss: Tensor | None
    values: Values
    message: Weights = {}
    state: Weights = {}


class WorkerPool:
    """Workers for all but one of the `cores`, at most one per participant; started at the first
    use, ended by `close`."""

    def __init__(
        self, config: RunConfig, dataset: Dataset, partition: Partition, executor: str, cores: int
    ) -> None:
        self.cores, self._federation = (
            min(cores, config.clients_per_round),
            (config, dataset, partition, executor),
        )
        self.workers: list[WorkerProcess] = []

    def perform(
        self,
        round: int,
        task: ClientTask,
        clients: Sequence[int],
        client_state: Callable[[int], Weights],
        perform: Callable[[ClientTask, Sequence[int]], Iterator[ClientResult]],
    ) -> Iterator[ClientResult]:
        """Yield the same results as `perform(task, clients)`, which this process calls for its own
        part of the clients.

        Args:
            client_state: returns the state that a client kept when it took part last.

        Raises a worker's failure: UserError if the user can fix it or the worker was killed, else
        RuntimeError."""
        try:
            results = self._perform_shared(round, task, clients, client_state, perform)
        except BaseException:
            self.close()  # else an answer not yet read would be taken for that to the next request
            raise
        yield from (results[client] for client in clients)

    def _perform_shared(
        self,
        round: int,
        task: ClientTask,
        clients: Sequence[int],
        client_state: Callable,
        perform: Callable,
    ) -> dict[int, ClientResult]:
        local, *remote = (
            clients[first :: self.cores] for first in range(min(self.cores, len(clients)))
        )
        workers = self._start_workers(len(remote))
        for worker, part in zip(workers, remote, strict=True):
            states = {client: state for client in part if (state := client_state(client))}
            starts = {client: start for client, start in task.starts.items() if client in part}
            part_task = tuple(task._replace(starts=starts))
            worker.write(
                {"round": round, "clients": list(part), "states": states, "task": part_task}
            )
        results = dict(zip(local, perform(task, local), strict=True))
        for worker, part in zip(workers, remote, strict=True):
            results |= zip(part, (ClientResult(*values) for values in worker.read()), strict=True)
        return results

    def _start_workers(self, count: int) -> list["WorkerProcess"]:
        """Return `count` workers. New ones import their libraries in parallel, and then receive
        their set-up."""
        new = range(count - len(self.workers))
        self.workers += [WorkerProcess() for _ in new]
        for worker in self.workers[count - len(new) : count]:
            worker.write(worker_setup(*self._federation))
        return self.workers[:count]

    def close(self) -> None:
        while self.workers:
            self.workers.pop().end()


class WorkerProcess:
    """A running `python -m fedrepro.training.worker`, killed if it makes no progress while the run
    waits for it."""

    _is_awaited = _was_frozen = False

    def __init__(self) -> None:
        # -P: no module from the working directory
        command = [sys.executable, "-P", "-m", "fedrepro.training.worker", str(os.getpid())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ended = threading.Event()
        threading.Thread(target=self._watch_progress, daemon=True).start()

    def write(self, message: Any) -> None:
        assert self.process.stdin is not None
        with self._awaiting():
            send(self.process.stdin, message)

    def read(self) -> Any:
        assert self.process.stdout is not None
        with self._awaiting():
            answer = receive(self.process.stdout)
        if isinstance(answer, dict):
            raise (UserError if answer["user"] else RuntimeError)(answer["error"])
        return answer

    def end(self) -> None:
        self._ended.set()
        self.process.kill()
        self.process.communicate()

    @contextmanager
    def _awaiting(self) -> Iterator[None]:
        self._is_awaited = True
        try:
            yield
        except (BrokenPipeError, EOFError):
            raise self._death_error() from None
        finally:
            self._is_awaited = False

    def _watch_progress(self) -> None:
        """Kill the process if it takes no processor time while it is awaited."""
        pid, before, idle = self.process.pid, None, 0
        while not self._ended.wait(CHECK_SECONDS):
            used = processor_time(pid) if self._is_awaited else None
            idle = idle + 1 if used is not None and used == before else 0
            before = used
            if idle == CHECKS_BEFORE_WARNING:
                text = (
                    "process %d, which trains a part of the round's clients, is stopped or "
                    "frozen; it is killed in %.0f s"
                )
                log.warning(text, pid, (CHECKS_BEFORE_KILL - CHECKS_BEFORE_WARNING) * CHECK_SECONDS)
            if idle == CHECKS_BEFORE_KILL:
                self._was_frozen = True
                self.process.kill()

    def _death_error(self) -> UserError:
        was_killed = self.process.wait() < 0
        if self._was_frozen:
            reason = (
                f"was stopped or frozen for {CHECKS_BEFORE_KILL * CHECK_SECONDS:.0f} s and "
                f"has been killed"
            )
        elif was_killed:
            reason = "was killed, maybe because memory was full: lower cores_per_run"
        else:
            reason = "ended by itself; its last lines say why"
        return UserError(
            f"a process that trained a part of the round's clients {reason}; {CONTINUED}"
        )


def processor_time(pid: int) -> int | None:
    """Return the clock ticks of processor time that a process has used; None if it is gone or the
    system has no /proc."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return int(values[11]) + int(values[12])  # in user and in system mode


def worker_setup(
    config: RunConfig, dataset: Dataset, partition: Partition, executor: str
) -> dict[str, Any]:
    """Return a worker's first message: its federation as tensors and plain values, without what
    only the drawing of partitions needs, and the digest of the code that it has to have."""
    data = {
        name: getattr(dataset, name)
        for name in ("name", "train_x", "train_y", "test_x", "test_y", "classes")
    }
    parts = tree_map_only(np.ndarray, torch.from_numpy, vars(partition))
    code = provenance.code_digest(provenance.modules(config))
    message = {
        "config": config.model_dump_json(),
        "executor": executor,
        "code": code,
        "meta": json.dumps(dataset.meta),
    }
    return message | {"dataset": data, "partition": parts}


def unpack(setup: Mapping[str, Any]) -> tuple[RunConfig, Dataset, Partition]:
    """Restore the settings, data and partition in a worker's first message."""
    dataset = Dataset(**setup["dataset"], meta=json.loads(setup["meta"]))
    partition = Partition(**tree_map_only(Tensor, Tensor.numpy, setup["partition"]))
    return RunConfig.model_validate_json(setup["config"]), dataset, partition


def send(stream: IO[bytes], message: Any) -> None:
    """Write tensors, plain values, and containers of them to a stream."""
    buffer = io.BytesIO()
    torch.save(message, buffer)  # keeps strides, on which the order of a sum may depend
    stream.write(buffer.tell().to_bytes(LENGTH_BYTES, "big"))
    stream.write(buffer.getbuffer())
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read what `send` wrote. Raises EOFError if the other process is gone."""
    length = int.from_bytes(stream.read(LENGTH_BYTES), "big")
    content = stream.read(length)
    if not length or len(content) < length:
        raise EOFError
    return torch.load(io.BytesIO(content), weights_only=True)
