"""Local trainings on the pretended device: the host's launches and waits in each case, with each
executor.

The first training of a case records and captures; the second must not wait for the device.
"""

import fedrepro  # noqa: F401  # isort: skip  before torch, whose import reads a variable that it sets

import json
import sys
from collections.abc import Iterator

import torch

from fedrepro.training.devices import pick_device
from fedrepro.training.executors import available
from fedrepro.training.federation import Federation
from pretended_cuda.device import Notes, library
from support.federation import ALGORITHMS, STATEFUL, config, images, local, partition, receive

UNEVEN = {
    "name": "dirichlet_by_class",
    "clients": 4,
    "alpha": 0.5,
    "min_size": 5,
}  # batches of several sizes, also of one image
LOGISTIC, HIDDEN, NARROW = (
    {"name": "logistic"},
    {"name": "mlp", "width": 0.05},
    {"name": "mnist_cnn", "width": 0.05},
)
SMALL = {"precision": "float32", "local_epochs": 1, "partition": UNEVEN, "model": LOGISTIC}
# one kind of step
EVEN = {"partition": {"name": "iid", "clients": 4}, "clients_per_round": 2, "batch_size": 20}
# method -> network, for methods that need more than a logistic regression
NETWORKS = {
    "activation_l2": HIDDEN,
    "fedmax": HIDDEN,
    "moon": HIDDEN,
    "fedfusion": NARROW,
    "psi_net": NARROW,
}
NETWORKS |= {"fedbn": NARROW | {"norm": "batch"}, "fedper": HIDDEN, "lg_fedavg": HIDDEN}
EXECUTORS = [
    name for name in available(torch.device("cuda")) if name != "plain"
]  # `plain` is for debugging, and may wait for the device
MODELS = {  # model: width, shape of an image, executor
    "cifar_cnn": (0.1, (3, 32, 32), "stacked+graph"),
    "fedmax_cnn": (0.1, (3, 32, 32), "stacked+graph"),
    "mlp": (0.1, (1, 12, 12), "stacked+graph"),
    "mnist_cnn": (0.1, (1, 28, 28), "sequential+graph"),
    "mobilenet": (0.1, (3, 32, 32), "sequential+graph"),
    "pfl_cnn": (0.1, (3, 32, 32), "sequential+graph"),
    "resnet50": (0.05, (3, 32, 32), "sequential+graph"),
    "vgg16": (0.05, (3, 32, 32), "sequential+graph"),
    "vgg9": (0.05, (3, 32, 32), "stacked+graph"),
}
SETTINGS = {  # other settings that change a step or its batches
    "momentum": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "augmented": {
        "augment": ["crop", "flip", "brightness", "contrast"],
        "pixel_scaling": "normalised",
        "algorithm": {"name": "fedmmd"},
    },
    "dropout": {"model": {**NARROW, "dropout": 0.2}, "algorithm": {"name": "fedfusion"}},
    "permuted": {"partition": {"name": "permuted", "clients": 4}},
    "bfloat16": {"precision": "bfloat16", "model": NARROW},
    "constants": {"pixel_scaling": {"name": "normalised", "mean": [0.4], "std": [0.2]}},
    "kept": {"momentum": 0.9, "keep_momentum": True},
}


def cases() -> Iterator[tuple[str, dict, tuple[int, int, int], str]]:
    """Name, settings, shape of an image, executor."""
    # one step is stacked and captured, so that a few methods show the other ways to call it
    for executor in EXECUTORS:
        for name in ALGORITHMS if executor == "stacked+graph" else STATEFUL[-3:]:
            method = {"algorithm": {"name": name}, "model": NETWORKS.get(name, LOGISTIC)}
            yield f"{name}, {executor}", method, (1, 12, 12), executor
    for model, (width, shape, executor) in MODELS.items():
        yield (
            f"{model}, {executor}",
            EVEN | {"model": {"name": model, "width": width}},
            shape,
            executor,
        )
    for norm in ("batch", "group"):  # under vmap, which does not support channels last
        yield (
            f"norm {norm}, stacked+graph",
            EVEN | {"model": NARROW | {"norm": norm}},
            (1, 12, 12),
            "stacked+graph",
        )
    for (name, changes), executor in zip(SETTINGS.items(), EXECUTORS * 2, strict=False):
        yield f"{name}, {executor}", changes, (1, 12, 12), executor


class Watched:
    """A step, and the places in the notes at which its calls began and ended."""

    def __init__(self, step) -> None:
        self.step, self.places = step, []

    def __getattr__(self, name: str):
        return getattr(self.step, name)

    def __call__(self, *given):
        begin = library.pretended_notes()
        loss = self.step(*given)
        self.places.append((begin, library.pretended_notes()))
        return loss


def tried(settings: dict, shape: tuple[int, int, int], executor: str) -> dict:
    """`wrong`: see `Notes`. `step`: launches of the first step; `nodes` of all graphs."""
    run, dataset = config(**(SMALL | settings)), images(train=60, shape=shape)
    federation = Federation(run, dataset, partition(run, dataset), pick_device("cuda"), executor)
    state, _ = federation.start()
    received, cohort = receive(federation, state), federation.cohort(1)
    with Notes() as first:
        local(federation, received, cohort)
    step = federation.executor.step = Watched(federation.executor.step)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with Notes() as second:
            local(federation, received, cohort)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    wrong = [line for line in first.wrong if not line.startswith("wait")] + second.wrong
    return {"wrong": wrong, "step": second.launches(*step.places[0]), "nodes": first.nodes}


def main() -> None:
    found = {}
    for name, settings, shape, executor in cases():
        try:
            found[name] = tried(settings, shape, executor)
        except Exception as error:  # reported by the test of this case
            found[name] = {"wrong": [f"{type(error).__name__}: {error}"]}
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
