"""Two-stream L2: the baseline of Yao et al., Two-Stream Federated Learning: Reduce the
Communication Costs, VCIP 2018.

Local loss: cross entropy + lambda * 1/2 * sum over batch and classes of (logit_global -
logit_local)^2. The sum over the batch, not a mean, is from the authors' code; the paper does not
say. With batch normalisation the global net uses its running statistics, the local one those of the
batch: equal weights differ, too.
"""

from torch import Tensor

from fedrepro.algorithms.base import Batch, FedAvg, Weights
from fedrepro.config.types import Frozen, NonNegative


class L2(FedAvg):
    class Params(Frozen):
        weight: NonNegative = 0.001  # lambda

    params: Params

    def reference_outputs(
        self, received: Weights, images: Tensor, constants: Weights
    ) -> tuple[Tensor, ...]:
        return (self.forward(received, images).logits,)

    def loss(self, weights: Weights, received: Weights, batch: Batch) -> Tensor:
        outputs = self.outputs(weights, batch)
        distance = 0.5 * (batch.reference_outputs[0] - outputs.logits).square().sum()
        return self.task_loss(outputs, batch) + self.params.weight * distance
