"""Pieces of work, runs or studies, one after the other in one process."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch

from fedrepro.training import devices
from fedrepro.config.params import Gpus
from fedrepro.training.run import Limits
from fedrepro.core.errors import Failures

Piece = TypeVar("Piece")
log = logging.getLogger(__name__)


def through(
    pieces: Iterable[Piece],
    do: Callable[[Piece, torch.device], bool],
    *,
    name: Callable[[Piece], str],
    over: Callable[[Piece], bool],
    device: str,
    gpus: Gpus,
    limits: Limits,
    failures: Failures,
) -> list[Piece]:
    """Bring every piece to its end, on one device, which is taken when the first needs it; what is `over` costs nothing. `do`
    says False of a piece that a limit cut off; none is begun after it. One that fails, even when asked whether it is over, does
    not keep the others from their end: it goes to `failures`. Returns those that are not over yet."""
    place, left = None, []
    for piece in pieces:
        with failures.of(name(piece)):
            if over(piece):
                continue
            if not left and not limits.forbid(0):
                place = place or devices.take(device, gpus, limits.forbid)
                if place is not None:
                    log.info("%s on %s", name(piece), place)
                    if do(piece, place):
                        continue
            left.append(piece)
    return left
