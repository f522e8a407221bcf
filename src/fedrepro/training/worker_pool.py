"""The clients of a round shared out over processes: the run's own and its helpers (`worker.py`), each on one core.

A helper is the same federation once more. It is told of a round what its clients are told, and tells what they send, to the bit
what they would have sent from here (tests/training/test_worker_pool.py). It holds no file and no lock of the run, and ends with
it. What the clients of a round send is all here before the first of it is read: that takes the memory of all of them, for a
moment twice.
"""

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import torch

from fedrepro.algorithms.base import Weights
from fedrepro.config.params import RunConfig
from fedrepro.core import provenance
from fedrepro.core.errors import CONTINUED, UserError
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import Partition
from fedrepro.training.client_task import ClientResult, ClientTask

log = logging.getLogger(__name__)

LENGTH_BYTES = 8  # bytes that say how long a message is
# A helper that is waited for computes, however long its clients take: one that takes no processor time is stopped or frozen.
CHECK_SECONDS = 1.0  # seconds between two looks at its processor time
CHECKS_BEFORE_WARNING, CHECKS_BEFORE_KILL = (
    10,
    300,
)  # looks, which a job does not make while all of it is stopped, before a warning and before it is ended


class TaskPerformer(Protocol):
    """What a crew asks of a round."""

    number: int

    def client_state(self, client: int) -> Weights:
        """What a client kept when it took part last."""
        ...

    def perform(self, task: ClientTask, clients: Sequence[int]) -> Iterator[ClientResult]:
        """What these clients do."""
        ...


class WorkerPool:
    """Helpers for all but one of the `cores`, of which there is use for as many as clients take part; started with the first
    work that there is for them. `close` ends them."""

    def __init__(self, config: RunConfig, dataset: Dataset, partition: Partition, executor: str, cores: int) -> None:
        self.cores, self._federation = min(cores, config.clients_per_round), (config, dataset, partition, executor)
        self.workers: list[WorkerProcess] = []

    def perform(self, round: TaskPerformer, task: ClientTask, clients: Sequence[int]) -> Iterator[ClientResult]:
        """What `round.perform` yields for the clients, in their order. Raises what a helper tells: a UserError of what the user
        can mend, else a RuntimeError; a UserError too where one was killed."""
        try:
            found = self._perform_shared(round, task, clients)
        except BaseException:
            self.close()  # an answer that nobody read would pass for that to the next question
            raise
        yield from (found[client] for client in clients)

    def _perform_shared(self, round: TaskPerformer, assignment: ClientTask, clients: Sequence[int]) -> dict[int, ClientResult]:
        own, *others = (clients[first :: self.cores] for first in range(min(self.cores, len(clients))))
        helpers = self._start_workers(len(others))
        for helper, part in zip(helpers, others, strict=True):
            states = {client: kept for client in part if (kept := round.client_state(client))}
            starts = {client: start for client, start in assignment.starts.items() if client in part}
            asked = tuple(assignment._replace(starts=starts))
            helper.write({"round": round.number, "clients": list(part), "states": states, "assignment": asked})
        found = dict(zip(own, round.perform(assignment, own), strict=True))
        for helper, part in zip(helpers, others, strict=True):
            found |= zip(part, (ClientResult(*ended) for ended in helper.read()), strict=True)
        return found

    def _start_workers(self, count: int) -> list["WorkerProcess"]:
        """So many helpers. New ones import their libraries at the same time, and then learn what they are."""
        new = range(count - len(self.workers))
        self.workers += [WorkerProcess() for _ in new]
        for helper in self.workers[count - len(new) : count]:
            helper.write(worker_setup(*self._federation))
        return self.workers[:count]

    def close(self) -> None:
        while self.workers:
            self.workers.pop().end()


class WorkerProcess:
    _is_awaited = _was_frozen = False

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-m", "fedrepro.training.worker", str(os.getpid())]
        # -P: no module from the working directory
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ended = threading.Event()
        threading.Thread(target=self._watch_progress, daemon=True).start()

    def write(self, message: Any) -> None:
        with self._awaiting():
            send(self.process.stdin, message)

    def read(self) -> Any:
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
        """End the process if it takes no processor time while it is waited for."""
        pid, before, idle = self.process.pid, None, 0
        while not self._ended.wait(CHECK_SECONDS):
            used = processor_time(pid) if self._is_awaited else None
            before, idle = used, idle + 1 if used is not None and used == before else 0
            if idle == CHECKS_BEFORE_WARNING:
                told = "process %d, which trains a part of the round's clients, is stopped or frozen; in %.0f s it is ended"
                log.warning(told, pid, (CHECKS_BEFORE_KILL - CHECKS_BEFORE_WARNING) * CHECK_SECONDS)
            if idle == CHECKS_BEFORE_KILL:
                self._was_frozen = True
                self.process.kill()

    def _death_error(self) -> UserError:
        killed = self.process.wait() < 0
        told = "was killed, as by a full memory: lower cores_per_run" if killed else "ended by itself, as its last words say"
        if self._was_frozen:
            told = f"was stopped or frozen for {CHECKS_BEFORE_KILL * CHECK_SECONDS:.0f} s and has been ended"
        return UserError(f"a process that trained a part of the round's clients {told}; {CONTINUED}")


def processor_time(pid: int) -> int | None:
    """The clock ticks that a process has computed; None if it is gone, or if the system does not say so as Linux does."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return int(values[11]) + int(values[12])  # in user and in system mode


def worker_setup(config: RunConfig, dataset: Dataset, partition: Partition, executor: str) -> dict[str, Any]:
    """What a helper is told first: which federation it is, and the digest of the code that it must have."""
    code = provenance.code_digest(provenance.modules(config))
    return {"config": config.model_dump_json(), "executor": executor, "code": code} | pack(dataset, partition)


def pack(dataset: Dataset, partition: Partition) -> dict[str, Any]:
    """As tensors and plain values, without what partitions alone are drawn from."""
    data = {name: getattr(dataset, name) for name in ("name", "train_x", "train_y", "test_x", "test_y", "classes")}
    held = {field.name: _to_tensors(getattr(partition, field.name)) for field in fields(partition)}
    return {"dataset": data, "meta": json.dumps(dataset.meta), "partition": held}


def unpack(message: dict[str, Any]) -> tuple[Dataset, Partition]:
    """What `packed` packed."""
    held = {name: _to_arrays(value) for name, value in message["partition"].items()}
    return Dataset(**message["dataset"], meta=json.loads(message["meta"])), Partition(**held)


def _to_tensors(value: Any) -> Any:
    if isinstance(value, list):
        return [torch.from_numpy(part) for part in value]
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _to_arrays(value: Any) -> Any:
    if isinstance(value, list):
        return [part.numpy() for part in value]
    return value.numpy() if isinstance(value, torch.Tensor) else value


def send(stream: IO[bytes], message: Any) -> None:
    """Tensors, plain values, and containers of these."""
    buffer = io.BytesIO()
    torch.save(message, buffer)  # with their strides, which the order of a sum may depend on
    stream.write(buffer.tell().to_bytes(LENGTH_BYTES, "big"))
    stream.write(buffer.getbuffer())
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """What `send` sent. Raises EOFError where the other side is gone."""
    length = int.from_bytes(stream.read(LENGTH_BYTES), "big")
    found = stream.read(length)
    if not length or len(found) < length:
        raise EOFError
    return torch.load(io.BytesIO(found), weights_only=True)
