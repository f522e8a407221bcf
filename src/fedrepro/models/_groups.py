"""Feature regulation: a network of blocks made into one whose later blocks fall into groups, each with classes of its own.

Yu et al. 2020 (Psi-Net), section 3: from one block on a group sees nothing of the others, up to the scores of its classes.
Widths that groups cannot share are rounded to the nearest multiple, that of the last shared block too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator

from fedrepro.core.errors import UserError, unknown_name_message
from fedrepro.models._blocks import Block, Conv, Depthwise, Head
from fedrepro.models._net import Groups, Net
from fedrepro.models.base import joined

WAYS = ("consecutive", "interleaved")


def _dealt(value: Any) -> Any:
    """One message for all that is no map, in place of one for each kind of map that it is not."""
    if value in WAYS:
        return value
    groups = value if isinstance(value, list | tuple) else ()
    listed = [isinstance(group, list | tuple) and all(type(label) is int for label in group) for group in groups]
    if not listed or not all(listed):
        raise ValueError(f"expected {', '.join(WAYS)} or a list with the classes of each group")
    return tuple(tuple(group) for group in groups)


ClassMap = Annotated[Literal[WAYS] | tuple[tuple[int, ...], ...], BeforeValidator(_dealt)]


def with_groups(
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
    blocks = net.plan.blocks
    first = _first(blocks, start, where)
    if len(labels) == 1 and not norm:
        return net
    try:
        found = _split(net, first, labels, norm, generator)
    except UserError as error:
        valid = [blocks[place].name for place in range(len(blocks)) if _splits(net, place, labels, norm, generator)]
        told = f"choose from {', '.join(valid)}" if valid else f"no block of {net.plan.model} can: set other groups"
        reason = f"{blocks[first].name} cannot begin {len(labels)} groups: {error}"
        raise UserError(f"{where}: grouped_from: {reason}; {told}") from None
    tensors = found.state_dict()
    names = [name for block in blocks[first:] for name in found.names(block.name) if tensors[name].dim()]
    found.groups = Groups(labels, frozenset(names))
    return _started(found.to(net.head.weight), net)


def _split(net: Net, first: int, labels: Sequence[Sequence[int]], norm: bool, generator: torch.Generator) -> Net:
    """With the blocks from the place `first` on in groups. Raises UserError, the reason alone, where that cannot be."""
    blocks, image, model = net.plan
    grouped = [_grouped(block, labels, norm) for block in blocks[first:]]
    return joined([*_widened(blocks[:first], len(labels)), *grouped], image, net.init, generator, model)


def _splits(net: Net, *given: Any) -> bool:
    try:
        return bool(_split(net, *given))
    except UserError:
        return False


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
        raise UserError(f"{where}: grouped_from: {unknown_name_message('block', start, names)}")
    return names.index(start)


def _grouped(block: Block | Head, labels: Sequence[Sequence[int]], norm: bool) -> Block | Head:
    """One of the blocks in groups."""
    if isinstance(block, Head):
        return replace(block, groups=len(labels), order=tuple(label for group in labels for label in group))
    try:
        found = block.grouped(len(labels), norm)
    except NotImplementedError:
        raise UserError(f"{block.name} ({type(block).__name__}) has no groups") from None
    own = found.norm_groups if isinstance(found, Conv) and found.norm == "group" else None
    if own and own % len(labels):
        raise UserError(f"{block.name}: its own group normalisation, of {own}, would mix the {len(labels)} groups")
    return found


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
