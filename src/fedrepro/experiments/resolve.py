"""From settings to the configs of runs: an experiment at a scale, a series' own settings, every option written out."""

import contextlib
from collections.abc import Iterator
from typing import Any

from fedrepro import algorithms, studies
from fedrepro.config import registry
from fedrepro.config.inheritance import merge
from fedrepro.config.params import EXPERIMENTS, SCALES, Experiment, Params, RunConfig
from fedrepro.config.types import Choice, parse
from fedrepro.core.errors import DataUnavailable, UserError, error_prefix, unknown_name
from fedrepro.data import datasets, partitions
from fedrepro.runs.reasons import MissingKind, MissingReason
from fedrepro.training.batches import augmentation

CHOSEN = ("dataset", "partition", "model", "algorithm", "schedule", "task")  # by name, each with options of its own
BESIDE = {"series", "seeds", "studies"}  # what an experiment says beside the training that its runs share


def check(params: Params) -> None:
    """Raise UserError for a name or number that cannot be at one of the scales that are not asked for: so that nobody learns of
    it when that one begins."""
    for scale in [name for name in params.scales if name != params.scale]:
        other = params.model_copy(update={"scale": scale})
        for paper, settings in params.paper_settings.items():
            for name in settings.experiments:
                if (overlay := other.overlay(paper, name)) is not None:
                    with error_prefix_at_scale(other, paper, name) as where:
                        _check(other, paper, name, overlay, where)


@contextlib.contextmanager
def error_prefix_at_scale(params: Params, paper: str, name: str) -> Iterator[str]:
    """Give the file and key of an experiment at the active scale. A UserError of the block is raised again as one about
    experiments.yaml where the experiment alone has the mistake."""
    folder, overlay = params.paper_settings[paper].folder, params.overlay(paper, name)
    alone = f"{folder / EXPERIMENTS}: {name}"
    try:
        yield f"{folder / SCALES}: {params.scale}.{name}" if overlay else alone
    except DataUnavailable:
        raise
    except UserError:
        if overlay:
            _check(params, paper, name, {}, alone)
        raise


def _check(params: Params, paper: str, name: str, overlay: dict[str, Any], where: str) -> None:
    training = _laid_over(params, paper, name, overlay, where)
    for label, choice in training.series.items():
        config = next(run_configs(params, training, choice, f"{where}: series.{label}"))  # the seed has no say in it
        for study, settings in training.studies.items():
            if settings is not None:
                check_study(study, settings, config, where)


def experiment_at_scale(params: Params, paper: str, name: str, where: str) -> Experiment | MissingReason:
    """An experiment with the active scale's overlay; where that does not list it, why."""
    overlay = params.overlay(paper, name)
    if overlay is not None:
        return _laid_over(params, paper, name, overlay, where)
    others = [scale for scale in params.scales if params.overlay(paper, name, scale) is not None]
    advice = (
        f"run it at scale {' or '.join(others)}" if others else f"{params.paper_settings[paper].folder / SCALES} may list it"
    )
    return MissingReason(MissingKind.LEFT_OUT, f"not part of scale {params.scale}; {advice}")


def _laid_over(params: Params, paper: str, name: str, overlay: dict[str, Any], where: str) -> Experiment:
    values = params.paper_settings[paper].experiments[name]
    _check_series(values, overlay, where)
    training = parse(Experiment, merge(values, overlay), where)
    for study, settings in training.studies.items():  # so that nobody learns of a misspelt one after the runs that it looks at
        with error_prefix(where):
            studies.settings(study, settings)
    return training


def _check_series(values: dict, overlay: dict, where: str) -> None:
    """That what an overlay changes of a series, and does not name a method for, is there to be changed."""
    known, changed = (given.get("series") if isinstance(given.get("series"), dict) else {} for given in (values, overlay))
    for label, choice in changed.items():
        if label not in known and isinstance(choice, dict) and "name" not in choice:
            raise UserError(f"{where}: {unknown_name('series', label, list(known))}")


def check_study(name: str, values: dict[str, Any], config: RunConfig, where: str) -> None:
    """That a run with this config can meet a study's settings. Raises UserError, beginning with `where`."""
    with error_prefix(f"{where}: studies.{name}"):
        studies.create(name, values, config).check()


def run_configs(params: Params, training: Experiment, choice: Choice, where: str) -> Iterator[RunConfig]:
    """One per seed, resolved."""
    shared = training.model_dump(exclude=BESIDE)
    own = dict(choice.options)
    shared = merge(shared, _overrides(own.pop("overrides", {}), where))
    for seed in training.seeds or params.active_scale.seeds:
        values = shared | {"algorithm": {"name": choice.name, **own}, "seed": seed}
        config = parse(RunConfig, values, where)
        with error_prefix(where):
            config = resolve(config)
            _suited(config)
        yield config


def _suited(config: RunConfig) -> None:
    """What can be told before any data are there; the rest fails when the partition is drawn."""
    shape, train, test = datasets.extent(config.dataset)
    augmentation.check(config, shape[0], datasets.is_real(config.dataset))
    for key, asked, there in (("train_images", config.train_images, train), ("test_images", config.test_images, test)):
        if asked and asked > there:
            raise UserError(f"{key}: {config.dataset.name} has {there} (got {asked})")
    clients, images = config.partition.options["clients"], config.train_images or train
    if clients > images:
        raise UserError(f"partition.clients: at most the {images} train images of {config.dataset.name} (got {clients})")
    left = images - partitions.proxy_size(config.proxy, images) if config.proxy and config.proxy.removed else images
    if clients > left:
        told = f"removed: true takes its images from the clients' {images}, and leaves {left} for {clients} clients"
        raise UserError(f"proxy.share: {told} (got {config.proxy.share:g})")
    classes = len(datasets.classes(config.dataset))
    partitions.check(config.partition, left, classes, datasets.has_devices(config.dataset))
    algorithms.check(config, classes)


def _overrides(values: Any, where: str) -> dict[str, Any]:
    """What a series sets for itself beside its algorithm's options."""
    if not isinstance(values, dict):
        raise UserError(f"{where}: with: expected settings of the training, e.g. {{lr: 0.01}} (got {values!r})")
    if refused := {"seed", "algorithm", *BESIDE} & set(values):
        raise UserError(f"{where}: with: {', '.join(sorted(refused))} cannot be set for one series")
    return values


def resolve(config: RunConfig) -> RunConfig:
    """With every option of every choice written out. Raises UserError for an unknown name or option."""
    filled = {
        kind: {"name": choice.name, **registry.parse_options(f"{kind}s", choice).model_dump(mode="json")}
        for kind, choice in ((kind, getattr(config, kind)) for kind in CHOSEN)
    }
    resolved = parse(RunConfig, config.model_dump() | filled, "run")
    clients = filled["partition"]["clients"]
    if resolved.clients_per_round > clients:
        raise UserError(f"clients_per_round: at most the {clients} clients of the partition (got {resolved.clients_per_round})")
    if resolved.keep_momentum and not registry.find("algorithms", resolved.algorithm.name).Algorithm.keeps_momentum:
        raise UserError(f"keep_momentum: {resolved.algorithm.name} begins each round without (got true)")
    return resolved
