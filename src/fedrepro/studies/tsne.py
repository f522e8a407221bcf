"""Where clients' activations lie after their local training: t-SNE of the layer before the scores, in two dimensions.

Chen et al. 2020 (FedMAX), Figs. 7 to 9: ten clients of two classes each; in a round some images of every client, as the network
that the client ends with sees them, are laid out together. As in their code: 40 images of a client, t-SNE of scikit-learn
(exact, from principal components, perplexity 30, learning rate 200), both coordinates scaled to 0..1. Its seed is fixed: rounds
and methods differ by their activations alone. The table holds the points, so that the figure is drawn again without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from fedrepro.config.types import Frozen, Number, Seed
from fedrepro.core.errors import UserError
from fedrepro.core.metrics import MEASURES
from fedrepro.studies.base import Rising, Rounds, RoundsStudy

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from fedrepro.training.federation import Federation
    from fedrepro.training.replay import ReplayedRound
    from fedrepro.training.round import LocalTraining

PERPLEXITY, RATE = 30.0, 200.0
GLOBAL_MEASURES = {"test_accuracy": MEASURES["test_accuracy"]}


class Params(Frozen):
    """Of whom, and in which rounds."""

    rounds: Rounds = (1, 2, 3, 4, 5, 6, 9, 12, 15)
    clients: Annotated[tuple[Seed, ...], Rising] | None = None  # by number; null: all who take part
    images: Annotated[int, Field(ge=2), Number] = 40  # of each client, of those that it trains on


class Study(RoundsStudy):
    """A row per round and image: its client and class, its place, and the accuracy of the global model after the round."""

    settings: Params
    title = "activations in a plane"
    columns = ("round", "client", "class", "x", "y", "accuracy")

    def check(self) -> None:
        super().check()
        clients = self.config.partition.options["clients"]
        if absent := [number for number in self.settings.clients or () if number >= clients]:
            raise UserError(f"clients: the run has 0 to {clients - 1} (got {absent[0]})")

    def rounds(self) -> Sequence[int]:
        return self.settings.rounds

    def measure(self, federation: Federation, replayed: ReplayedRound) -> Iterator[tuple[int, int, float, float, float]]:
        """Nothing in a round in which none of the clients takes part, or the training diverges."""
        import torch

        chosen = self.settings.clients
        shown = [last for number, last in sorted(replayed.last_trainings.items()) if chosen is None or number in chosen]
        if not shown:
            return
        found = [self._activations(federation, replayed.round, trained) for trained in shown]
        together = torch.cat([activations for activations, _ in found])
        if not together.isfinite().all():  # the round in which a run diverged
            return
        points = embed(together.cpu().numpy())
        owners = [trained.client.number for trained, (_, labels) in zip(shown, found, strict=True) for _ in labels]
        classes = torch.cat([labels for _, labels in found]).tolist()
        accuracy = federation.evaluate_global(replayed.after.weights, replayed.after.server, GLOBAL_MEASURES)["test_accuracy"]
        for owner, label, (x, y) in zip(owners, classes, points.tolist(), strict=True):
            yield owner, label, x, y, accuracy

    def _activations(self, federation: Federation, round: int, trained: LocalTraining) -> tuple[Tensor, Tensor]:
        """Of some of the client's training images, never augmented: (images, D) and classes (images,)."""
        import torch

        from fedrepro.core import rng

        data, client = federation.data, trained.client.number
        held = data.train_index(client, round)
        order = torch.randperm(len(held), generator=rng.generator(federation.config.seed, "tsne", client=client))
        index = held[order[: self.settings.images].to(held.device)]
        own = federation.algorithm.personalised_weights(trained.weights, trained.received)
        with torch.no_grad():
            outputs = federation.algorithm.forward(own, data.images(index, client, None))
        return outputs.penultimate.double(), data.train_y[index]


def embed(activations: np.ndarray) -> np.ndarray:
    """(N, D) -> (N, 2) in 0..1, always the same for the same input; all in the middle where there is nothing to tell apart."""
    import numpy as np
    from sklearn.manifold import TSNE  # slow to import

    if len(activations) < 3 or np.ptp(activations, 0).max() == 0:
        return np.full((len(activations), 2), 0.5)
    perplexity = min(PERPLEXITY, (len(activations) - 1) / 3)  # it must stay below the number of points
    tsne = TSNE(init="pca", method="exact", perplexity=perplexity, learning_rate=RATE, random_state=0)
    points = tsne.fit_transform(activations)
    low, span = points.min(0), np.ptp(points, 0)
    return (points - low) / np.where(span > 0, span, 1)
