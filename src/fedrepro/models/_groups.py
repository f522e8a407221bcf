"""Feature regulation: a network of blocks made into one whose later blocks fall into groups, each with classes of its own.

Yu et al. 2020 (Psi-Net), section 3: from one block on a group sees nothing of the others, up to the scores of its classes.
Widths that groups cannot share are rounded to the nearest multiple, that of the last shared block too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from fedrepro.errors import UserError
from fedrepro.models._blocks import Block, Depthwise, Head
from fedrepro.models._net import Groups, Net
from fedrepro.models.base import assemble

ClassMap = Literal["consecutive", "interleaved"] | tuple[tuple[int, ...], ...]


def regulated(
    net: Net,
    generator: torch.Generator,
    *,
    groups: int | None = None,
    start: str | None = None,
    classes: ClassMap = "consecutive",
    norm: bool = True,
    where: str = "model of groups",
) -> Net:
    """`net` in groups from the block `start` on (None: the first dense one), so many (None: one for each class), with a group
    normalisation after every grouped convolution if `norm`. Shared weights start as the net's, others from `generator`.

    One group without `norm` is the net itself. Raises UserError, beginning with `where`, for what cannot be shared out.
    """
    labels = _classes(net.head.out_features, groups, classes, where)
    blocks, image, model = net.plan
    first = _first(blocks, start, where)
    if len(labels) == 1 and not norm:
        return net
    grouped = [_grouped(blocks, place, labels, norm, where) for place in range(first, len(blocks))]
    found = assemble([*_widened(blocks[:first], len(labels)), *grouped], image, net.init, generator, model)
    tensors = found.state_dict()
    names = [name for block in grouped for name in found.names(block.name) if tensors[name].dim()]
    found.groups = Groups(labels, frozenset(names))
    return _started(found.to(net.head.weight), net)


def _classes(outputs: int, groups: int | None, classes: ClassMap, where: str) -> tuple[tuple[int, ...], ...]:
    """The classes of each group."""
    if isinstance(classes, tuple):
        if groups not in (None, len(classes)):
            raise UserError(f"{where}: groups: classes lists {len(classes)} of them (got {groups})")
        if sorted(label for group in classes for label in group) != list(range(outputs)) or len({*map(len, classes)}) > 1:
            raise UserError(f"{where}: classes: expected groups of equal size, with each of 0 to {outputs - 1} once")
        return classes
    groups = groups or outputs
    if outputs % groups:
        valid = ", ".join(str(number) for number in range(1, outputs + 1) if outputs % number == 0)
        raise UserError(f"{where}: groups: {outputs} classes need one of {valid} (got {groups})")
    size = outputs // groups
    if classes == "consecutive":
        return tuple(tuple(range(group * size, (group + 1) * size)) for group in range(groups))
    return tuple(tuple(range(group, outputs, groups)) for group in range(groups))


def _first(blocks: Sequence[Block | Head], start: str | None, where: str) -> int:
    """The place of the block where groups begin."""
    if start is None:
        return next(place for place, block in enumerate(blocks) if isinstance(block, Head) or block.flat)
    names = [block.name for block in blocks]
    if start not in names:
        raise UserError(f"{where}: grouped_from: unknown block '{start}': choose from {', '.join(names)}")
    return names.index(start)


def _grouped(
    blocks: Sequence[Block | Head], place: int, labels: Sequence[Sequence[int]], norm: bool, where: str
) -> Block | Head:
    """One of the blocks in groups."""
    block = blocks[place]
    if isinstance(block, Head):
        return replace(block, groups=len(labels), order=tuple(label for group in labels for label in group))
    try:
        return block.grouped(len(labels), norm)
    except NotImplementedError:
        valid, kind = ", ".join(later.name for later in blocks[place + 1 :]), type(block).__name__
        raise UserError(f"{where}: grouped_from: {block.name} ({kind}) has no groups: choose from {valid}") from None


def _widened(blocks: Sequence[Block], groups: int) -> list[Block]:
    """With a width of the last one that groups can share; a depthwise convolution is as wide as what comes before it."""
    found = list(blocks)
    place = next((place for place in reversed(range(len(found))) if not isinstance(found[place], Depthwise)), None)
    if place is not None:
        found[place] = found[place].widened(groups)
    return found


@torch.no_grad()
def _started(net: Net, base: Net) -> Net:
    """With the shared weights of the base, and frozen where the base is."""
    known, trained = base.state_dict(), base.trained
    for name, tensor in net.state_dict().items():
        if name not in net.groups.weights and known[name].shape == tensor.shape:
            tensor.copy_(known[name])
    for name, weight in net.named_parameters():
        weight.requires_grad_(name in trained or name not in dict(base.named_parameters()))
    return net
