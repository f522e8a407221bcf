"""FedPer: Arivazhagan et al., Federated Learning with Personalization Layers, 2019, Alg. 1.

The last layers, `layers` of them with the head, stay with each client; the others, the base, are
averaged. Clients minimise the task's loss over both at the same rate, as in FedAvg, and keep their
last layers between rounds; at first these are the initial ones. The paper calls the number K_P.

The measures of a client's own test images use its own weights; those of the whole test set use the
mean of the participants' own ones, which no client gets.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from fedrepro.algorithms.base import FedAvg
from fedrepro.config.types import Count, Frozen
from fedrepro.models import Block, Head


class FedPer(FedAvg):
    class Params(Frozen):
        layers: Count = 1

    params: Params

    @classmethod
    def incompatibility(cls, params: Params, blocks: Sequence[Block | Head]) -> str | None:
        too_many = (
            f"layers: of its {len(blocks)} layers none would be shared (got "
            f"{params.layers}); choose a smaller number"
        )
        return too_many if params.layers >= len(blocks) else None

    def own_weights(self) -> Iterable[str]:
        return chain.from_iterable(self.net.layers[-self.params.layers :])
