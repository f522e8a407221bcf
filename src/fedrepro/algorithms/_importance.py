"""Importance of weights, or of whole weight tensors, to a network's outputs on given images:
definitions of Omega.

    layer_squares   sum over a tensor of squared gradients of each batch's mean loss, summed over
    batches, / images. The FedCL
                    authors' code; it depends on the batch size (`proxy.batch_size`, for clients'
                    own estimates too), since gradients are averaged before they are squared.
    layer_norm      mean over images of ||dL/dw|| of a tensor: FedCL, Eq. 1-2 read layer by layer
    model_norm      mean over images of ||dL/dw|| of all weights together: the same equations with
    one norm for the whole model absolute        mean over images of |dL/dw| of each weight: the
    same equations read weight by weight fisher          mean over images of (dL/dw)^2 of each
    weight: the diagonal of the empirical Fisher matrix (Kirkpatrick et
                    al., Overcoming catastrophic forgetting in neural networks, PNAS 2017)
    layer_outputs   sum over a tensor of |d mean(scores^2) / dw| of each batch, summed over batches,
    / images: memory aware
                    synapses (Aljundi et al., ECCV 2018) as in the FedCL authors' code

The first and the last need one gradient per batch, the others one per image. The network is in
evaluation mode: without dropout, with the running statistics of normalisation.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.func import grad

from fedrepro.algorithms.base import Batch, FedAvg, Weights, vmap_silently

# Numbers in gradients of single images that are in memory at a time: 32 MiB, the largest block that
# training/devices.py keeps
MAX_GRADIENT_NUMBERS = 2**23

Objective = Callable[[FedAvg, Weights, Batch], Tensor]


def _loss(algorithm: FedAvg, weights: Weights, batch: Batch) -> Tensor:
    return algorithm.task_loss(algorithm.forward(weights, batch.images), batch)


def _outputs(algorithm: FedAvg, weights: Weights, batch: Batch) -> Tensor:
    return algorithm.forward(weights, batch.images).logits.square().mean()


BY_BATCH: dict[
    str, tuple[Objective, Callable[[Tensor], Tensor]]
] = {  # the differentiated function, and a gradient's contribution to the sum
    "layer_squares": (_loss, lambda gradient: gradient.square().sum()),
    "layer_outputs": (_outputs, lambda gradient: gradient.abs().sum()),
}
# name -> contribution of the gradients (B, ...) of B images
BY_IMAGE: dict[str, Callable[[Tensor], Tensor]] = {
    "layer_norm": lambda gradients: gradients.flatten(1).norm(dim=1).sum(),
    "absolute": lambda gradients: gradients.abs().sum(0),
    "fisher": lambda gradients: gradients.square().sum(0),
}


def importance(
    definition: str, algorithm: FedAvg, weights: Weights, batches: Iterable[Batch]
) -> Weights:
    """Return Omega at `weights` for each trained tensor: of the tensor's shape, or a scalar for the
    whole tensor."""
    totals: Weights = {}
    images = 0
    for batch in batches:
        images += len(batch.labels)
        for term in _terms(definition, algorithm, weights, batch):
            totals = {name: totals.get(name, 0) + value for name, value in term.items()}
    return {name: total / images for name, total in totals.items()}


def _terms(definition: str, algorithm: FedAvg, weights: Weights, batch: Batch) -> Iterable[Weights]:
    """Yield the terms that a batch contributes to the sum."""
    trained = {name: weights[name] for name in algorithm.trained}
    if definition in BY_BATCH:
        function, reduce = BY_BATCH[definition]
        gradients = grad(lambda variables: function(algorithm, weights | variables, batch))(trained)
        yield {name: reduce(gradient) for name, gradient in gradients.items()}
        return

    def image_gradients(image: Tensor, label: Tensor) -> Weights:
        single = Batch(image[None], label[None])
        return grad(lambda variables: _loss(algorithm, weights | variables, single))(trained)

    chunk = max(1, MAX_GRADIENT_NUMBERS // sum(tensor.numel() for tensor in trained.values()))
    for images, labels in zip(batch.images.split(chunk), batch.labels.split(chunk), strict=True):
        try:
            gradients = vmap_silently(image_gradients)(images, labels)
        # a module of the user's that torch cannot compute for a stack of images
        except RuntimeError:
            singles = [
                image_gradients(image, label) for image, label in zip(images, labels, strict=True)
            ]
            gradients = {
                name: torch.stack([single[name] for single in singles]) for name in trained
            }
        if definition == "model_norm":
            norms = torch.cat([gradient.flatten(1) for gradient in gradients.values()], 1).norm(
                dim=1
            )
            yield dict.fromkeys(gradients, norms.sum())
            continue
        yield {name: BY_IMAGE[definition](gradient) for name, gradient in gradients.items()}
