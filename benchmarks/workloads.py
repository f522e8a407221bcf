"""Workloads, the size of their rounds, and their variants in scans."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from fedrepro import models
from fedrepro.config import strict_yaml
from fedrepro.config.params import RunConfig
from fedrepro.config.types import Count, Frozen, parse
from fedrepro.core import rng
from fedrepro.data import datasets

FILE = Path(__file__).with_name("workloads.yaml")
EVALUATE_EVERY = 10  # rounds; all contenders, whole test set
SEED = 0


class Workload(Frozen):
    """One entry of workloads.yaml; `rounds` and `ours` include the `warmup` rounds, which are not
    counted."""

    title: str
    training: dict[str, Any]
    rounds: Count
    warmup: Count
    ours: Count | None = None
    jax: bool = False  # whether the JAX loop has its network

    def config(self, rounds: int, seed: int = SEED) -> RunConfig:
        """Return the training as a run's config."""
        fixed = {"rounds": rounds, "evaluate_every": EVALUATE_EVERY, "seed": seed}
        return parse(RunConfig, self.training | fixed, "workloads.yaml")


@dataclass(frozen=True)
class Task:
    """The task of a child process, `rank` of `processes`; `device` is cpu or cuda, `data` the
    folder of data sets."""

    contender: str
    config: RunConfig
    warmup: int
    rank: int = 0
    processes: int = 1
    executor: str = "auto"
    device: str = "cpu"
    data: str = "data"

    def to_json(self) -> str:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return json.dumps(fields | {"config": self.config.model_dump(mode="json")})

    @classmethod
    def from_json(cls, text: str) -> "Task":
        fields = json.loads(text)
        return cls(**fields | {"config": parse(RunConfig, fields["config"], "task")})


def read(path: Path = FILE) -> dict[str, Workload]:
    """Read all workloads, by name."""
    return {
        name: parse(Workload, values, f"{path.name}: {name}")
        for name, values in strict_yaml.read(path).items()
    }


def variant(config: RunConfig, cohort: int | None = None, width: float | None = None) -> RunConfig:
    """Return the config with another cohort size or network width."""
    values = config.model_dump(mode="json")
    if cohort is not None:
        values["clients_per_round"] = cohort
    if width is not None:
        values["model"]["width"] = width
    return parse(RunConfig, values, "scan")


def images_per_client(config: RunConfig) -> float:
    """Return the mean number of training images of a client."""
    _, train, _ = datasets.extent(config.dataset)
    return (config.train_images or train) / config.partition.options["clients"]


def steps(config: RunConfig) -> int:
    """Count the local steps in a round of clients with equally many images, as in every workload
    here."""
    batches = -(-round(images_per_client(config)) // config.batch_size)
    return config.clients_per_round * config.local_epochs * batches


def network(config: RunConfig) -> models.Net:
    """Build the network with this program's initial weights."""
    shape, _, _ = datasets.extent(config.dataset)
    classes = datasets.classes(config.dataset)
    return models.build(config.model, shape, len(classes), rng.generator(config.seed, "weights"))


def operations(config: RunConfig) -> dict[str, float]:
    """Count the floating-point operations of a round's training and of one evaluation on the whole
    test set.

    A multiply-add is two operations; only convolutions and matrix products are counted."""
    shape, _, test = datasets.extent(config.dataset)
    net = network(config)
    images, labels = (
        torch.zeros(config.batch_size, *shape),
        torch.zeros(config.batch_size, dtype=torch.int64),
    )
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        net(images)
    with FlopCounterMode(display=False) as step:
        F.cross_entropy(net(images).logits, labels).backward()
    trained = config.clients_per_round * config.local_epochs * images_per_client(config)
    return {
        "training": step.get_total_flops() / config.batch_size * trained,
        "evaluation": forward.get_total_flops() / config.batch_size * (config.test_images or test),
    }


def weights(config: RunConfig) -> int:
    """Count the network's trained weights."""
    return sum(parameter.numel() for parameter in network(config).parameters())
