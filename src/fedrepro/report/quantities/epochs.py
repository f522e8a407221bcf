"""The epochs of local training that new clients need to reach a target, from the study `newcomers`: the mean over the new
clients of a run, if all of them reach it. With a `baseline` the saving, 1 - epochs(series) / epochs(baseline)."""

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

    def missing(self, view: ExperimentView) -> list[Reason]:
        epochs = {label: means(view.results, label) for label in self.labels}
        if not epochs[self.series]:
            return [make_reason(ReasonKind.UNMEASURED, what="new clients", series=self.series)]
        untrained = self.baseline and 0 in epochs[self.baseline].values()
        return base.unpaired_seeds(epochs) or ([make_reason(ReasonKind.NO_TRAINING, series=self.baseline)] if untrained else [])

    def missed_target(self, view: ExperimentView) -> list[Reason]:
        return late_clients(view.results, self.labels)

    def values(self, view: ExperimentView) -> list[float]:
        epochs, *baseline = (means(view.results, label) for label in self.labels)
        return [1 - epochs[seed] / baseline[0][seed] for seed in epochs] if baseline else list(epochs.values())

    def target_margins(self, view: ExperimentView, label: str) -> list[float]:
        return margins(view.results, label)

    def arrivals_text(self, view: ExperimentView, label: str) -> str:
        epochs = [epoch for clients in epochs_to_target(view.results, label).values() for epoch in clients.values()]
        return f"{len(epochs) - epochs.count(None)} of {len(epochs)} new clients"


def epochs_to_target(results: Results, label: str) -> dict[int, dict[int, int | None]]:
    """Return seed -> client -> the first epoch at which its own-test accuracy reaches the study's target, None if it never
    does. Diverged runs are left out."""
    target = results.settings["target"]
    epochs: dict[int, dict[int, int | None]] = defaultdict(dict)
    for row in results.rows_without_diverged(label):
        clients, client = epochs[int(row["seed"])], int(row["client"])
        clients.setdefault(client, None)
        if clients[client] is None and float(row["accuracy"]) >= target - EPSILON:
            clients[client] = int(row["epoch"])
    return dict(epochs)


def means(results: Results, label: str) -> dict[int, float]:
    """Return seed -> mean epochs over its new clients; infinite if one of them never reaches the target."""
    return {
        seed: sum(math.inf if epoch is None else epoch for epoch in clients.values()) / len(clients)
        for seed, clients in sorted(epochs_to_target(results, label).items())
    }


def margins(results: Results, label: str) -> list[float]:
    """Return per seed how much the worst new client's best accuracy exceeds the target."""
    best: dict[str, dict[str, float]] = defaultdict(dict)
    for row in results.rows_without_diverged(label):
        clients, client = best[row["seed"]], row["client"]
        clients[client] = max(clients.get(client, 0.0), float(row["accuracy"]))
    return [min(clients.values()) - results.settings["target"] for clients in best.values()]


def late_clients(results: Results, labels: list[str]) -> list[Reason]:
    """Return a reason for each seed of which some new clients do not reach the target."""
    settings, reasons = results.settings, []
    limits = {"target": f"{100 * settings['target']:g} %", "epochs": settings["epochs"]}
    for label in labels:
        for seed, clients in epochs_to_target(results, label).items():
            if missing := list(clients.values()).count(None):
                values = {"missing": missing, "total": len(clients), "series": label} | limits
                reasons.append(Reason(ReasonKind.CLIENTS_LATE, values, (seed,)))
    return reasons
