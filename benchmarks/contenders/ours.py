"""This program, as in a training run."""

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.clock import Clock
from benchmarks.contenders.common import load_partitioned
from benchmarks.workloads import Task, operations, steps
from fedrepro.training.devices import pick_device
from fedrepro.training.federation import Federation
from fedrepro.training.round import run_round

# parts of the names of convolution, matrix product and pooling operators
KERNELS = ("conv", "mm", "linear", "pool")


def run(task: Task, clock: Clock) -> None:
    """Train `task.config.rounds` rounds; steps are counted from the sizes of the clients."""
    federation = _federation(task)
    state, row = federation.start()
    clock.mark(row["test_accuracy"])
    for _ in range(task.config.rounds):
        state, row = run_round(federation, state)
        clock.steps += steps(task.config)
        clock.mark(row["test_accuracy"])


def kernels(task: Task) -> dict[str, float]:
    """Measure the processor time of rounds without evaluation, after the warm-up.

    Returns:
        `share` of it inside the kernels of convolution, product and pooling, 0..1; `rate`, their
            operations per second.
    """
    torch.set_num_threads(1)
    federation = _federation(task)
    state, _ = federation.start()
    for _ in range(task.warmup):
        state, _ = run_round(federation, state)
    rounds = task.config.rounds - 1 - task.warmup  # the last one is evaluated
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(rounds):
            state, _ = run_round(federation, state)
    spent = [(event.key, event.self_cpu_time_total / 1e6) for event in profiled.key_averages()]
    inside = sum(seconds for name, seconds in spent if any(word in name for word in KERNELS))
    total = sum(seconds for _, seconds in spent)
    return {"share": inside / total, "rate": rounds * operations(task.config)["training"] / inside}


def _federation(task: Task) -> Federation:
    chosen = {} if task.executor == "auto" else {"executor": task.executor}
    return Federation(
        task.config, *load_partitioned(task.config, task.data), pick_device(task.device), **chosen
    )
