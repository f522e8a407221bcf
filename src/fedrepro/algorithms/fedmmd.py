"""FedMMD: Yao et al., Two-Stream Federated Learning: Reduce the Communication Costs, VCIP 2018,
Eqs. 4-5.

Local loss: cross entropy + lambda * MMD^2(global net's outputs, local net's outputs) on the same
batch. From the authors' code, where the paper is silent: the outputs are logits; the kernel is the
sum of 19 Gaussians exp(-d^2 / (2 sigma)) with the fixed `VARIANCES`; the estimate is the biased one
(mean over all B x B pairs, the diagonal included), and below `floor` it is a constant, without
gradient. With batch normalisation the global net uses its running statistics and the local one
those of the batch, so that equal weights give different outputs.

Options: `outputs: features` compares the layer before the logits (the paper's drawing); `kernel:
mean_distance` takes 5 Gaussians exp(-d^2 / (b 2^i)), i = -2..2, with b the mean squared distance of
the pooled pairs (a third-party version).
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from fedrepro.algorithms.base import Batch, FedAvg, Weights, missing_hidden_layer
from fedrepro.config.types import Frozen, NonNegative
from fedrepro.models import Block, Head, Outputs

VARIANCES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 5, 10, 15, 20, 25, 30, 35, 100,
             1e3, 1e4, 1e5, 1e6)  # fmt: skip


class FedMMD(FedAvg):
    class Params(Frozen):
        weight: NonNegative = 0.1  # lambda
        outputs: Literal["logits", "features"] = "logits"
        kernel: Literal["fixed19", "mean_distance"] = "fixed19"
        floor: NonNegative = 1e-4

    params: Params

    @classmethod
    def warning(cls, params: Params, precision: str) -> str | None:
        if (
            params.floor == 0
            and params.weight > 0
            and params.kernel == "fixed19"
            and precision != "float64"
        ):
            return (
                f"floor 0 in {precision}: narrow kernels amplify rounding, so that machines "
                f"give different numbers; use float64"
            )
        if precision == "bfloat16" and params.weight > 0:
            return (
                "in bfloat16 most of the distance between two similar networks is rounding; "
                "use float32"
            )
        return super().warning(params, precision)

    @classmethod
    def incompatibility(cls, params: Params, blocks: Sequence[Block | Head]) -> str | None:
        return missing_hidden_layer(blocks) if params.outputs == "features" else None

    def reference_outputs(
        self, received: Weights, images: Tensor, constants: Weights
    ) -> tuple[Tensor, ...]:
        return (self._compared(self.forward(received, images)),)

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        outputs = self.outputs(weights, batch)
        discrepancy = mmd2(
            batch.reference_outputs[0], self._compared(outputs), self.params.kernel
        ).clamp(min=self.params.floor)
        return self.task_loss(outputs, batch) + self.params.weight * discrepancy

    def _compared(self, outputs: Outputs) -> Tensor:
        return outputs.logits if self.params.outputs == "logits" else outputs.penultimate


def mmd2(a: Tensor, b: Tensor, kernel: str = "fixed19") -> Tensor:
    """Return the biased squared maximum mean discrepancy between the rows of `a` and `b`, both (B,
    D): a scalar."""
    aa, ab, bb = squared_distances(a, a), squared_distances(a, b), squared_distances(b, b)
    if kernel == "fixed19":
        scales = 2 * torch.tensor(VARIANCES, dtype=a.dtype, device=a.device)
    else:
        n = 2 * len(a)
        bandwidth = (aa.sum() + 2 * ab.sum() + bb.sum()).detach() / (n * n - n)
        scales = bandwidth.clamp(min=4 * torch.finfo(a.dtype).tiny) * 2.0 ** torch.arange(
            -2, 3, dtype=a.dtype, device=a.device
        )

    def similarity(distances: Tensor) -> Tensor:
        return (-distances / scales[:, None, None]).exp().sum(0).mean()

    return similarity(aa) - 2 * similarity(ab) + similarity(bb)


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Return the squared distances (B, B) of rows. |a|^2 + |b|^2 - 2ab would lose small ones in
    float32."""
    return (a[:, None] - b[None]).square().sum(-1)
