"""How much each weight, or each tensor of weights, matters to a network on some images: definitions of Omega.

    layer_squares   sum over a tensor of squared gradients of each batch's mean loss, summed over batches, / images. The FedCL
                    authors' code; it depends on the batch size (`proxy.batch_size`, for clients' own estimates too), since
                    gradients are averaged before they are squared.
    layer_norm      mean over images of ||dL/dw|| of a tensor: FedCL, Eq. 1-2 read layer by layer
    absolute        mean over images of |dL/dw| of each weight: the same read weight by weight
    fisher          mean over images of (dL/dw)^2 of each weight: the diagonal of the empirical Fisher matrix (Kirkpatrick et
                    al., Overcoming catastrophic forgetting in neural networks, PNAS 2017)
    layer_outputs   sum over a tensor of |d mean(scores^2) / dw| of each batch, summed over batches, / images: memory aware
                    synapses (Aljundi et al., ECCV 2018) as the FedCL authors' code has it

The first and the last need one gradient a batch, the others one an image. All are taken at the weights as they are in tests:
nothing is dropped, normalisation uses its running statistics.
"""

from collections.abc import Callable, Iterable

from torch import Tensor
from torch.func import grad, vmap

from fedrepro.algorithms.base import Batch, FedAvg, Weights

MAX_GRADIENT_NUMBERS = (
    2**23
)  # numbers in gradients of single images held at a time: 32 MiB, the largest block that training/devices.py keeps

Objective = Callable[[FedAvg, Weights, Batch], Tensor]


def _loss(algorithm: FedAvg, weights: Weights, batch: Batch) -> Tensor:
    return algorithm.task_loss(algorithm.forward(weights, batch.images), batch)


def _outputs(algorithm: FedAvg, weights: Weights, batch: Batch) -> Tensor:
    return algorithm.forward(weights, batch.images).logits.square().mean()


BY_BATCH: dict[str, tuple[Objective, Callable[[Tensor], Tensor]]] = {  # what is derived, and what is taken of a gradient
    "layer_squares": (_loss, lambda slope: slope.square().sum()),
    "layer_outputs": (_outputs, lambda slope: slope.abs().sum()),
}
BY_IMAGE: dict[str, Callable[[Tensor], Tensor]] = {  # of the gradients (B, ...) of B images, their sum over images
    "layer_norm": lambda slopes: slopes.flatten(1).norm(dim=1).sum(),
    "absolute": lambda slopes: slopes.abs().sum(0),
    "fisher": lambda slopes: slopes.square().sum(0),
}


def importance(definition: str, algorithm: FedAvg, weights: Weights, batches: Iterable[Batch]) -> Weights:
    """Omega at `weights` by the name of what it belongs to: shaped as the weight, or a scalar of its tensor."""
    totals: Weights = {}
    images = 0
    for batch in batches:
        images += len(batch.labels)
        for found in _terms(definition, algorithm, weights, batch):
            totals = {name: totals.get(name, 0) + value for name, value in found.items()}
    return {name: total / images for name, total in totals.items()}


def _terms(definition: str, algorithm: FedAvg, weights: Weights, batch: Batch) -> Iterable[Weights]:
    """The terms of the sum that a batch contributes."""
    trained = {name: weights[name] for name in algorithm.trained}
    if definition in BY_BATCH:
        objective, taken = BY_BATCH[definition]
        slopes = grad(lambda own: objective(algorithm, weights | own, batch))(trained)
        yield {name: taken(slope) for name, slope in slopes.items()}
        return

    def alone(image: Tensor, label: Tensor) -> Weights:
        one = Batch(image[None], label[None])
        return grad(lambda own: _loss(algorithm, weights | own, one))(trained)

    together = max(1, MAX_GRADIENT_NUMBERS // sum(tensor.numel() for tensor in trained.values()))
    for images, labels in zip(batch.images.split(together), batch.labels.split(together), strict=True):
        slopes = vmap(alone)(images, labels)
        yield {name: BY_IMAGE[definition](slope) for name, slope in slopes.items()}
