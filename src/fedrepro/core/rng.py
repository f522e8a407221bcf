"""The only source of randomness: a generator is a pure function of named coordinates, so no draw depends on what ran before.

Resuming, reordering clients or changing the executor therefore cannot change a single sample.
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
    """A fresh torch generator, always on the CPU: the draws are the same on every device."""
    import torch  # partitions are drawn without it

    return torch.Generator().manual_seed(_digest(seed, purpose, round, client))


def numpy_generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """The same for numpy, where its distributions are needed (Dirichlet partitions)."""
    return np.random.default_rng(_digest(seed, purpose, round, client))
