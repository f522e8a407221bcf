"""One process of a measurement: `python -m benchmarks.child TASK` prints one JSON line, after `ready` where it has to wait."""

import importlib
import json
import sys

from benchmarks import clock, machine
from benchmarks.contenders import INDEPENDENT
from benchmarks.workloads import Task


def main(arguments: list[str]) -> None:
    """A task as JSON, or the words `matrix DEVICE` to measure the matrix rate."""
    if arguments[0] == "matrix":
        result = machine.matrix_rate(arguments[1], clock.together)
    elif arguments[0] == "versions":
        result = machine.versions()
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
