"""pfl-research: federated averaging on its simulated backend, set up like its own image benchmarks.

Two processes are two workers of one run, joined by torch.distributed; the parent sets the variables
that pfl reads.
"""

import functools
import types

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.clock import Clock
from benchmarks.contenders import common
from benchmarks.workloads import Task


class _Evaluation(CentralEvaluationCallback):
    """pfl's own evaluation, shared by the workers, after the rounds with an evaluation."""

    def __init__(self, clock: Clock, dataset: Dataset, params: NNEvalHyperParams) -> None:
        super().__init__(dataset, params)
        self.clock, self.measured = clock, None

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        metrics = super().on_train_begin(model=model)
        self.clock.mark(metrics.to_simple_dict()["Central val | accuracy"])
        return metrics

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ):
        self.measured = None
        if not self.clock.due(central_iteration + 1):
            return False, Metrics()
        stop, metrics = self._eval(model)
        self.measured = metrics.to_simple_dict()["Central val | accuracy"]
        return stop, metrics


class _Timer(TrainingProcessCallback):
    """Callback that marks the clock after a round and its evaluation."""

    def __init__(self, clock: Clock, evaluation: _Evaluation) -> None:
        self.clock, self.evaluation = clock, evaluation

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ):
        self.clock.mark(self.evaluation.measured)
        return False, Metrics()


def run(task: Task, clock: Clock) -> None:
    """Train `task.config.rounds` central iterations."""
    torch.set_num_threads(1)
    torch.manual_seed(task.config.seed)
    np.random.seed(task.config.seed)
    config, data = task.config, common.material(task)
    net = _with_pfl_methods(task, common.fresh(task), data, clock)
    create = functools.partial(_local_optimiser, config)
    model = PyTorchModel(
        net, local_optimizer_create=create, central_optimizer=torch.optim.SGD(net.parameters(), 1.0)
    )
    users = {client: list(data.of(client)) for client in range(data.partition.clients)}
    users = FederatedDataset.from_slices(users, _sampler(task))
    evaluation = _Evaluation(
        clock,
        Dataset(raw_data=(data.test_x, data.test_y)),
        NNEvalHyperParams(local_batch_size=common.CHUNK),
    )
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=config.rounds,
            evaluation_frequency=config.rounds + 1,  # of single users: never, but for round 1
            train_cohort_size=config.clients_per_round,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(
            training_data=users, val_data=users, postprocessors=[WeightByUser()]
        ),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_learning_rate=config.lr,
            local_num_epochs=config.local_epochs,
            local_batch_size=config.batch_size,
        ),
        callbacks=[evaluation, _Timer(clock, evaluation)],
        send_metrics_to_platform=False,
    )


def _local_optimiser(config, parameters, lr: float) -> torch.optim.SGD:
    return common.optimiser(config, parameters, lr)


def _sampler(task: Task):
    """Return a sampler of the cohorts that all contenders use; every worker draws the whole
    sequence and takes its share."""
    cohorts = (
        client
        for round in range(1, task.config.rounds + 1)
        for client in common.cohort(task, round)
    )
    return lambda: next(cohorts)


def _with_pfl_methods(task: Task, net: nn.Module, data: common.Material, clock: Clock) -> nn.Module:
    """Add the two methods that pfl needs to the network."""
    prepare, objective = common.preparation(task, data), common.objective(task.config)

    def loss(self: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        self.train()
        clock.steps += 1
        return objective(self, prepare(images), labels)

    @torch.no_grad()
    def metrics(self: nn.Module, images: Tensor, labels: Tensor) -> dict:
        self.eval()
        images = images if images.is_floating_point() else prepare(images)
        correct = (self(images).logits.argmax(1) == labels).sum().item()
        return {"accuracy": Weighted(correct, len(labels))}

    net.loss, net.metrics = types.MethodType(loss, net), types.MethodType(metrics, net)
    return net
