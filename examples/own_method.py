"""A method of your own: a class that overrides the steps of a round in which it differs from FedAvg.

The docstring of `fedrepro.algorithms.base` describes these steps."""

import fedrepro
from fedrepro.algorithms import FedAvg
from fedrepro.config.types import Frozen, NonNegative


class Anchored(FedAvg):
    """FedAvg whose server moves only a part of the way to the mean, and whose clients are drawn to the received weights."""

    class Params(Frozen):
        mu: NonNegative = 0.1
        step: NonNegative = 0.9

    def loss(self, weights, received, batch):
        apart = sum((weights[name] - received[name]).square().sum() for name in self.trained)
        return super().loss(weights, received, batch) + self.params.mu / 2 * apart

    def aggregate(self, weights, server, updates):
        mean, state = super().aggregate(weights, server, updates)
        return {name: weights[name].lerp(mean[name], self.params.step) for name in mean}, state


for algorithm in ("fedavg", Anchored, {"name": Anchored, "mu": 1.0}):
    result = fedrepro.simulate("digits", algorithm=algorithm, partition={"name": "shards", "shards": 3}, rounds=15)
    print(result.settings["algorithm"], f"{result.log['test_accuracy'].iloc[-1]:.3f}")
