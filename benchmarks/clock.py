"""Timing of each round of a run; synchronises the device and starts several processes together."""

import sys
import time
from collections.abc import Callable

import torch

from benchmarks.workloads import EVALUATE_EVERY


def nothing() -> None:
    """Do not wait for other processes."""


def together() -> None:
    """Report the end of the warm-up to the parent and wait for its signal, which all processes get
    at once."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


class Clock:
    """A timer: call `mark` after round 0 (when all is loaded) and after every round, with the test
    accuracy if measured."""

    def __init__(
        self, rounds: int, warmup: int, device: str = "cpu", meet: Callable[[], None] = nothing
    ) -> None:
        self.rounds, self.warmup, self.meet = rounds, warmup, meet
        self.cuda = device == "cuda"
        self.round, self.steps = 0, 0
        self.seconds: list[float] = []  # one per round after the warm-up
        self.evaluated: list[bool] = []  # whether that round was followed by an evaluation
        self.accuracy: dict[int, float] = {}  # by round, 0..1
        self.last = 0.0

    def due(self, round: int) -> bool:
        """Return whether the model is evaluated after this round, as after the last one."""
        return round % EVALUATE_EVERY == 0 or round == self.rounds

    def mark(self, accuracy: float | None = None) -> None:
        if self.cuda:
            torch.cuda.synchronize()
        now = time.perf_counter()
        if accuracy is not None:
            self.accuracy[self.round] = accuracy
        if self.round > self.warmup:
            self.seconds.append(now - self.last)
            self.evaluated.append(self.due(self.round))
        elif self.round == self.warmup:
            self.meet()
            now = time.perf_counter()
        self.last = now
        self.round += 1

    def result(self) -> dict:
        """Return the timings; `steps` counts all local steps with warm-up, if the contender counts
        them."""
        peak = torch.cuda.max_memory_allocated() if self.cuda else None
        return {
            "seconds": self.seconds,
            "evaluated": self.evaluated,
            "accuracy": self.accuracy,
            "steps": self.steps,
            "rounds": self.round - 1,
            "device_peak_bytes": peak,
        }
