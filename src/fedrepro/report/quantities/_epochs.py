"""When new clients arrive: read from the gathered results of the study `newcomers`."""

import math
from collections import defaultdict

from fedrepro.report.inputs.gathered import Results
from fedrepro.report.reasons import Reason, Why
from fedrepro.report.statistics import SLACK

STUDY = "newcomers"


def arrivals(results: Results, label: str) -> dict[int, dict[int, int | None]]:
    """Seed -> client -> epochs until its own-test accuracy first is at the study's target; None where it never is. A diverged
    run has none."""
    target = results.settings["target"]
    found: dict[int, dict[int, int | None]] = defaultdict(dict)
    for row in results.good(label):
        seed, client = int(row["seed"]), int(row["client"])
        found[seed].setdefault(client, None)
        if found[seed][client] is None and float(row["accuracy"]) >= target - SLACK:
            found[seed][client] = int(row["epoch"])
    return dict(found)


def means(results: Results, label: str) -> dict[int, float]:
    """Seed -> mean epochs over its new clients; infinite where one of them does not arrive."""
    return {
        seed: sum(math.inf if epoch is None else epoch for epoch in clients.values()) / len(clients)
        for seed, clients in sorted(arrivals(results, label).items())
    }


def margins(results: Results, label: str) -> list[float]:
    """For each seed by how much the best accuracy of the new client that learns least lies above the target."""
    best: dict[str, dict[str, float]] = defaultdict(dict)
    for row in results.good(label):
        own = best[row["seed"]]
        own[row["client"]] = max(own.get(row["client"], 0.0), float(row["accuracy"]))
    return [min(clients.values()) - results.settings["target"] for clients in best.values()]


def late(results: Results, labels: list[str]) -> list[Reason]:
    """Whose new clients do not all arrive."""
    settings = results.settings
    limits = {"target": f"{100 * settings['target']:g} %", "epochs": settings["epochs"]}
    return [
        Reason(Why.CLIENTS_LATE, {"missing": missing, "total": len(clients), "series": label} | limits, (seed,))
        for label in labels
        for seed, clients in arrivals(results, label).items()
        if (missing := list(clients.values()).count(None))
    ]
