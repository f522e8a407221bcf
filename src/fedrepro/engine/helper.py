"""`python -m fedrepro.engine.helper`: a process that trains a part of each round's clients, as its `Crew` tells it on standard
input; it answers on standard output."""

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any

from fedrepro import experiments
from fedrepro.config import RunConfig
from fedrepro.engine.crew import receive, send, unpacked
from fedrepro.engine.federation import Federation
from fedrepro.engine.round import answered
from fedrepro.engine.run import pick_device
from fedrepro.errors import UserError

ALONE = 1.0  # seconds between two looks at whether the run is still there


class Helper:
    """Which federation it is it was told first; that is made when it is asked for the first time."""

    def __init__(self, begun: dict[str, Any]) -> None:
        self.begun, self.federation = begun, None

    def answer(self, asked: dict[str, Any]) -> Any:
        """What comes of a question; a failure is told, and is not the end."""
        try:
            if self.federation is None:
                self.federation = _made(self.begun)
            return [tuple(ended) for ended in answered(self.federation, asked)]
        except UserError as error:
            return {"error": str(error), "user": True}
        except Exception:
            return {"error": traceback.format_exc(), "user": False}


def _made(begun: dict[str, Any]) -> Federation:
    config = RunConfig.model_validate_json(begun["config"])
    federation = Federation(config, *unpacked(begun), pick_device("cpu"), begun["executor"])
    if experiments.code_digest(config) != begun["code"]:  # now that all of it is imported
        raise UserError(experiments.CHANGED)
    return federation


def _end_with(run: int) -> None:
    """Also in the middle of a round, for which a pipe that breaks would be too late."""
    while os.getppid() == run:
        time.sleep(ALONE)
    os._exit(1)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # who sends these to all processes tells the run, which ends its helpers
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else prints must not get among the answers
    with contextlib.suppress(EOFError, BrokenPipeError):  # the run is over
        helper = Helper(receive(sys.stdin.buffer))
        while True:
            send(answers, helper.answer(receive(sys.stdin.buffer)))


if __name__ == "__main__":
    main()
