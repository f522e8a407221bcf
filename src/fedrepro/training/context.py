"""Clients and server in memory: what a round may ask of them."""

from collections.abc import Callable

import torch

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Weights
from fedrepro.config.params import RunConfig
from fedrepro.core import rng
from fedrepro.core.metrics import Measure
from fedrepro.training.batches.client_data import FederatedData
from fedrepro.training.evaluation import evaluate
from fedrepro.training.executors import Executor
from fedrepro.training.worker_pool import WorkerPool


class FederationContext:
    """`clients`: how many there are; `chunk`: images in a pass of evaluation."""

    config: RunConfig
    clients: int
    device: torch.device
    data: FederatedData
    algorithm: FedAvg
    executor: Executor
    worker_pool: WorkerPool | None = None  # where clients are trained in several processes
    chunk: int
    lr: Callable[[int], float]  # the learning rate of a round

    def to_device(self, tensors: Weights) -> Weights:
        """On the device, image-shaped weights with their channels last: convolution and pooling run up to twice as fast so."""
        layout = {True: torch.channels_last, False: torch.contiguous_format}
        return {name: tensor.to(self.device, memory_format=layout[tensor.dim() == 4]) for name, tensor in tensors.items()}

    def cohort(self, round: int) -> list[int]:
        """The participants of a round, in the order of their numbers: a function of the seed and the round alone."""
        order = torch.randperm(self.clients, generator=rng.generator(self.config.seed, "cohort", round))
        return sorted(order[: self.config.clients_per_round].tolist())

    def shares(self, images: list[int]) -> list[float]:
        """What clients that hold so many images count for; sums to 1."""
        if self.config.weighting == "uniform":
            return [1 / len(images)] * len(images)
        return [count / sum(images) for count in images]

    def cohort_share(self, participants: list[int], round: int) -> float:
        """What these clients count for among all clients in a round."""
        if self.config.weighting == "uniform":
            return len(participants) / self.clients
        partition = self.data.partition
        images = sum(len(partition.train_indices(client, round)) for client in participants)
        return images / sum(map(len, partition.train))

    def evaluate_global(self, weights: Weights, state: Weights, measures: dict[str, Measure]) -> dict[str, float]:
        """Those of the measures that are of the global model on the whole test set."""
        wanted = {name: measure for name, measure in measures.items() if measure.model == "global"}
        shown = self.algorithm.evaluation_weights(weights, state)
        return evaluate(self.algorithm, wanted, shown, self.data.test_x, self.data.test_y, self.chunk)

    def with_epochs(self, epochs: int | None) -> RunConfig:
        """The settings, of a local training of so many epochs."""
        return self.config if epochs is None else self.config.model_copy(update={"local_epochs": epochs})
