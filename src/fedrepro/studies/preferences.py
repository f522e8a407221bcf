"""Which class each unit answers to most, and how far the units of a layer are apart in that.

Yu et al. 2020 (Psi-Net), Eq. 2: a unit's preference for class c is p_c = A dZ_c/dA over images of class c, A the unit's
activation and Z_c the score of the class; over the places of a map it is summed here. Eq. 5: the layer's total variance is the
mean distance of its units' preferences, each divided by its sum, from their mean. Eq. 2 sums over the images, the text beside
it averages; the two differ where classes are unequal in number. Negative preferences would make the division of Eq. 5 unstable
and count as 0 there (`negative: kept` has them as they are, of units whose sum is positive); a unit without a positive one has
no top class and no part in the variance. That is a dead unit, which is never active, or one that speaks against every class
it has a say in: in groups of one class that is the group's, so that a unit there has this class or none, whatever it learnt.

Every participant's network is asked after its local training, on images of the test set, so that all are asked the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from fedrepro.config.types import Count, Frozen
from fedrepro.studies.base import Rounds, RoundsStudy

if TYPE_CHECKING:
    from torch import Tensor

    from fedrepro.algorithms import FedAvg
    from fedrepro.algorithms.base import Weights
    from fedrepro.training.federation import Federation
    from fedrepro.training.replay import ReplayedRound

NO_CLASS = -1  # in the place of a top class


class Params(Frozen):
    rounds: Rounds | None = None  # null: the last alone
    images: Count | None = None  # of the test set, the first so many; null: all
    over_images: Literal["mean", "sum"] = "mean"
    negative: Literal["zero", "kept"] = "zero"  # in the distance, and the variance


class Study(RoundsStudy):
    """A row per round, participant and unit: its top class, and its distance from the mean of its layer (nothing where its
    preferences have no positive sum). Eq. 5 is the mean of a layer's distances."""

    settings: Params
    title = "class preferences"
    columns = ("round", "client", "block", "unit", "class", "distance")

    def rounds(self) -> Sequence[int]:
        return self.settings.rounds or (self.config.rounds,)

    def measure(self, federation: Federation, replayed: ReplayedRound) -> Iterator[tuple[int, str, int, int, float | None]]:
        data, algorithm = federation.data, federation.algorithm
        images, labels = (tensor[: self.settings.images] for tensor in (data.test_x, data.test_y))
        for client, trained in replayed.last_trainings.items():
            own = algorithm.personalised_weights(trained.weights, trained.received)
            found = preferences(algorithm, own, images, labels, self.settings.over_images == "mean", federation.chunk)
            for block, matrix in found.items():
                apart = distances(matrix, self.settings.negative == "kept")
                pairs = zip(top_classes(matrix).tolist(), apart.tolist(), strict=True)
                for unit, (top, distance) in enumerate(pairs):
                    yield client, block, unit, top, None if math.isnan(distance) else distance


def preferences(
    algorithm: FedAvg, weights: Weights, images: Tensor, labels: Tensor, mean: bool = True, chunk: int = 100
) -> dict[str, Tensor]:
    """Eq. 2 for every block but the head: (units, classes) in float64, from images (N, C, H, W) with labels (N,). `mean` over
    the images of a class, else their sum; 0 for a class without images. Raises UserError where classes have no scores."""
    import torch

    task = algorithm.task
    task.needs_scores("study preferences")
    totals: dict[str, Tensor] = {}
    for batch, truth in zip(images.split(chunk), labels.split(chunk), strict=True):
        with torch.enable_grad():  # from the images on, so that every block has a slope
            outputs = algorithm.forward(weights, batch.detach().requires_grad_())
            blocks = {name: tensor for name, tensor in outputs.blocks.items() if name != "head"}
            chosen = outputs.logits.gather(1, truth[:, None]).sum()
            slopes = torch.autograd.grad(chosen, list(blocks.values())) if blocks else ()
        for (name, activation), slope in zip(blocks.items(), slopes, strict=True):
            products = (
                (activation.detach() * slope).double().flatten(2).sum(2) if slope.dim() > 2 else activation.detach() * slope
            )
            total = totals.setdefault(
                name, torch.zeros(task.classes, products.shape[1], dtype=torch.float64, device=slope.device)
            )
            total.index_add_(0, truth, products.double())
    counts = labels.bincount(minlength=task.classes).clamp(min=1) if mean else labels.new_ones(task.classes)
    return {name: (total / counts[:, None]).T for name, total in totals.items()}


def top_classes(preferences: Tensor) -> Tensor:
    """The class (units,) that each row of preferences (units, classes) is greatest for; NONE where none is positive."""
    value, label = preferences.max(1)
    return label.where(value > 0, NO_CLASS)


def distances(preferences: Tensor, negative: bool = False) -> Tensor:
    """How far each unit's preferences, as shares of their sum, lie from the mean over those of the layer whose sum is positive;
    NaN for the others. Negative ones count as 0, or as they are if `negative`. (units,), from preferences (units, classes)."""
    counted = preferences if negative else preferences.clamp(min=0)
    total = counted.sum(1, keepdim=True)
    shares = counted / total.where(total > 0, math.nan)
    return (shares - shares[total[:, 0] > 0].mean(0)).norm(dim=1)
