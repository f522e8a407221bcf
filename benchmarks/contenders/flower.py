"""Flower's simulation on Ray with its message API and its own FedAvg; one actor per process, which
keeps the data.

A client is a loop over slices of its tensors, which is less work than the DataLoader of Flower's
examples.
"""

import os

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.clock import Clock
from benchmarks.contenders import common
from benchmarks.workloads import Task


def run(task: Task, clock: Clock) -> None:
    """Train `task.config.rounds` server rounds on `task.processes` actors."""
    torch.set_num_threads(1)
    gpus = 1 / task.processes if task.device == "cuda" else 0
    backend = {
        "init_args": {"num_cpus": task.processes, "num_gpus": int(gpus > 0)},
        "client_resources": {"num_cpus": 1, "num_gpus": gpus},
    }
    run_simulation(
        _server(task, clock),
        client,
        task.config.partition.options["clients"],
        backend_config=backend,
    )


def _server(task: Task, clock: Clock) -> ServerApp:
    config, app = task.config, ServerApp()
    data, net = common.material(task), common.fresh(task)

    def evaluate(round: int, arrays: ArrayRecord) -> None:
        measured = None
        if clock.due(round):
            net.load_state_dict(arrays.to_torch_state_dict())
            measured = common.accuracy(net, data)
        clock.mark(measured)

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = _Counting(
            clock,
            fraction_train=config.clients_per_round / config.partition.options["clients"],
            fraction_evaluate=0.0,
            min_train_nodes=config.clients_per_round,
            min_available_nodes=config.partition.options["clients"],
        )
        message = ConfigRecord({"task": task.to_json()})
        initial = ArrayRecord(net.state_dict())
        strategy.start(
            grid, initial, num_rounds=config.rounds, train_config=message, evaluate_fn=evaluate
        )

    return app


class _Counting(FedAvg):
    """Flower's strategy, which also sums the steps that clients report and fails if a client
    failed."""

    def __init__(self, clock: Clock, **options) -> None:
        super().__init__(**options)
        self.clock = clock

    def aggregate_train(self, server_round: int, replies):
        replies = list(replies)
        if failed := [reply for reply in replies if reply.has_error()]:
            raise RuntimeError(
                f"round {server_round}: {len(failed)} clients failed: {failed[0].error.reason}"
            )
        self.clock.steps += sum(int(reply.content["metrics"]["steps"]) for reply in replies)
        return super().aggregate_train(server_round, replies)


client = ClientApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Local training of the client whose number the node carries."""
    torch.set_num_threads(1)
    task = Task.from_json(message.content["config"]["task"])
    data, net = common.material(task), common.fresh(task)
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    images, labels = data.of(int(context.node_config["partition-id"]))
    steps = _epochs(task, net, data, images, labels)
    metrics = MetricRecord({"num-examples": len(labels), "steps": steps})
    return Message(
        content=RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}),
        reply_to=message,
    )


def _epochs(task: Task, net, data: common.Material, images, labels) -> int:
    """Local epochs in place; returns the number of steps."""
    net.train()
    config, steps = task.config, 0
    prepare, loss = common.preparation(task, data), common.objective(config)
    optimiser = common.optimiser(config, net.parameters())
    for _ in range(config.local_epochs):
        for index in torch.randperm(len(labels), device=labels.device).split(config.batch_size):
            optimiser.zero_grad()
            loss(net, prepare(images[index]), labels[index]).backward()
            optimiser.step()
            steps += 1
    return steps


os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
