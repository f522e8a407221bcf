"""FedBN: Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization,
ICLR 2021, Alg. 1.

Clients minimise the task's loss, as in FedAvg. The server averages all weights but those of batch
normalisation: scale, shift and running statistics stay with each client, which starts its next
local training from its own. At first these are the initial ones.

The measures of a client's own test images use its own weights; those of the whole test set use the
mean of the participants' own ones, which no client gets.
"""

from collections.abc import Iterable, Sequence

from torch import nn

from fedrepro.algorithms.base import FedAvg
from fedrepro.config.types import Frozen
from fedrepro.core.errors import UserError
from fedrepro.models import Block, Conv, Dense, Head

NEEDED = "it needs batch normalisation: set norm: batch, or choose another model"


class FedBN(FedAvg):
    @classmethod
    def incompatibility(cls, params: Frozen, blocks: Sequence[Block | Head]) -> str | None:
        without = all(
            isinstance(block, Dense | Head) or (isinstance(block, Conv) and block.norm != "batch")
            for block in blocks
        )
        return NEEDED if without else None

    def own_weights(self) -> Iterable[str]:
        layers = [
            (place, layer)
            for place, layer in self.net.named_modules()
            if isinstance(layer, nn.modules.batchnorm._BatchNorm)
        ]
        if not layers:
            raise UserError(f"algorithm fedbn: model {self.net.spec.model}: {NEEDED}")
        return [f"{place}.{name}" for place, layer in layers for name in layer.state_dict()]
