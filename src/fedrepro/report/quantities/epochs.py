"""Epochs of local training that new clients need, from the study `newcomers`: the mean over those of a run, only where all of
them arrive; with a `baseline` the saving, 1 - epochs(series) / epochs(baseline), of the same seed."""

import math
from collections import defaultdict
from typing import ClassVar

from fedrepro.core.metrics import Measure
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import ExperimentView
from fedrepro.report.numbers import EPOCHS
from fedrepro.report.quantities import base
from fedrepro.report.reasons import Reason, ReasonKind, make_reason
from fedrepro.report.statistics import EPSILON

STUDY = "newcomers"


class Quantity(base.CountedQuantity):
    study: ClassVar = STUDY
    counted: ClassVar = EPOCHS

    def label(self, measure: Measure) -> str:
        return f"epochs saved against {self.baseline} (%)" if self.baseline else "epochs of new clients"

    def missing(self, panel: ExperimentView) -> list[Reason]:
        found = {label: means(panel.results, label) for label in self.labels}
        if not found[self.series]:
            return [make_reason(ReasonKind.UNMEASURED, what="new clients", series=self.series)]
        idle = self.baseline and 0 in found[self.baseline].values()
        return base.unpaired_seeds(found) or ([make_reason(ReasonKind.NO_TRAINING, series=self.baseline)] if idle else [])

    def missed_target(self, panel: ExperimentView) -> list[Reason]:
        return late_clients(panel.results, self.labels)

    def values(self, panel: ExperimentView) -> list[float]:
        method, *other = (means(panel.results, label) for label in self.labels)
        return [1 - method[seed] / other[0][seed] for seed in method] if other else list(method.values())

    def target_margins(self, panel: ExperimentView, label: str) -> list[float]:
        return margins(panel.results, label)

    def arrivals_text(self, panel: ExperimentView, label: str) -> str:
        epochs = [epoch for clients in epochs_to_target(panel.results, label).values() for epoch in clients.values()]
        return f"{len(epochs) - epochs.count(None)} of {len(epochs)} new clients"


def epochs_to_target(results: Results, label: str) -> dict[int, dict[int, int | None]]:
    """Seed -> client -> epochs until its own-test accuracy first is at the study's target; None where it never is. A diverged
    run has none."""
    target = results.settings["target"]
    found: dict[int, dict[int, int | None]] = defaultdict(dict)
    for row in results.finished_rows(label):
        seed, client = int(row["seed"]), int(row["client"])
        found[seed].setdefault(client, None)
        if found[seed][client] is None and float(row["accuracy"]) >= target - EPSILON:
            found[seed][client] = int(row["epoch"])
    return dict(found)


def means(results: Results, label: str) -> dict[int, float]:
    """Seed -> mean epochs over its new clients; infinite where one of them does not arrive."""
    return {
        seed: sum(math.inf if epoch is None else epoch for epoch in clients.values()) / len(clients)
        for seed, clients in sorted(epochs_to_target(results, label).items())
    }


def margins(results: Results, label: str) -> list[float]:
    """For each seed by how much the best accuracy of the new client that learns least lies above the target."""
    best: dict[str, dict[str, float]] = defaultdict(dict)
    for row in results.finished_rows(label):
        own = best[row["seed"]]
        own[row["client"]] = max(own.get(row["client"], 0.0), float(row["accuracy"]))
    return [min(clients.values()) - results.settings["target"] for clients in best.values()]


def late_clients(results: Results, labels: list[str]) -> list[Reason]:
    """Whose new clients do not all arrive."""
    settings = results.settings
    limits = {"target": f"{100 * settings['target']:g} %", "epochs": settings["epochs"]}
    return [
        Reason(ReasonKind.CLIENTS_LATE, {"missing": missing, "total": len(clients), "series": label} | limits, (seed,))
        for label in labels
        for seed, clients in epochs_to_target(results, label).items()
        if (missing := list(clients.values()).count(None))
    ]
