"""The claims of all papers as they would be decided at each scale, for `registered.json`."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedrepro import studies
from fedrepro.config.params import Params
from fedrepro.core.errors import DataUnavailable
from fedrepro.experiments import resolve, tuning
from fedrepro.report import paper as spec
from fedrepro.report.inputs.panel import split_results_name
from fedrepro.report.paper import Paper
from fedrepro.report.quantities.base import Quantity
from fedrepro.report.verdicts import registration
from fedrepro.report.verdicts.registration import Entry
from fedrepro.runs import gather
from fedrepro.runs.reasons import MissingReason


def texts(params: Params) -> dict[Path, str]:
    """Return the content of each paper's registered.json by its path."""
    found = {}
    for paper, own in spec.read_papers(params).items():
        scales = [name for name, scale in params.scales.items() if scale.compare != "none"]
        entries = {
            scale: _entries(params.model_copy(update={"scale": scale}), paper, own)
            for scale in scales
        }
        found[params.paper_settings[paper].folder / registration.REGISTERED] = registration.to_text(
            entries
        )
    return found


def _entries(params: Params, paper: str, own: Paper) -> dict[str, Entry]:
    """Return the entries of the claims that the active scale can decide, by key."""
    entries = {}
    for key, claim in own.claims.items():
        scales = (params.scale, *params.inherited_scales)
        quantity = next(
            (claim.scales[scale] for scale in scales if scale in claim.scales), claim.quantity
        )
        # of data of one's own that are not here no settings are known
        with contextlib.suppress(DataUnavailable):
            series = {name: _series(params, paper, name, quantity) for name in claim.sources}
            if all(series.values()):
                display = claim.ref.resolved(own.experiments)
                entries[key] = registration.claim_entry(
                    claim, quantity, display, params.active_scale.compare, series
                )
    return entries


def _series(
    params: Params, paper: str, name: str, quantity: Quantity
) -> dict[str, registration.Series]:
    """Return the series of results that a quantity needs, by label; none if the scale does not run
    or tune them."""
    experiment, study = split_results_name(name)
    with resolve.error_prefix_at_scale(params, paper, experiment) as where:
        training = resolve.experiment_at_scale(params, paper, experiment, where)
        chosen = params.chosen(paper, experiment)
        if isinstance(training, MissingReason) or tuning.untuned(training, chosen):
            return {}
        settings = studies.settings(study, training.studies.get(study)) if study else None
        if study and settings is None:
            return {}
        stored = settings and settings.model_dump(mode="json")
        series = {}
        for label, choice in training.series.items():
            if label in quantity.labels:
                choice = tuning.with_values(
                    choice, chosen[label].values if tuning.TUNE in choice.options else {}
                )
                configs = list(
                    resolve.run_configs(params, training, choice, f"{where}: series.{label}")
                )
                seeds = [config.seed for config in configs]
                series[label] = registration.series_entry(
                    configs[0].model_dump(mode="json"), seeds, stored
                )
        return series


def core_hours(entry: Entry, kept: Iterable[dict[str, Any]]) -> float:
    """Return the core hours that the training of a claim's runs took.

    Args:
        entry: of the claim in registered.json.
        kept: records of kept runs.
    """
    series = [one for group in entry["series"].values() for one in group.values()]
    seconds = [
        gather.core_seconds(record)
        for record in kept
        if any(
            record["config"] == one["settings"] | {"seed": record["config"]["seed"]}
            and record["config"]["seed"] in one["seeds"]
            for one in series
        )
    ]
    return sum(filter(None, seconds)) / 3600
