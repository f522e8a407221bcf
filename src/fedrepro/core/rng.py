"""The only source of randomness: generators that are pure functions of seed, purpose, round and
client.

No draw depends on earlier draws, so resuming, reordering clients or changing the executor cannot
change a single sample.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def _digest(seed: int, purpose: str, round: int, client: int) -> int:
    text = f"{seed}/{purpose}/{round}/{client}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1  # torch takes 63 bits


def generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> torch.Generator:
    """Return a new torch generator, always on the CPU so that draws are the same on every
    device."""
    import torch  # partitions are drawn without it

    return torch.Generator().manual_seed(_digest(seed, purpose, round, client))


def numpy_generator(
    seed: int, purpose: str, round: int = 0, client: int = 0
) -> np.random.Generator:
    """Return a new numpy generator, for distributions that torch lacks (Dirichlet partitions)."""
    return np.random.default_rng(_digest(seed, purpose, round, client))
