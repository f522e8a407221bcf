"""LG-FedAvg: Liang et al., Think Locally, Act Globally: Federated Learning with Local and Global
Representations, 2020, Alg. 1.

The first layers, `layers` of them (null: all but the head), stay with each client and compute its
own representation of an image; the others are averaged. Clients minimise the task's loss over both
at the same rate, as in FedAvg. At first all have the initial weights; the authors' experiments
begin with rounds of FedAvg instead.

The measures of a client's own test images use its own weights; those of the whole test set use the
mean of the participants' own ones, which no client gets.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from fedrepro.algorithms.base import FedAvg, missing_hidden_layer
from fedrepro.config.types import Count, Frozen
from fedrepro.models import Block, Head


class LGFedAvg(FedAvg):
    class Params(Frozen):
        layers: Count | None = None

    params: Params

    @classmethod
    def incompatibility(cls, params: Params, blocks: Sequence[Block | Head]) -> str | None:
        if params.layers is not None and params.layers >= len(blocks):
            return (
                f"layers: of its {len(blocks)} layers none would be shared (got "
                f"{params.layers}); choose a smaller number"
            )
        return missing_hidden_layer(blocks)

    def own_weights(self) -> Iterable[str]:
        layers = self.net.layers
        return chain.from_iterable(layers[: self.params.layers or max(1, len(layers) - 1)])
