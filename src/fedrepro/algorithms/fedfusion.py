"""FedFusion: Yao et al., Towards Faster and Better Federated Learning: A Feature Fusion Approach,
ICIP 2019, Eqs. 6-8, Alg. 2.

The trained network is C(F(E_l(x), E_g(x))). The local extractor E_l, the fusion F and the
classifier C start from what the client receives and learn on the cross entropy; E_g is the received
extractor, frozen. E_l, F and C are sent back and averaged.

conv    F = W (E_l || E_g) + b, a 1x1 convolution from 2C to C channels; the paper writes E_g first,
the code E_l, and no b
        (`bias: false`)
multi   F = lambda E_g + (1 - lambda) E_l, one unbounded lambda per channel, 0 at the start
single  the same with one lambda for all channels

From the authors' code, where the paper is silent: the convolution has a bias and torch's default
start; weight decay acts on F too; the moving average of multi and single is the server's, lambda_t
= ema lambda_t-1 + (1 - ema) mean_k lambda_k, and the smoothed lambda is what is sent and tested;
the global model is tested with the extractor of the round before as its E_g (`tested_with: new`:
with its own, as when a client receives it). A client's own tests use the E_g of its round, both
before and after its local training.

No `Params` make this FedAvg: lambda changes wherever the two extractors differ.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from fedrepro.algorithms.base import Batch, ClientUpdate, FedAvg, Server, Weights
from fedrepro.config.types import Fraction, Frozen
from fedrepro.core.errors import UserError
from fedrepro.models import Block, Head, Net, Outputs, initialise

# prefixes of E_l and E_g among the weights
EXTRACTOR, REFERENCE = "extractor.", "global_extractor."
GATE = "fusion.gate"  # lambda


class FedFusion(FedAvg):
    class Params(Frozen):
        operator: Literal["conv", "multi", "single"] = "conv"
        bias: bool = True  # of conv
        ema: Fraction = 0.9  # of multi and single; 0: a plain mean
        tested_with: Literal["previous", "new"] = "previous"

    params: Params

    @classmethod
    def incompatibility(cls, params: Params, blocks: Sequence[Block | Head]) -> str | None:
        has_maps = isinstance(blocks[0], Block) and not blocks[0].flat
        return (
            None if has_maps else "it needs convolutions, whose maps it fuses; choose another model"
        )

    def wrap_net(self, net: Net, generator: torch.Generator) -> Net:
        if len(net.extractor.shape) != 3:
            raise UserError(
                f"algorithm fedfusion: model {net.spec.model}: its extractor ends without maps "
                f"(C, H, W)"
            )
        fusion = OPERATORS[self.params.operator](net.channels, self.params.bias, generator)
        return Fused(net, fusion.to(net.head.weight))

    def forward(self, weights: Weights, images: Tensor, masks: tuple[Tensor, ...] = ()) -> Outputs:
        """Return the outputs with the E_g that is among the weights, else with their own extractor
        as E_g."""
        prefix = REFERENCE if any(name.startswith(REFERENCE) for name in weights) else EXTRACTOR
        return self.call(weights, images, self._maps(weights, prefix, images), masks)

    def outputs(self, weights: Weights, batch: Batch) -> Outputs:
        return self.call(weights, batch.images, batch.reference_outputs[0], batch.masks)

    def reference_outputs(
        self, received: Weights, images: Tensor, constants: Weights
    ) -> tuple[Tensor, ...]:
        """Return the maps E_g(x)."""
        return (self._maps(received, EXTRACTOR, images),)

    def personalised_weights(self, weights: Weights, received: Weights) -> Weights:
        return weights | _as_reference(received)

    def aggregate(
        self, weights: Weights, server: Server, updates: Iterable[ClientUpdate]
    ) -> tuple[Weights, Weights]:
        """Average, with the moving average of lambda; the server keeps the extractor of `weights`
        as the next E_g."""
        new, _ = super().aggregate(weights, server, updates)
        if GATE in new:
            new[GATE] = self.params.ema * weights[GATE] + (1 - self.params.ema) * new[GATE]
        return new, _as_reference(weights) if self.params.tested_with == "previous" else {}

    def evaluation_weights(self, weights: Weights, state: Weights) -> Weights:
        return weights | state

    def _maps(self, weights: Weights, prefix: str, images: Tensor) -> Tensor:
        part = {
            name.removeprefix(prefix): tensor
            for name, tensor in weights.items()
            if name.startswith(prefix)
        }
        return self.apply_module(self.net.extractor, part, images)


def _as_reference(weights: Weights) -> Weights:
    """Return the extractor among the weights under the names of E_g."""
    return {
        name.replace(EXTRACTOR, REFERENCE, 1): tensor
        for name, tensor in weights.items()
        if name.startswith(EXTRACTOR)
    }


class Fused(Net):
    """A network that fuses its extractor's maps with reference maps of the same shape."""

    def __init__(self, net: Net, fusion: nn.Module) -> None:
        super().__init__(net.extractor, net.hidden, net.head, net.init, net.spec)
        self.fusion = fusion

    def forward(self, images: Tensor, reference: Tensor, masks: tuple[Tensor, ...] = ()) -> Outputs:
        maps, blocks = self.extractor.forward_blocks(images, masks)
        return self.classify(self.fusion(maps, reference), masks, blocks)


class Convolution(nn.Module):
    def __init__(self, channels: int, bias: bool, generator: torch.Generator) -> None:
        super().__init__()
        self.convolution = nn.utils.skip_init(nn.Conv2d, 2 * channels, channels, 1, bias=bias)
        initialise(self.convolution, "pytorch", generator)

    def forward(self, local: Tensor, reference: Tensor) -> Tensor:
        return self.convolution(torch.cat([local, reference], 1))


class Gate(nn.Module):
    def __init__(self, gates: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(gates, 1, 1))

    def forward(self, local: Tensor, reference: Tensor) -> Tensor:
        return self.gate * reference + (1 - self.gate) * local


OPERATORS = {
    "conv": Convolution,
    "multi": lambda channels, bias, generator: Gate(channels),
    "single": lambda channels, bias, generator: Gate(1),
}
