"""A simple loop: a copy of the model and a DataLoader per client, then the mean of the weights."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.clock import Clock
from benchmarks.contenders import common
from benchmarks.workloads import Task


def run(task: Task, clock: Clock) -> None:
    """Train `task.config.rounds` rounds of federated averaging."""
    torch.set_num_threads(1)
    torch.manual_seed(task.config.seed)
    data, net = common.material(task), common.fresh(task)
    clients = [
        TensorDataset(*(part.cpu() for part in data.of(client)))
        for client in range(data.partition.clients)
    ]
    prepare, loss = common.preparation(task, data), common.objective(task.config)
    clock.mark(common.accuracy(net, data))
    for round in range(1, task.config.rounds + 1):
        states = []
        for client in common.cohort(task, round):
            local = copy.deepcopy(net)
            clock.steps += _train(task, local, clients[client], prepare, loss)
            states.append(local.state_dict())
        net.load_state_dict(
            {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}
        )
        clock.mark(common.tested(clock, net, data))


def _train(task: Task, net: nn.Module, dataset: TensorDataset, prepare, loss) -> int:
    """Train local epochs in place; returns the number of steps."""
    net.train()
    optimiser = common.optimiser(task.config, net.parameters())
    batches = DataLoader(dataset, batch_size=task.config.batch_size, shuffle=True)
    steps = 0
    for _ in range(task.config.local_epochs):
        for images, labels in batches:
            optimiser.zero_grad()
            loss(net, prepare(images.to(task.device)), labels.to(task.device)).backward()
            optimiser.step()
            steps += 1
    return steps
