"""A federation in memory: its data, method and executor, the participants of a round, and the test
of the global model."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from fedrepro import algorithms, models
from fedrepro.algorithms.base import Batch, Server, Weights
from fedrepro.config.params import RunConfig
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.core.metrics import MEASURES, Measure
from fedrepro.data.datasets import Dataset
from fedrepro.data.partitions import Partition
from fedrepro.models import Net, tasks
from fedrepro.runs.run import Row
from fedrepro.training import executors, schedules
from fedrepro.training.batches.client_data import FederatedData, forbid_rounded_factors, number_type
from fedrepro.training.evaluation import evaluate, flops, images_per_pass
from fedrepro.training.state import ClientStore, State, to_device
from fedrepro.training.worker_pool import WorkerPool


def columns(config: RunConfig) -> tuple[str, ...]:
    """Return the columns of a run's record: the round, the run's measures, and

    train_loss            local objective: mean over a participant's steps, then over the
    participants bytes_down, bytes_up  sent to, and by, all participants of the round lr
    learning rate of the round"""
    return ("round", *config.measures, "train_loss", "bytes_down", "bytes_up", "lr")


class Federation:
    """A run in memory: `start` returns the state before round 1, `round.run_round` the next one.

    With several `cores`, a processor that trains clients one by one distributes them over that many
    processes, which `close` ends. `recordings`: see `compiled_step.step.Step`. `build` makes the
    network in place of the settings' `model`, from a generator of initial weights, for training in
    one process. `folder`: see `ClientStore`."""

    worker_pool: WorkerPool | None = None  # None: clients train in this process

    def __init__(
        self,
        config: RunConfig,
        dataset: Dataset,
        partition: Partition,
        device: torch.device,
        executor: str = "auto",
        recordings: dict | None = None,
        cores: int = 1,
        build: Callable[[torch.Generator], Net] | None = None,
        folder: Path | None = None,
    ) -> None:
        if config.clients_per_round > partition.clients:
            raise UserError(
                f"clients_per_round: at most the {partition.clients} clients of the partition "
                f"(got {config.clients_per_round})"
            )
        forbid_rounded_factors()
        self.config, self.clients, self.device = config, partition.clients, device
        self.lr = schedules.create(config.schedule, config.lr, config.rounds)
        self.client_store = ClientStore(device, folder)
        self.measures = {name: MEASURES[name] for name in config.measures}
        self.data = FederatedData(config, dataset, partition, device)
        task = tasks.create(config.task, dataset.classes)
        shape = tuple(dataset.train_x.shape[1:])
        draw = rng.generator(config.seed, "weights")
        net = build(draw) if build else models.build(config.model, shape, task.outputs, draw)
        net = net.to(device, number_type(config.precision))
        self.algorithm = algorithms.create(
            config.algorithm, net, rng.generator(config.seed, "algorithm"), task
        )
        net_weights = self.algorithm.net.state_dict()
        self.initial_own = self.to_device(
            {name: net_weights[name].detach().clone() for name in self.algorithm.own}
        )
        self.flops = flops(self.algorithm, self.data.train_x.shape[1:])
        self.chunk = images_per_pass(self.flops, device)
        self.executor = executors.create(
            executor, self.algorithm, config, self.data, self.flops, recordings
        )
        if (
            build is None
            and min(cores, config.clients_per_round) > 1
            and executors.uses_worker_pool(self.executor.name, device)
        ):
            self.worker_pool = WorkerPool(config, dataset, partition, self.executor.name, cores)

    def to_device(self, tensors: Weights) -> Weights:
        return to_device(tensors, self.device)

    def cohort(self, round: int) -> list[int]:
        """Return the participants of a round in rising order; they depend on the seed and the round
        alone."""
        order = torch.randperm(
            self.clients, generator=rng.generator(self.config.seed, "cohort", round)
        )
        return sorted(order[: self.config.clients_per_round].tolist())

    def shares(self, images: list[int]) -> list[float]:
        """Return the aggregation weights, which sum to 1, of clients with these numbers of
        images."""
        if self.config.weighting == "uniform":
            return [1 / len(images)] * len(images)
        return [count / sum(images) for count in images]

    def cohort_share(self, participants: list[int], round: int) -> float:
        """Return the aggregation weight of the participants among all clients in a round, in
        0..1."""
        if self.config.weighting == "uniform":
            return len(participants) / self.clients
        partition = self.data.partition
        images = sum(len(partition.train_indices(client, round)) for client in participants)
        return images / sum(map(len, partition.train))

    def evaluate_global(
        self, weights: Weights, state: Weights, measures: Mapping[str, Measure]
    ) -> dict[str, float]:
        """Evaluate the measures of the global model, if any are among `measures`, on the whole test
        and validation sets."""
        evaluated = self.algorithm.evaluation_weights(weights, state)
        values: dict[str, float] = {}
        for name, images in (
            ("test", lambda: (self.data.test_x, self.data.test_y)),
            ("validation", self.data.validation_set),
        ):
            chosen = {
                key: each
                for key, each in measures.items()
                if each.model == "global" and each.images == name
            }
            values |= (
                evaluate(self.algorithm, chosen, evaluated, *images(), self.chunk) if chosen else {}
            )
        return values

    def with_epochs(self, epochs: int | None) -> RunConfig:
        """Return the settings with this number of local epochs; None: unchanged."""
        return (
            self.config
            if epochs is None
            else self.config.model_copy(update={"local_epochs": epochs})
        )

    @property
    def cores(self) -> int:
        """The number of cores that training uses."""
        return self.worker_pool.cores if self.worker_pool else 1

    def close(self) -> None:
        """End the worker processes, and delete the states of clients that are in files."""
        self.client_store.close()
        if self.worker_pool:
            self.worker_pool.close()

    def state_to_device(self, state: State) -> State:
        """Move a state to the device."""
        clients = {
            number: self.client_store.keep(number, client)
            for number, client in state.clients.items()
        }
        return replace(
            state,
            weights=self.to_device(state.weights),
            server=self.to_device(state.server),
            clients=clients,
        )

    def start(self) -> tuple[State, Row]:
        """Return the state before round 1 and the row of round 0, which measures the untrained
        model."""
        weights = self.to_device(
            {name: tensor.detach().clone() for name, tensor in self.algorithm.net.tensors.items()}
        )
        state = State(0, weights, self.to_device(self.algorithm.initial_state(weights)))
        values = self.evaluate_global(state.weights, state.server, self.measures)
        return state, dict.fromkeys(columns(self.config)) | {
            "round": 0,
            "bytes_down": 0,
            "bytes_up": 0,
        } | values

    def server_view(self, state: State) -> Server:
        """Return the server's view of the round after `state`."""
        number = state.round + 1
        share = self.cohort_share(self.cohort(number), number)
        return Server(
            number, self.clients, share, state.server, lambda: self._proxy_batches(number)
        )

    def _proxy_batches(self, round: int) -> Iterator[Batch]:
        """Yield the server's own images once, in batches."""
        proxy = self.config.proxy
        if proxy is None:
            raise UserError(
                f"algorithm {self.config.algorithm.name}: needs proxy images: set proxy, e.g. "
                f"{{share: 0.01}}"
            )
        index = torch.from_numpy(self.data.partition.proxy).to(self.device)
        changes = rng.generator(self.config.seed, "proxy augment", round) if proxy.augment else None
        for rows in index.split(proxy.batch_size):
            yield Batch(self.data.images(rows, None, changes), self.data.train_y[rows])
