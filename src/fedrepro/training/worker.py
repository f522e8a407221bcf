"""Worker process of a run: `python -m fedrepro.training.worker <process id of the run>` trains a
part of each round's clients.

It reads the requests of the run's `WorkerPool` from standard input and writes the answers to
standard output.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any

from fedrepro.config.params import RunConfig
from fedrepro.core.errors import UserError, as_user_error
from fedrepro.runs.run import check_code_unchanged
from fedrepro.training.devices import pick_device
from fedrepro.training.federation import Federation
from fedrepro.training.round import perform_task
from fedrepro.training.worker_pool import receive, send, unpack

CHECK_SECONDS = 1.0  # between two checks of whether the run still exists
PR_SET_PDEATHSIG = 1  # prctl(2)


class Worker:
    """A copy of the run's federation, made from `setup` at the first request, so that a failure
    there is answered too."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.setup = setup
        self.federation: Federation | None = None

    def answer(self, request: dict[str, Any]) -> Any:
        """Return the results of the requested clients as tuples, or a dictionary that describes a
        failure."""
        try:
            try:
                self.federation = self.federation or Federation(
                    *unpack(self.setup), pick_device("cpu"), self.setup["executor"]
                )
            finally:  # now all of the code is imported, or its import failed because it changed
                check_code_unchanged(
                    RunConfig.model_validate_json(self.setup["config"]), self.setup["code"]
                )
            return [tuple(result) for result in perform_task(self.federation, request)]
        except Exception as error:
            user_error = as_user_error(error) or error
            if isinstance(user_error, UserError):
                return {"user": True, "error": f"{user_error}"}
            return {
                "user": False,
                "error": f"{type(error).__name__}: {error}\n{traceback.format_exc()}",
            }


def _exit_with_run(run: int) -> None:
    """Exit when the run is gone, even in the middle of a round, before a broken pipe would show
    it."""
    while os.getppid() == run:
        time.sleep(CHECK_SECONDS)
    os._exit(1)


def _die_with_run() -> None:
    """Let Linux kill this process when the run ends, even if it is stopped, so that none of its
    threads can check."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    # these are sent to all processes of a job; the run ends its workers itself
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _die_with_run()
    threading.Thread(target=_exit_with_run, args=(int(sys.argv[1]),), daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # whatever else is printed must not get among the answers
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with contextlib.suppress(EOFError, BrokenPipeError):  # the run is over
        worker = Worker(receive(sys.stdin.buffer))
        while True:
            send(answers, worker.answer(receive(sys.stdin.buffer)))


if __name__ == "__main__":
    main()
