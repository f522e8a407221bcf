"""Splitting of a network's later blocks into groups, each with classes of its own: feature
regulation.

Yu et al. 2020 (Psi-Net), section 3: from one block on the groups are independent, up to the scores
of their classes. Widths that groups do not divide are rounded to the nearest multiple, that of the
last shared block too.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Annotated, Any, Literal, cast, get_args

import torch
from pydantic import BeforeValidator

from fedrepro.core.errors import UserError, unknown_name_message
from fedrepro.models._blocks import Block, Conv, Depthwise, Head
from fedrepro.models._net import Groups, Net
from fedrepro.models.base import connect_blocks

Pattern = Literal["consecutive", "interleaved"]
PATTERNS = get_args(Pattern)


def _parse_class_map(value: Any) -> Any:
    """Parse a class map; raises one error for all invalid values, in place of pydantic's one for
    each type."""
    if value in PATTERNS:
        return value
    groups = value if isinstance(value, list | tuple) else ()
    listed = [
        isinstance(group, list | tuple) and all(type(label) is int for label in group)
        for group in groups
    ]
    if not listed or not all(listed):
        raise ValueError(f"expected {', '.join(PATTERNS)} or a list with the classes of each group")
    return tuple(tuple(group) for group in groups)


ClassMap = Annotated[Pattern | tuple[tuple[int, ...], ...], BeforeValidator(_parse_class_map)]


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
    """Return a network like `net` whose blocks are in groups from the block `start` on.

    Args:
        groups: number of groups; None: one for each class.
        start: name of the first grouped block; None: the first dense one.
        classes: the classes of each group.
        norm: add group normalisation after every grouped convolution.
        where: beginning of error messages.

    Shared weights are copied from `net`, others are drawn from `generator`. One group without
    `norm` is `net` itself. Raises UserError if the network cannot be split so.
    """
    labels = _classes(net.head.out_features, groups, classes, where)
    blocks = net.spec.blocks
    first = _first_grouped(blocks, start, where)
    if len(labels) == 1 and not norm:
        return net
    try:
        grouped = _split(net, first, labels, norm, generator)
    except UserError as error:
        valid = [
            blocks[place].name
            for place in range(len(blocks))
            if _can_split(net, place, labels, norm, generator)
        ]
        remedy = (
            f"choose from {', '.join(valid)}"
            if valid
            else f"no block of {net.spec.model} can: set other groups"
        )
        reason = f"{blocks[first].name} cannot begin {len(labels)} groups: {error}"
        raise UserError(f"{where}: grouped_from: {reason}; {remedy}") from None
    tensors = grouped.state_dict()
    names = chain.from_iterable(grouped.state_names(block.name) for block in blocks[first:])
    grouped.groups = Groups(labels, frozenset(name for name in names if tensors[name].dim()))
    return _copy_shared_weights(grouped.to(net.head.weight), net)


def _split(
    net: Net, first: int, labels: Sequence[Sequence[int]], norm: bool, generator: torch.Generator
) -> Net:
    """Return a new network with the blocks from the place `first` on in groups. Raises UserError,
    the reason alone."""
    blocks, image, model = net.spec
    shared = cast(Sequence[Block], blocks[:first])  # the head is the last block, and never shared
    grouped = [_group_block(block, labels, norm) for block in blocks[first:]]
    return connect_blocks(
        [*_widen_last(shared, len(labels)), *grouped], image, net.init, generator, model
    )


def _can_split(net: Net, *args: Any) -> bool:
    try:
        return bool(_split(net, *args))
    except UserError:
        return False


def _classes(
    outputs: int, groups: int | None, classes: ClassMap, where: str
) -> tuple[tuple[int, ...], ...]:
    """Return the classes of each group."""
    if isinstance(classes, tuple):
        if groups not in (None, len(classes)):
            raise UserError(f"{where}: groups: classes lists {len(classes)} of them (got {groups})")
        if (
            sorted(label for group in classes for label in group) != list(range(outputs))
            or len({*map(len, classes)}) > 1
        ):
            raise UserError(
                f"{where}: classes: expected groups of equal size, with each of 0 to "
                f"{outputs - 1} once"
            )
        return classes
    groups = groups or outputs
    if outputs % groups:
        valid = ", ".join(str(number) for number in range(1, outputs + 1) if outputs % number == 0)
        raise UserError(f"{where}: groups: {outputs} classes need one of {valid} (got {groups})")
    size = outputs // groups
    if classes == "consecutive":
        return tuple(tuple(range(group * size, (group + 1) * size)) for group in range(groups))
    return tuple(tuple(range(group, outputs, groups)) for group in range(groups))


def _first_grouped(blocks: Sequence[Block | Head], start: str | None, where: str) -> int:
    """Return the place of the first grouped block."""
    if start is None:
        return next(
            place for place, block in enumerate(blocks) if isinstance(block, Head) or block.flat
        )
    names = [block.name for block in blocks]
    if start not in names:
        raise UserError(f"{where}: grouped_from: {unknown_name_message('block', start, names)}")
    return names.index(start)


def _group_block(block: Block | Head, labels: Sequence[Sequence[int]], norm: bool) -> Block | Head:
    """Return a block split into groups."""
    if isinstance(block, Head):
        return replace(
            block, groups=len(labels), order=tuple(label for group in labels for label in group)
        )
    try:
        grouped = block.grouped(len(labels), norm)
    except NotImplementedError:
        raise UserError(f"{block.name} ({type(block).__name__}) has no groups") from None
    norm_groups = (
        grouped.norm_groups if isinstance(grouped, Conv) and grouped.norm == "group" else None
    )
    if norm_groups and norm_groups % len(labels):
        raise UserError(
            f"{block.name}: its group normalisation, of {norm_groups} groups, would mix the "
            f"{len(labels)} groups"
        )
    return grouped


def _widen_last(blocks: Sequence[Block], groups: int) -> list[Block]:
    """Return the blocks, the last of which gets a width that `groups` divides; a depthwise one
    takes that of its inputs."""
    widened = list(blocks)
    place = next(
        (
            place
            for place in reversed(range(len(widened)))
            if not isinstance(widened[place], Depthwise)
        ),
        None,
    )
    if place is not None:
        widened[place] = widened[place].widened(groups)
    return widened


@torch.no_grad()
def _copy_shared_weights(net: Net, base: Net) -> Net:
    """Copy the shared weights of `base` to `net`, and freeze the same weights; returns `net`."""
    tensors, trained = base.state_dict(), base.trained
    grouped = net.groups.weights if net.groups else frozenset()
    for name, tensor in net.state_dict().items():
        if name not in grouped and tensors[name].shape == tensor.shape:
            tensor.copy_(tensors[name])
    for name, weight in net.named_parameters():
        weight.requires_grad_(name in trained or name not in dict(base.named_parameters()))
    return net
