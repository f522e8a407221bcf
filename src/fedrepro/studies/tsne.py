"""t-SNE in two dimensions of clients' penultimate activations after their local training.

Chen et al. 2020 (FedMAX), Figs. 7 to 9: ten clients of two classes each; the activations of some
images of every client, by its own network after a round's training, are embedded together. As in
their code: 40 images of a client, t-SNE of scikit-learn (exact, from principal components,
perplexity 30, learning rate 200), both coordinates scaled to 0..1. Its seed is fixed, so that
rounds and methods differ by their activations alone. The table contains the points, so that drawing
the figure needs no t-SNE.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedrepro.config.types import Frozen, Number, Seed
from fedrepro.core.errors import UserError
from fedrepro.core.metrics import MEASURES
from fedrepro.studies.activations import drawn_images, penultimate
from fedrepro.studies.base import Rising, Rounds, RoundsStudy
from fedrepro.training.federation import Federation
from fedrepro.training.replay import ReplayedRound

ROUNDS = (1, 2, 3, 4, 5, 6, 9, 12, 15)  # of Figs. 7 to 9
PERPLEXITY, RATE = 30.0, 200.0
GLOBAL_MEASURES = {"test_accuracy": MEASURES["test_accuracy"]}


class TSNE(RoundsStudy):
    """A row for each round and image: client, class, coordinates, and the accuracy of the global
    model after the round."""

    class Params(Frozen):
        rounds: Rounds = ROUNDS
        # by number; null: all participants
        clients: Annotated[tuple[Seed, ...], Rising] | None = None
        images: Annotated[int, Field(ge=2), Number] = 40  # training images of each client

    settings: Params
    title = "activations in a plane"
    columns = ("round", "client", "class", "x", "y", "accuracy")

    def check(self) -> None:
        super().check()
        clients = self.config.partition.options["clients"]
        if absent := [number for number in self.settings.clients or () if number >= clients]:
            raise UserError(f"clients: the run has 0 to {clients - 1} (got {absent[0]})")

    def measure(
        self, federation: Federation, replayed: ReplayedRound
    ) -> Iterator[tuple[int, int, float, float, float]]:
        """Yield no rows for a round in which none of the clients takes part, or the training
        diverges."""
        chosen = self.settings.clients
        shown = [
            last
            for number, last in sorted(replayed.last_trainings.items())
            if chosen is None or number in chosen
        ]
        if not shown:
            return
        activations: list[Tensor] = []
        classes: list[int] = []
        owners: list[int] = []
        for trained in shown:
            index = drawn_images(federation, replayed.round, trained, "tsne")[
                : self.settings.images
            ]
            activations += penultimate(federation, trained, index)
            classes += federation.data.train_y[index].tolist()
            owners += [trained.client.number] * len(index)
        together = torch.cat(activations)
        if not together.isfinite().all():  # the round in which a run diverged
            return
        points = embed(together.cpu().numpy())
        accuracy = federation.evaluate_global(
            replayed.after.weights, replayed.after.server, GLOBAL_MEASURES
        )["test_accuracy"]
        for owner, label, (x, y) in zip(owners, classes, points.tolist(), strict=True):
            yield owner, label, x, y, accuracy


def embed(activations: np.ndarray) -> np.ndarray:
    """Embed activations (N, D) in the plane: (N, 2) in 0..1, deterministic; all at the centre for
    fewer than 3 or equal rows."""
    from sklearn.manifold import TSNE  # slow to import

    if len(activations) < 3 or np.ptp(activations, 0).max() == 0:
        return np.full((len(activations), 2), 0.5)
    # it must stay below the number of points
    perplexity = min(PERPLEXITY, (len(activations) - 1) / 3)
    # scikit-learn declares only "auto" as a rate
    options: dict[str, Any] = {"learning_rate": RATE, "random_state": 0}
    tsne = TSNE(init="pca", method="exact", perplexity=perplexity, **options)
    points = tsne.fit_transform(activations)
    low, span = points.min(0), np.ptp(points, 0)
    return (points - low) / np.where(span > 0, span, 1)
