"""This program's engine, as a training run uses it."""

from benchmarks.clock import Clock
from benchmarks.contenders.common import drawn
from benchmarks.workloads import Task, steps
from fedrepro.training.devices import pick_device
from fedrepro.training.federation import Federation


def run(task: Task, clock: Clock) -> None:
    """`task.config.rounds` rounds; the steps are those that the batches of the partition make."""
    device = pick_device(task.device)
    chosen = {} if task.executor == "auto" else {"executor": task.executor}
    federation = Federation(task.config, *drawn(task.config, task.data), device, **chosen)
    state, row = federation.start()
    clock.mark(row["test_accuracy"])
    for _ in range(task.config.rounds):
        state, row = federation.advance(state)
        clock.steps += steps(task.config)
        clock.mark(row["test_accuracy"])
