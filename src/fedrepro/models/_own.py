"""A network of the user's own: any torch module that maps images (B, C, H, W) to scores (B,
outputs).

Its last dense layer becomes the head, so that methods on the inputs of that layer can train it; an
`nn.Sequential` becomes a block for each of its parts, and an `nn.Flatten` in it the border between
extractor and dense layers, unless its parts share weights or it flattens in part. If the scores do
not come from a dense layer, or its weights are used elsewhere too, the whole module is one block
and the head passes its scores on.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fedrepro.core.errors import UserError, user_code
from fedrepro.models._blocks import Block, FlatModule, Head, Module, PassOn, Shape
from fedrepro.models._net import Net, seeded
from fedrepro.models.base import assemble


class Tokens(nn.Flatten):
    """Makes tokens (B, L), whole numbers, from images (B, L, 1, 1) of real ones."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).long()


def from_module(
    make: nn.Module | Callable[[], nn.Module],
    shape: Shape,
    outputs: int,
    generator: torch.Generator,
    tokens: int = 0,
) -> Net:
    """Return the network of a module, whose weights keep their values.

    Args:
        make: the module, or a function or class that makes it; then its initial weights depend on
            `generator`.
        shape: of an image, (C, H, W), or of a row, (F,), which the network gets as an image (F, 1,
            1).
        outputs: the number of scores.
        tokens: rows hold whole numbers below this one; 0: real numbers.

    Raises UserError if it does not fit the images or the classes.
    """
    if not callable(make):
        raise UserError(
            f"model: expected a name, a module or a function that makes one (got {make!r})"
        )
    again, trial = generator.clone_state(), partial(_trial_inputs, shape, tokens)
    module = _made(make, trial, generator)
    name = type(module).__name__
    one, other = module.state_dict(), _made(make, trial, again).state_dict()
    if not all(name in other and torch.equal(tensor, other[name]) for name, tensor in one.items()):
        raise UserError(
            f"model {name}: two calls make other initial weights. Draw them by torch's own "
            f"generator alone"
        )
    last = _last_dense(module, trial, outputs, name)
    scores = module.get_submodule(last) if last else _pass_on(outputs)
    assert isinstance(scores, nn.Linear)
    head = Head(outputs) if last else PassOn(outputs)
    single = not last or type(module) is not nn.Sequential or not _is_separable(module, last)
    image, blocks = (*shape, 1, 1)[:3], _blocks(module, last, single)
    if len(shape) == 1:
        blocks[:1] = [
            replace(block, rows=Tokens() if tokens else nn.Flatten()) for block in blocks[:1]
        ]
    net = assemble([*blocks, head], image, "pytorch", generator, name)
    net.head.to(scores.weight.dtype)
    with torch.no_grad():
        net.head.weight.copy_(scores.weight).requires_grad_(scores.weight.requires_grad)
        if scores.bias is None:
            net.head.bias.zero_().requires_grad_(False)
        else:
            net.head.bias.copy_(scores.bias).requires_grad_(scores.bias.requires_grad)
    with seeded(torch.Generator()):
        inputs = trial(module)
        tried = ((net, inputs.reshape(2, *image)), (module, inputs), (module, inputs))
        parts, whole, again = (_compute(copy.deepcopy(part), given, name) for part, given in tried)
    # a module that draws numbers differs from itself; the trial of its training refuses that
    if torch.equal(whole, again) and not torch.allclose(
        parts.logits, whole, rtol=1e-4, atol=1e-5, equal_nan=True
    ):
        raise UserError(
            f"model {name}: its parts compute other scores than it does; call them in a module "
            f"of your own"
        )
    net.own = (
        module,
        {
            own: place
            for place in net.state_dict()
            if (own := _own_name(place, last, single)) in one
        },
    )
    return net


def to_module(net: Net, weights: Mapping[str, Tensor]) -> nn.Module:
    """Return a copy of the module that a network was made of, else of the network, in evaluation
    mode, with other weights."""
    made, names = net.own or (net, {name: name for name in weights})
    module = copy.deepcopy(made).to(net.head.weight)
    # not strict, since weights that parts share are named once
    module.load_state_dict(
        {name: weights[place] for name, place in names.items() if place in weights}, strict=False
    )
    return module.eval()


def _own_name(place: str, last: str | None, single: bool) -> str:
    """Return a module's own name of what the network calls `place`; `single`: without its last
    layer it is one block."""
    stage, block, *inner = place.split(".")
    return (
        f"{last}.{block}"
        if stage == "head"
        else ".".join(inner[1:] if single else (block, *inner[1:]))
    )


def _made(
    make: nn.Module | Callable[[], nn.Module],
    trial: Callable[[nn.Module], Tensor],
    generator: torch.Generator,
) -> nn.Module:
    """Return the module, or a copy of it; lazy layers have got their sizes."""
    with seeded(generator):
        with user_code(
            "model: it cannot be made or copied. Pass a function without arguments that makes a "
            "module"
        ):
            module = copy.deepcopy(make) if isinstance(make, nn.Module) else make()
        name = type(module).__name__
        if not isinstance(module, nn.Module):
            raise UserError(
                f"model: expected a function that returns a torch module (it returned one of "
                f"type {name})"
            )
        if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
            _compute(module, trial(module), name)
    return module


def _trial_inputs(shape: Shape, tokens: int, module: nn.Module) -> Tensor:
    """Return two images or rows of the type of the module's weights, or rows of the first and of
    the last token."""
    if tokens:
        return torch.tensor([[0], [tokens - 1]]).repeat(1, *shape)
    kind = next((weight.dtype for weight in module.parameters()), torch.float32)
    return torch.rand(2, *shape, generator=torch.Generator()).to(kind)


@torch.no_grad()
def _compute(module: nn.Module, images: Tensor, name: str) -> Any:
    """Return the outputs of a module in evaluation."""
    kind = "images" if images.ndim == 4 else f"rows of {images.dtype}"
    with user_code(f"model {name}: cannot compute {kind} of shape {tuple(images.shape)}"):
        return module.eval()(images)


@torch.no_grad()
def _last_dense(
    module: nn.Module, inputs: Callable[..., Tensor], outputs: int, name: str
) -> str | None:
    """Return the name of the dense layer whose outputs are those of the module, whose inputs are
    all that it uses of the rest, and whose weights are its own; None if there is none."""
    seen: dict[str, Tensor] = {}
    trial, images = copy.deepcopy(module), inputs(module)
    for key, layer in trial.named_modules():
        if type(layer) is nn.Linear:
            layer.register_forward_hook(
                lambda layer, inputs, result, key=key: seen.update({key: result})
            )
    scores = _compute(trial, images, name)
    if not isinstance(scores, Tensor) or scores.shape != (2, outputs):
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise UserError(
            f"model {name}: expected scores of shape (2, {outputs}) for 2 images and {outputs} "
            f"classes (got {got})"
        )
    last = next((key for key, result in seen.items() if result is scores), None)
    if not last:
        return None
    layer = module.get_submodule(last)
    if len(_uses(module, layer)) > len(list(layer.parameters())):
        return None
    try:
        rest = _compute(_without(module, last), images, name)
    except UserError:  # it uses the layer in another way too
        return None
    return last if torch.equal(layer(rest), scores) else None


def _uses(module: nn.Module, part: nn.Module) -> list[str]:
    """Return all names in a module of the weights of one of its parts."""
    weights = {id(weight) for weight in part.parameters()}
    return [
        name
        for name, weight in module.named_parameters(remove_duplicate=False)
        if id(weight) in weights
    ]


def _without(module: nn.Module, last: str) -> nn.Module:
    """Return a copy of the module that ends before its last layer."""
    rest = copy.deepcopy(module)
    parent, _, key = last.rpartition(".")
    setattr(rest.get_submodule(parent), key, nn.Identity())
    return rest


def _blocks(module: nn.Module, last: str | None, single: bool) -> list[Block]:
    if single or not last:
        return [Module("module", _without(module, last) if last else module)]
    flat, blocks = False, []
    for key, part in _parts(module)[:-1]:
        if isinstance(part, nn.Flatten) and not flat:
            flat = True
        else:
            blocks.append((FlatModule if flat else Module)(key, part))
    return blocks


def _parts(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the children of a module by name, repeated ones too."""
    return [
        (name, part)
        for name, part in module.named_modules(remove_duplicate=False)
        if name and "." not in name
    ]


def _is_separable(module: nn.Module, last: str) -> bool:
    """Return whether the parts, of which the last is `last`, share no tensors, and all that flatten
    do so completely."""
    parts = _parts(module)
    tensors = [id(tensor) for _, part in parts for tensor in (*part.parameters(), *part.buffers())]
    flattened = [
        (part.start_dim, part.end_dim) for _, part in parts if isinstance(part, nn.Flatten)
    ]
    return (
        parts[-1][0] == last and len(set(tensors)) == len(tensors) and set(flattened) <= {(1, -1)}
    )


def _pass_on(outputs: int) -> nn.Linear:
    """Return a dense layer that passes its inputs on and is not trained."""
    layer = nn.Linear(outputs, outputs, bias=False)
    nn.init.eye_(layer.weight)
    return layer.requires_grad_(False)
