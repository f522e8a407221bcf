"""Accuracy of the global model on each client's own test images, after a round.

Clients of a method whose weights stay with clients use their own ones. The model is the one that
the measures of the whole test set evaluate, before any further local training.
"""

from collections.abc import Iterator
from pathlib import Path

from fedrepro.config.params import RunConfig
from fedrepro.config.types import Frozen
from fedrepro.core.metrics import Measure
from fedrepro.studies.base import Rounds, RoundsStudy
from fedrepro.training.evaluation import evaluate
from fedrepro.training.federation import Federation
from fedrepro.training.replay import ReplayedRound
from fedrepro.training.state import OWN, State, part

ACCURACY = {"accuracy": Measure("own-test accuracy", "accuracy")}


def accuracies(federation: Federation, state: State) -> Iterator[tuple[int, int, float]]:
    """Yield each client that has test images after a round, their number, and the accuracy on
    them."""
    algorithm = federation.algorithm
    if state.diverged:  # its weights are those before the round
        return
    for client in range(federation.clients):
        kept = state.clients.get(client)
        own = federation.initial_own | part(OWN, kept.tensors if kept else {})
        weights = algorithm.evaluation_weights(state.weights | own, state.server)
        images, labels = federation.data.test_part(client, state.round)
        if len(labels):
            values = evaluate(algorithm, ACCURACY, weights, images, labels, federation.chunk)
            yield client, len(labels), values["accuracy"]


class Clients(RoundsStudy):
    """A row for each round and client with test images: their number, and the accuracy on them,
    0..1."""

    class Params(Frozen):
        rounds: Rounds | None = None  # null: the last alone

    settings: Params
    title = "accuracies of clients"
    columns = ("round", "client", "images", "accuracy")

    def measure(
        self, federation: Federation, replayed: ReplayedRound
    ) -> Iterator[tuple[int, int, float]]:
        return accuracies(federation, replayed.after)

    def cost_bound(self, folder: Path) -> RunConfig:
        """Return a run that evaluates all clients in each of its rounds."""
        return super().cost_bound(folder).model_copy(update={"measures": ("initial_accuracy_all",)})
