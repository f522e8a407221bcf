"""Which units of several networks are the same one: MAP inference of PFNM for one layer.

Yurochkin et al., Bayesian Nonparametric Federated Learning of Neural Networks, ICML 2019, Eqs. 8-9. A unit v (D,) of a client
is a noisy copy of a global one: v ~ N(theta, sigma), theta ~ N(mu, sigma0), both of them variances, and which global units a
client has follows a Beta-Bernoulli process of mass gamma. Given all other clients, the best assignment of one client's units is
a linear one: with S_i and n_i the sum and number of what the others have assigned to the global unit i, J clients in all,

    to i        |mu/sigma0 + S_i/sigma + v/sigma|^2 / (1/sigma0 + (n_i + 1)/sigma)
                - |mu/sigma0 + S_i/sigma|^2 / (1/sigma0 + n_i/sigma)  +  2 log(n_i / (J - n_i))
    to its own  |mu/sigma0 + v/sigma|^2 / (1/sigma0 + 1/sigma)  -  |mu/sigma0|^2 sigma0  +  2 log(gamma / J)  -  2 log(k)

for the k-th unit that is new with this client. The clients take turns until no iteration is left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedrepro.core.errors import UserError

POPULAR = 10  # clients, above which the code counts no more
WIDEST = 700  # units, above which the code lets a client add no more than one


@dataclass(frozen=True)
class Prior:
    """`mean`: mu (D,); `popularity`: `paper`, as above, or `code`, as FedMA's has it: log(n / (J - n)) once, with n at most 10;
    `grow`: whether a client may add units where it need not."""

    mean: np.ndarray
    sigma: float
    sigma0: float
    gamma: float
    popularity: str = "paper"
    grow: bool = True

    def gains(self, units: np.ndarray, totals: np.ndarray, counts: np.ndarray, clients: int) -> np.ndarray:
        """What it is worth (L, G + new ones) to assign each of a client's `units` (L, D) to each global unit, given the sum
        `totals` (G, D) and number `counts` (G,) of what the other clients assigned to it: twice the log posterior but for what
        is the same for all assignments."""
        base = self.mean / self.sigma0
        known, moved = base + totals / self.sigma, units / self.sigma
        before = 1 / self.sigma0 + counts / self.sigma
        squares = (known**2).sum(1)
        together = (moved**2).sum(1)[:, None] + 2 * _product(moved, known.T) + squares
        matched = together / (before + 1 / self.sigma) - squares / before + self._popular(counts, clients)
        alone = ((base + moved) ** 2).sum(1) / (1 / self.sigma0 + 1 / self.sigma) - (base**2).sum() * self.sigma0
        places = np.arange(1, self._added(len(units), len(counts)) + 1)
        return np.hstack([matched, alone[:, None] + 2 * np.log(self.gamma / clients) - 2 * np.log(places)])

    def _popular(self, counts: np.ndarray, clients: int) -> np.ndarray:
        if self.popularity == "code":
            counts = np.minimum(counts, POPULAR)
            return np.log(counts / (clients - counts))
        return 2 * np.log(counts / (clients - counts))

    def _added(self, units: int, known: int) -> int:
        """How many new units a client may have: enough for all of its own to have a place."""
        return max(min(units, max(WIDEST - known, 1)) if self.grow else 0, units - known)

    def unit(self, totals: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """The mean of the posterior of the global units (G, D)."""
        own = self.mean / self.sigma0 + totals / self.sigma
        return own / (1 / self.sigma0 + counts / self.sigma)[:, None]


def _product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of two matrices, by torch, of whose threads there is one: numpy's library takes as many as the environment says, and
    rounds otherwise with each number of them, which decides where two units are alike."""
    return (torch.from_numpy(one) @ torch.from_numpy(other)).numpy()


def match(clients: Sequence[np.ndarray], prior: Prior, iterations: int, draw: np.random.Generator) -> list[np.ndarray]:
    """For each client, given its units (L_j, D), the numbers (L_j,) of the global units that they are: from 0 without a gap;
    no client has one twice."""
    assign, found = solver(), [np.empty(0, int) for _ in clients]
    totals, counts = np.empty((0, clients[0].shape[1])), np.empty(0, int)

    def place(client: int) -> None:
        nonlocal totals, counts
        _, columns = assign(prior.gains(clients[client], totals, counts, len(clients)), maximize=True)
        new = columns >= len(counts)
        found[client] = np.where(new, len(counts) + np.cumsum(new) - 1, columns)
        totals = np.pad(totals, ((0, new.sum()), (0, 0)))
        counts = np.pad(counts, (0, new.sum()))
        totals[found[client]] += clients[client]
        counts[found[client]] += 1

    def remove(client: int) -> None:
        nonlocal totals, counts
        totals[found[client]] -= clients[client]
        counts[found[client]] -= 1
        kept = counts > 0
        found[client] = np.empty(0, int)
        found[:] = [(np.cumsum(kept) - 1)[own] for own in found]
        totals, counts = totals[kept], counts[kept]

    for client in sorted(range(len(clients)), key=lambda client: -len(clients[client])):
        place(client)
    for _ in range(iterations):
        for client in draw.permutation(len(clients)):
            remove(client)
            place(client)
    return found


def summed(clients: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of each global unit the sum (G, D) and the number (G,) of what is assigned to it."""
    counts = np.bincount(np.concatenate(found))
    totals = np.zeros((len(counts), clients[0].shape[1]))
    for units, own in zip(clients, found, strict=True):
        totals[own] += units
    return totals, counts


def solver() -> Callable:
    """SciPy's Hungarian method; not part of the training core, so that only who matches needs it."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ModuleNotFoundError:
        raise UserError("algorithm fedma: needs scipy, which is not installed: `pip install scipy`") from None
    return linear_sum_assignment
