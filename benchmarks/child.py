"""A process of a measurement: `python -m benchmarks.child TASK` prints one JSON line, after `ready`
if it waits for others."""

import importlib
import json
import sys

from benchmarks import clock, machine
from benchmarks.contenders import INDEPENDENT
from benchmarks.workloads import Task


def main(arguments: list[str]) -> None:
    """Run a task given as JSON, or one of `versions` and `kernels TASK`."""
    if arguments[0] == "versions":
        result = machine.versions()
    elif arguments[0] == "kernels":
        result = importlib.import_module("benchmarks.contenders.ours").kernels(
            Task.from_json(arguments[1])
        )
    else:
        task = Task.from_json(arguments[0])
        meet = clock.together if task.contender in INDEPENDENT else clock.nothing
        timer = clock.Clock(task.config.rounds, task.warmup, task.device, meet)
        importlib.import_module(f"benchmarks.contenders.{task.contender}").run(task, timer)
        result = timer.result()
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
