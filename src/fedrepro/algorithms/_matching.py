"""Matching of the units of several networks in one layer: MAP inference of PFNM.

Yurochkin et al., Bayesian Nonparametric Federated Learning of Neural Networks, ICML 2019, Eqs. 8-9.
A unit v (D,) of a client is a noisy copy of a global one: v ~ N(theta, sigma), theta ~ N(mu,
sigma0), where sigma and sigma0 are variances. Which global units a client has follows a
Beta-Bernoulli process of mass gamma. Given all other clients, the best assignment of one client's
units is a linear one. With S_i and n_i the sum and number of the others' units assigned to global
unit i, and J clients in all, the gain of assigning v is

    to i        |mu/sigma0 + S_i/sigma + v/sigma|^2 / (1/sigma0 + (n_i + 1)/sigma)
                - |mu/sigma0 + S_i/sigma|^2 / (1/sigma0 + n_i/sigma)  +  2 log(n_i / (J - n_i))
    to a new    |mu/sigma0 + v/sigma|^2 / (1/sigma0 + 1/sigma)  -  |mu/sigma0|^2 sigma0  +  2
    log(gamma / J)  -  2 log(k)

for the k-th new global unit of this client. Clients are assigned in turn, for the given number of
iterations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

MAX_POPULARITY = 10  # clients that the code counts at most
WIDEST = 700  # units, from which on the code lets a client add only one


@dataclass(frozen=True)
class Prior:
    """The prior of global units.

    `mean`: mu (D,); `popularity`: `paper`, as above, or `code`, as in FedMA's: log(n / (J - n))
    once, with n at most 10; `grow`: whether a client may add units if its own fit the existing
    ones.
    """

    mean: np.ndarray
    sigma: float
    sigma0: float
    gamma: float
    popularity: str = "paper"
    grow: bool = True

    def gains(
        self, units: np.ndarray, totals: np.ndarray, counts: np.ndarray, clients: int
    ) -> np.ndarray:
        """Return the gain (L, G + new ones) of assigning each of a client's `units` (L, D) to each
        global unit.

        The gain is twice the log posterior, without terms that all assignments share. `totals` (G,
        D) and `counts` (G,) are sum and number of the other clients' units that are assigned to a
        global unit."""
        base = self.mean / self.sigma0
        others, scaled = base + totals / self.sigma, units / self.sigma
        precision = 1 / self.sigma0 + counts / self.sigma
        squares = (others**2).sum(1)
        with_unit = (scaled**2).sum(1)[:, None] + 2 * _product(scaled, others.T) + squares
        matched = (
            with_unit / (precision + 1 / self.sigma)
            - squares / precision
            + self._popularity_gain(counts, clients)
        )
        new = ((base + scaled) ** 2).sum(1) / (1 / self.sigma0 + 1 / self.sigma) - (
            base**2
        ).sum() * self.sigma0
        ranks = np.arange(1, self._new_units(len(units), len(counts)) + 1)
        return np.hstack(
            [matched, new[:, None] + 2 * np.log(self.gamma / clients) - 2 * np.log(ranks)]
        )

    def _popularity_gain(self, counts: np.ndarray, clients: int) -> np.ndarray:
        if self.popularity == "code":
            counts = np.minimum(counts, MAX_POPULARITY)
            return np.log(counts / (clients - counts))
        return 2 * np.log(counts / (clients - counts))

    def _new_units(self, units: int, existing: int) -> int:
        """Return how many global units a client may add; at least as many as its own need."""
        allowed = min(units, max(WIDEST - existing, 1)) if self.grow else 0
        return max(allowed, units - existing)

    def unit(self, totals: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the posterior means of the global units (G, D)."""
        return (self.mean / self.sigma0 + totals / self.sigma) / (
            1 / self.sigma0 + counts / self.sigma
        )[:, None]


def _product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Multiply two matrices by torch, which uses one thread here. numpy's library uses as many as
    the environment says, and their number changes the rounding, which decides between units that
    are equally near."""
    return (torch.from_numpy(one) @ torch.from_numpy(other)).numpy()


def match(
    clients: Sequence[np.ndarray], prior: Prior, iterations: int, draw: np.random.Generator
) -> list[np.ndarray]:
    """Assign each client's units (L_j, D) to global units; returns their numbers (L_j,) for each
    client.

    The numbers start at 0 without gaps; no client has one twice."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    assigned = [np.empty(0, int) for _ in clients]
    totals, counts = np.empty((0, clients[0].shape[1])), np.empty(0, int)

    def place(client: int) -> None:
        nonlocal totals, counts
        _, columns = linear_sum_assignment(
            prior.gains(clients[client], totals, counts, len(clients)), maximize=True
        )
        new = columns >= len(counts)
        assigned[client] = np.where(new, len(counts) + np.cumsum(new) - 1, columns)
        totals = np.pad(totals, ((0, new.sum()), (0, 0)))
        counts = np.pad(counts, (0, new.sum()))
        totals[assigned[client]] += clients[client]
        counts[assigned[client]] += 1

    def remove(client: int) -> None:
        nonlocal totals, counts
        totals[assigned[client]] -= clients[client]
        counts[assigned[client]] -= 1
        kept = counts > 0
        assigned[client] = np.empty(0, int)
        assigned[:] = [(np.cumsum(kept) - 1)[numbers] for numbers in assigned]
        totals, counts = totals[kept], counts[kept]

    for client in sorted(range(len(clients)), key=lambda client: -len(clients[client])):
        place(client)
    for _ in range(iterations):
        for client in draw.permutation(len(clients)):
            remove(client)
            place(client)
    return assigned


def sum_assigned(
    clients: Sequence[np.ndarray], assigned: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum (G, D) and the number (G,) of the units that are assigned to each global
    unit."""
    counts = np.bincount(np.concatenate(assigned))
    totals = np.zeros((len(counts), clients[0].shape[1]))
    for units, numbers in zip(clients, assigned, strict=True):
        totals[numbers] += units
    return totals, counts
