"""How far activations of one class are apart between devices, relative to those of different
classes.

Chen et al. 2020 (FedMAX) state that "activation vectors of same classes across different devices"
become more similar, and show it by pictures (Figs. 7 to 9). Here it is a number. In a round, a_kc
is the mean penultimate activation (D units) of device k's images of class c, by its own network
after its local training; the images are its own training images, at most `images` of a class, the
same ones in every round, not augmented. With S the pairs of (k, c) and (l, c) with k != l, and O
those of (k, c) and (l, d) with k != l and c != d:

    same  = mean over S of |a_kc - a_lc|^2
    other = mean over O of |a_kc - a_ld|^2
    ratio = ln(same / other)
    kl    = mean over S of KL(softmax(a_kc) || softmax(a_lc)) / D

S counts every pair of devices and class once, and `kl` both ways. `ratio` does not change if all
activations are scaled. `kl` is the paper's divergence of Section 4.1, between two devices' means of
a class in place of a device's mean and that of all devices, in nats per unit as in the study
`activations`. FedMAX's loss lowers it by design, since it flattens all softmaxes.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from fedrepro.config.types import Count, Frozen
from fedrepro.studies.activations import drawn_images, penultimate
from fedrepro.studies.base import Rounds, RoundsStudy
from fedrepro.studies.tsne import ROUNDS
from fedrepro.training.federation import Federation
from fedrepro.training.replay import ReplayedRound
from fedrepro.training.round import LocalTraining


class SameClass(RoundsStudy):
    """A row for each round. A number without pairs is empty, and so is the ratio of distances that
    are 0."""

    class Params(Frozen):
        rounds: Rounds = ROUNDS
        images: Count = 100  # training images of each class of each device, at most

    settings: Params
    title = "activations by class"
    columns = ("round", "same", "other", "ratio", "kl")

    def measure(
        self, federation: Federation, replayed: ReplayedRound
    ) -> Iterator[tuple[float | None, ...]]:
        """Yield no row for a round in which the training diverges."""
        means: list[Tensor] = []
        devices: list[int] = []
        classes: list[int] = []
        for number, trained in replayed.last_trainings.items():
            for label, mean in self._means(federation, replayed.round, trained):
                means.append(mean)
                devices.append(number)
                classes.append(label)
        together = torch.stack(means)
        if together.isfinite().all():
            yield distances(together, torch.tensor(devices), torch.tensor(classes))

    def _means(
        self, federation: Federation, round: int, trained: LocalTraining
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield each class of a device with its mean activation (D,)."""
        index = drawn_images(federation, round, trained, "same_class")
        labels = federation.data.train_y[index]
        for label in labels.unique().tolist():
            chosen = index[labels == label][: self.settings.images]
            yield label, torch.cat(list(penultimate(federation, trained, chosen))).mean(0)


def distances(means: Tensor, devices: Tensor, classes: Tensor) -> tuple[float | None, ...]:
    """Return same, other, ratio and kl of mean activations (N, D), of devices (N,) and classes
    (N,)."""
    means, apart = means.cpu(), devices[:, None] != devices
    alike = classes[:, None] == classes
    squared = torch.cdist(means, means, compute_mode="donot_use_mm_for_euclid_dist").square()
    logs = means.log_softmax(1)
    kl = ((logs.exp() * logs).sum(1, keepdim=True) - logs.exp() @ logs.T) / means.shape[1]
    pairs = ((squared, apart & alike), (squared, apart & ~alike), (kl, apart & alike))
    same, other, divergence = (
        values[mask].mean().item() if mask.any() else None for values, mask in pairs
    )
    return same, other, math.log(same / other) if same and other else None, divergence
