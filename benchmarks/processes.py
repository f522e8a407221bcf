"""Child processes of a measurement: started together, with their memory measured."""

import contextlib
import json
import os
import socket
import subprocess
import threading
from pathlib import Path

from benchmarks.contenders import INDEPENDENT
from benchmarks.workloads import Task

ROOT = Path(__file__).parent.parent
SAMPLE_SECONDS = 0.5  # between two samples of the memory


class ChildFailed(RuntimeError):
    """Raised if a child ends without a result; the message is the end of its output."""


def measure(tasks: list[Task], python: str) -> dict:
    """Run tasks at the same time in processes of `python`; returns their results and the peak of
    their summed memory."""
    waits = tasks[0].contender in INDEPENDENT
    extra = (
        _workers(len(tasks))
        if tasks[0].contender == "pfl" and len(tasks) > 1
        else [{}] * len(tasks)
    )
    if tasks[0].device == "cpu":  # pfl would take a GPU unasked
        extra = [one | {"CUDA_VISIBLE_DEVICES": ""} for one in extra]
    results, peak = together([[task.to_json()] for task in tasks], python, waits=waits, extra=extra)
    return {"results": results, "peak_bytes": peak}


def together(
    arguments: list[list[str]],
    python: str,
    *,
    waits: bool,
    extra: list[dict[str, str]] | None = None,
) -> tuple[list[dict], int]:
    """Run one child per list of arguments; returns their results and the peak of their summed
    memory in bytes.

    `waits`: each child prints `ready` and continues when all have."""
    extra = extra or [{}] * len(arguments)
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(_Child(a, python, e)) for a, e in zip(arguments, extra, strict=True)
        ]
        memory = stack.enter_context(_Memory([child.process.pid for child in children]))
        if waits:
            for child in children:
                child.read("ready")
            for child in children:
                child.go()
        results = [json.loads(child.read("{")) for child in children]
    return results, memory.peak


def _workers(count: int) -> list[dict[str, str]]:
    """Return the environment variables of pfl's workers on this machine."""
    addresses = ",".join(f"127.0.0.1:{_free_port()}" for _ in range(count))
    return [
        {"PFL_WORKER_RANK": str(rank), "PFL_WORKER_ADDRESSES": addresses} for rank in range(count)
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class _Child:
    """A process `python -m benchmarks.child` with one thread; keeps the end of its log for error
    messages."""

    def __init__(self, arguments: list[str], python: str, extra: dict[str, str]) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        fixed = {
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "FLWR_TELEMETRY_ENABLED": "0",
        }
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.child", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **fixed, **extra},
        )
        self.log: list[str] = []
        # a full pipe would stop the child
        self.reader = threading.Thread(target=self._collect, daemon=True)
        self.reader.start()

    def _collect(self) -> None:
        for line in self.process.stderr:
            self.log = [*self.log[-40:], line]

    def read(self, start: str) -> str:
        """Return the next line of output that begins with `start`."""
        for line in self.process.stdout:
            if line.startswith(start):
                return line
        self.process.wait()
        self.reader.join(1)
        raise ChildFailed(
            "".join(self.log[-15:]) or f"exit status {self.process.returncode}, nothing written"
        )

    def go(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died: `read` says why
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed:
            self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class _Memory:
    """The peak of the summed memory of processes and their children; shared pages count once if the
    system reports them."""

    def __init__(self, roots: list[int]) -> None:
        self.roots, self.peak, self.over = roots, 0, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Memory":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.over.is_set():
            self.peak = max(self.peak, self._now())
            self.over.wait(SAMPLE_SECONDS)

    def _now(self) -> int:
        import psutil

        total, seen = 0, set()
        for root in self.roots:
            with contextlib.suppress(psutil.Error):
                for process in [
                    psutil.Process(root),
                    *psutil.Process(root).children(recursive=True),
                ]:
                    if process.pid not in seen:
                        seen.add(process.pid)
                        total += _size(process)
        return total


def _size(process) -> int:
    """Return the proportional set size in bytes; the resident size if the system does not report
    it."""
    import psutil

    with contextlib.suppress(psutil.Error):
        try:
            return process.memory_full_info().pss
        except (psutil.AccessDenied, AttributeError):
            return process.memory_info().rss
    return 0
