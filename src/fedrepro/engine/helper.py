"""`python -m fedrepro.engine.helper`: a process that trains a part of each round's clients, as its `Crew` tells it on standard
input; it answers on standard output."""

import contextlib
import os
import sys
from typing import Any

from fedrepro.config import RunConfig
from fedrepro.engine.assignment import Assignment
from fedrepro.engine.crew import receive, send, unpacked
from fedrepro.engine.federation import Federation
from fedrepro.engine.round import Round
from fedrepro.engine.run import pick_device
from fedrepro.engine.state import Kept, State


class Helper:
    """The federation that a crew packed, and what it is asked to do."""

    def __init__(self, begun: dict[str, Any]) -> None:
        config = RunConfig.model_validate_json(begun["config"])
        self.federation = Federation(config, *unpacked(begun), pick_device("cpu"), begun["executor"])

    def answer(self, asked: dict[str, Any]) -> list[tuple]:
        before = asked["round"] - 1
        kept = {client: Kept(before, tensors) for client, tensors in asked["states"].items()}
        round = Round(self.federation, State(before, {}, {}, kept), {})
        return [tuple(ended) for ended in round.perform(Assignment(*asked["assignment"]), asked["clients"])]


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else prints must not get among the answers
    with contextlib.suppress(EOFError, BrokenPipeError):  # the run is over
        helper = Helper(receive(sys.stdin.buffer))
        while True:
            send(answers, helper.answer(receive(sys.stdin.buffer)))


if __name__ == "__main__":
    main()
