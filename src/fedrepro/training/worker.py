"""`python -m fedrepro.training.worker <process of the run>`: trains a part of each round's clients, as its `Crew` tells it on
standard input; it answers on standard output."""

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
from fedrepro.training.worker_pool import receive, send

CHECK_SECONDS = 1.0  # seconds between two looks at whether the run is still there
PR_SET_PDEATHSIG = 1  # prctl(2)


class Worker:
    """`begun` says which federation it is. That is made at the first question, so that a failure there is told as well."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.begun, self.federation = setup, None

    def answer(self, request: dict[str, Any]) -> Any:
        """What comes of a question; a failure is told, and is not the end."""
        try:
            try:
                self.federation = self.federation or Federation.in_worker(self.begun, pick_device("cpu"))
            finally:  # now that all of it is imported, or failed because it is other code
                check_code_unchanged(RunConfig.model_validate_json(self.begun["config"]), self.begun["code"])
            return [tuple(ended) for ended in perform_task(self.federation, request)]
        except Exception as error:
            told = as_user_error(error) or error
            user = isinstance(told, UserError)
            return {"user": user, "error": f"{told}" if user else f"{type(error).__name__}: {error}\n{traceback.format_exc()}"}


def _exit_with_run(run: int) -> None:
    """Also in the middle of a round, for which a pipe that breaks would be too late."""
    while os.getppid() == run:
        time.sleep(CHECK_SECONDS)
    os._exit(1)


def _die_with_run() -> None:
    """Have Linux kill this process when the run ends, for when it is stopped and no thread of it looks."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # who sends these to all processes tells the run, which ends its helpers
        signal.signal(number, signal.SIG_IGN)
    _die_with_run()
    threading.Thread(target=_exit_with_run, args=(int(sys.argv[1]),), daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else prints must not get among the answers
    with contextlib.suppress(EOFError, BrokenPipeError):  # the run is over
        helper = Worker(receive(sys.stdin.buffer))
        while True:
            send(answers, helper.answer(receive(sys.stdin.buffer)))


if __name__ == "__main__":
    main()
