"""Class preferences of a network's units, and their variance within a layer.

Yu et al. 2020 (Psi-Net), Eq. 2: a unit's preference for class c is p_c = A dZ_c/dA over images of
class c, where A is the unit's activation and Z_c the score of the class; here it is summed over the
positions of a map. Eq. 5: a layer's total variance is the mean distance of its units' preferences,
each divided by its sum, from their mean. Eq. 2 sums over images (`sum`). The text of the paper
averages: the products (`mean`), which differ from the sum if classes are unequal in size; or, to
the letter, activations and gradients each (`mean_mean`), so that p_c is the product of two means at
each position.

Negative preferences would make the division of Eq. 5 unstable and count as 0 (with `negative: kept`
they are kept, for units whose sum is positive). A unit without positive preferences has no top
class and does not count in the variance. It is a dead unit, or one that lowers the score of every
class that it influences. In groups of one class a unit influences only the group's, so that it has
this top class or none, whatever it learnt.

Preferences are computed for every participant's network after its local training, all on the same
images of the test set.
"""

import functools
import math
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from fedrepro.algorithms import FedAvg
from fedrepro.algorithms.base import Weights
from fedrepro.config.types import Count, Frozen
from fedrepro.core.metrics import NO_CLASS
from fedrepro.studies.base import Rounds, RoundsStudy
from fedrepro.training.federation import Federation
from fedrepro.training.replay import ReplayedRound

OverImages = Literal["mean", "sum", "mean_mean"]


class Preferences(RoundsStudy):
    """A row for each round, participant and unit: its top class, and its distance from the mean of
    its layer (empty if the sum of its preferences is not positive). Eq. 5 is the mean of a layer's
    distances."""

    class Params(Frozen):
        rounds: Rounds | None = None  # null: the last alone
        images: Count | None = None  # the first ones of the test set; null: all
        over_images: OverImages = "mean"
        negative: Literal["zero", "kept"] = "zero"  # negative preferences, in distance and variance

    settings: Params
    title = "class preferences"
    columns = ("round", "client", "block", "unit", "class", "distance")

    def measure(
        self, federation: Federation, replayed: ReplayedRound
    ) -> Iterator[tuple[int, str, int, int, float | None]]:
        data, algorithm = federation.data, federation.algorithm
        images, labels = (tensor[: self.settings.images] for tensor in (data.test_x, data.test_y))
        for client, trained in replayed.last_trainings.items():
            weights = algorithm.personalised_weights(trained.weights, trained.received)
            blocks = preferences(
                algorithm, weights, images, labels, self.settings.over_images, federation.chunk
            )
            for block, matrix in blocks.items():
                to_mean = distances(matrix, self.settings.negative == "kept")
                pairs = zip(top_classes(matrix).tolist(), to_mean.tolist(), strict=True)
                for unit, (top, distance) in enumerate(pairs):
                    yield client, block, unit, top, None if math.isnan(distance) else distance


def preferences(
    algorithm: FedAvg,
    weights: Weights,
    images: Tensor,
    labels: Tensor,
    over_images: OverImages = "mean",
    chunk: int = 100,
) -> dict[str, Tensor]:
    """Return the preferences of Eq. 2, (units, classes) in float64, by block without the head.

    Args:
        images: (N, C, H, W) with labels (N,). A class without images has preferences of 0.
        over_images: how the images of a class are combined.

    Raises UserError for a task without scores of classes.
    """
    task = algorithm.task
    task.require_class_scores("study preferences")
    # by block, sums over images by class: (classes, units, positions) each
    sums: dict[str, list[Tensor]] = {}
    for batch, truth in zip(images.split(chunk), labels.split(chunk), strict=True):
        with torch.enable_grad():  # from the images on, so that every block has a gradient
            outputs = algorithm.forward(weights, batch.detach().requires_grad_())
            blocks = {name: tensor for name, tensor in outputs.blocks.items() if name != "head"}
            chosen = outputs.logits.gather(1, truth[:, None]).sum()
            gradients = torch.autograd.grad(chosen, list(blocks.values())) if blocks else ()
        for (name, activation), gradient in zip(blocks.items(), gradients, strict=True):
            factors = [
                tensor.detach().double().reshape(*tensor.shape[:2], -1)
                for tensor in (activation, gradient)
            ]
            terms = (
                factors
                if over_images == "mean_mean"
                else [(factors[0] * factors[1]).sum(2, keepdim=True)]
            )
            zeros = [term.new_zeros(task.classes, *term.shape[1:]) for term in terms]
            for total, term in zip(sums.setdefault(name, zeros), terms, strict=True):
                total.index_add_(0, truth, term)
    counts = labels.bincount(minlength=task.classes).clamp(min=1)[:, None, None]
    divisor = torch.ones_like(counts) if over_images == "sum" else counts
    means = {name: [total / divisor for total in totals] for name, totals in sums.items()}
    return {name: functools.reduce(torch.mul, factors).sum(2).T for name, factors in means.items()}


def top_classes(preferences: Tensor) -> Tensor:
    """Return the class (units,) with the greatest preference in each row of (units, classes);
    NO_CLASS if none is positive."""
    value, label = preferences.max(1)
    return label.where(value > 0, NO_CLASS)


def distances(preferences: Tensor, negative: bool = False) -> Tensor:
    """Return the distance of each unit's preferences, divided by their sum, from the mean over the
    units; (units,).

    Units whose sum is not positive have NaN and are not in the mean.

    Args:
        preferences: (units, classes).
        negative: keep negative preferences; else they count as 0.
    """
    counted = preferences if negative else preferences.clamp(min=0)
    total = counted.sum(1, keepdim=True)
    shares = counted / total.where(total > 0, math.nan)
    return (shares - shares[total[:, 0] > 0].mean(0)).norm(dim=1)
