"""The parts of a federation that a round uses."""

from collections.abc import Callable, Mapping

import torch

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Weights
from fedrepro.config.params import RunConfig
from fedrepro.core import rng
from fedrepro.core.metrics import Measure
from fedrepro.training.batches.client_data import FederatedData
from fedrepro.training.client_store import ClientStore
from fedrepro.training.evaluation import evaluate
from fedrepro.training.executors import Executor
from fedrepro.training.state import to_device
from fedrepro.training.worker_pool import WorkerPool


class FederationContext:
    """Data, method, executor and settings of a federation in memory."""

    config: RunConfig
    clients: int  # number of all clients
    device: torch.device
    data: FederatedData
    algorithm: FedAvg
    executor: Executor
    initial_own: Weights  # of the weights that stay with clients, before a client trains them
    client_store: ClientStore
    worker_pool: WorkerPool | None = None  # None: clients train in this process
    chunk: int  # images in a forward pass of evaluation
    lr: Callable[[int], float]  # round -> learning rate

    def to_device(self, tensors: Weights) -> Weights:
        return to_device(tensors, self.device)

    def cohort(self, round: int) -> list[int]:
        """Return the participants of a round in rising order; they depend on the seed and the round alone."""
        order = torch.randperm(self.clients, generator=rng.generator(self.config.seed, "cohort", round))
        return sorted(order[: self.config.clients_per_round].tolist())

    def shares(self, images: list[int]) -> list[float]:
        """Return the aggregation weights, which sum to 1, of clients with these numbers of images."""
        if self.config.weighting == "uniform":
            return [1 / len(images)] * len(images)
        return [count / sum(images) for count in images]

    def cohort_share(self, participants: list[int], round: int) -> float:
        """Return the aggregation weight of the participants among all clients in a round, in 0..1."""
        if self.config.weighting == "uniform":
            return len(participants) / self.clients
        partition = self.data.partition
        images = sum(len(partition.train_indices(client, round)) for client in participants)
        return images / sum(map(len, partition.train))

    def evaluate_global(self, weights: Weights, state: Weights, measures: Mapping[str, Measure]) -> dict[str, float]:
        """Evaluate the measures of the global model, if any are among `measures`, on the whole test and validation sets."""
        evaluated = self.algorithm.evaluation_weights(weights, state)
        values: dict[str, float] = {}
        for name, images in (("test", lambda: (self.data.test_x, self.data.test_y)), ("validation", self.data.validation_set)):
            chosen = {key: each for key, each in measures.items() if each.model == "global" and each.images == name}
            values |= evaluate(self.algorithm, chosen, evaluated, *images(), self.chunk) if chosen else {}
        return values

    def with_epochs(self, epochs: int | None) -> RunConfig:
        """Return the settings with this number of local epochs; None: unchanged."""
        return self.config if epochs is None else self.config.model_copy(update={"local_epochs": epochs})
