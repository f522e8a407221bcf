"""Resolution of settings into the configs of runs: scale overlays, a series' overrides, defaults of
every option."""

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

from fedrepro import algorithms, studies
from fedrepro.config import registry
from fedrepro.config.inheritance import merge
from fedrepro.config.params import EXPERIMENTS, SCALES, Experiment, Params, RunConfig
from fedrepro.config.types import Choice, parse
from fedrepro.core.errors import DataUnavailable, UserError, error_prefix, for_each, unknown_name
from fedrepro.data import datasets, partitions
from fedrepro.experiments import tuning
from fedrepro.runs.reasons import MissingKind, MissingReason
from fedrepro.training.batches import augmentation

# settings that are a name with options
CHOICES = ("dataset", "partition", "model", "algorithm", "schedule", "task")
# settings of an experiment that its runs do not share as training
NOT_TRAINING = {"series", "seeds", "studies", "tuning"}


def check_other_scales(params: Params) -> None:
    """Raise UserError for an invalid name or number at any other scale, so that it is noticed
    before that scale is run."""

    def check(place: tuple[Params, str, str]) -> None:
        if (overlay := place[0].overlay(*place[1:])) is not None:
            # missing data are a reason to leave the experiment out at that scale
            with contextlib.suppress(DataUnavailable), error_prefix_at_scale(*place) as where:
                _check(*place, overlay, where)

    others = [
        params.model_copy(update={"scale": name}) for name in params.scales if name != params.scale
    ]
    experiments = [
        (paper, name)
        for paper, settings in params.paper_settings.items()
        for name in settings.experiments
    ]
    for_each([(other, *experiment) for other in others for experiment in experiments], check)


@contextlib.contextmanager
def error_prefix_at_scale(params: Params, paper: str, name: str) -> Iterator[str]:
    """Yield the file and key of an experiment's settings at the active scale. If the block raises a
    UserError and the mistake is in the experiment without its scale's overlay, the error names
    experiments.yaml instead."""
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
    training = _with_overlay(params, paper, name, overlay, where)
    for label, choice in training.series.items():
        choice = tuning.with_values(
            choice, tuning.first_values(training, choice, f"{where}: series.{label}")
        )
        # the seed does not matter
        config = next(run_configs(params, training, choice, f"{where}: series.{label}"))
        for study, settings in training.studies.items():
            if settings is not None:
                check_study(study, settings, config, where)


def experiment_at_scale(
    params: Params, paper: str, name: str, where: str
) -> Experiment | MissingReason:
    """Return an experiment with the active scale's overlay, or the reason why the scale leaves it
    out."""
    overlay = params.overlay(paper, name)
    if overlay is not None:
        return _with_overlay(params, paper, name, overlay, where)
    others = [scale for scale in params.scales if params.overlay(paper, name, scale) is not None]
    advice = (
        f"run it at scale {' or '.join(others)}"
        if others
        else f"{params.paper_settings[paper].folder / SCALES} may list it"
    )
    return MissingReason(MissingKind.LEFT_OUT, f"not part of scale {params.scale}; {advice}")


def _with_overlay(
    params: Params, paper: str, name: str, overlay: dict[str, Any], where: str
) -> Experiment:
    values = params.paper_settings[paper].experiments[name]
    _check_series(values, overlay, where)
    training = parse(Experiment, merge(values, overlay), where)
    # so that a misspelt one is noticed before its runs are trained
    for study, settings in training.studies.items():
        with error_prefix(where):
            studies.settings(study, settings)
    seeds = training.seeds or params.active_scale.seeds
    if training.tuning and (both := sorted({*seeds} & {*training.tuning.seeds})):
        raise UserError(
            f"{where}: tuning.seeds: {both[0]} is a seed of the evaluation too. Choose others."
        )
    return training


def _check_series(values: dict[str, Any], overlay: dict[str, Any], where: str) -> None:
    """Raise UserError if an overlay changes a series that the experiment does not have, without
    naming a method for it."""
    existing, changed = values.get("series"), overlay.get("series")
    existing, changed = (
        series if isinstance(series, dict) else {} for series in (existing, changed)
    )
    for label, choice in changed.items():
        if label not in existing and isinstance(choice, dict) and "name" not in choice:
            raise UserError(f"{where}: {unknown_name('series', label, list(existing))}")


def check_study(name: str, values: dict[str, Any], config: RunConfig, where: str) -> None:
    """Raise UserError, beginning with `where`, if a study's settings do not suit a run with this
    config."""
    with error_prefix(f"{where}: studies.{name}"):
        studies.create(name, values, config).check()


def run_configs(
    params: Params, training: Experiment, choice: Choice, where: str
) -> Iterator[RunConfig]:
    """Yield the resolved config of a series for each seed, on which no other setting depends."""
    options = dict(choice.options)
    shared = merge(
        training.model_dump(exclude=NOT_TRAINING), _overrides(options.pop("overrides", {}), where)
    )
    first, *others = training.seeds or params.active_scale.seeds
    config = parse(
        RunConfig, shared | {"algorithm": {"name": choice.name, **options}, "seed": first}, where
    )
    with error_prefix(where):
        config = resolve(config)
        _check_config(config)
    yield config
    for seed in others:
        yield config.model_copy(update={"seed": seed})


def _check_config(config: RunConfig) -> None:
    """Raise UserError for settings that do not suit each other, as far as that needs no data."""
    shape, train, test = datasets.extent(config.dataset)
    augmentation.check(config, shape[0], datasets.contents(config.dataset).real)
    for key, images, available in (
        ("train_images", config.train_images, train),
        ("test_images", config.test_images, test),
    ):
        if images and images > available:
            raise UserError(f"{key}: {config.dataset.name} has {available} (got {images})")
    clients, images = config.partition.options["clients"], config.train_images or train
    if clients > images:
        raise UserError(
            f"partition.clients: at most the {images} train images of {config.dataset.name} (got "
            f"{clients})"
        )
    left = images - partitions.validation_size(config.validation, images)
    if config.validation and clients > left:
        raise UserError(
            f"validation.share: leaves {left} images for {clients} clients (got "
            f"{config.validation.share:g})"
        )
    if config.proxy and config.proxy.removed:
        free, left = left, left - partitions.proxy_size(config.proxy, images)
        if clients > left:
            problem = (
                f"removed: true takes its images from the clients' {free}, and leaves "
                f"{left} for {clients} clients"
            )
            raise UserError(f"proxy.share: {problem} (got {config.proxy.share:g})")
    classes = len(datasets.classes(config.dataset))
    partitions.check_extent(config.partition, train, test)
    partitions.check(config.partition, left, classes, datasets.contents(config.dataset).devices)
    algorithms.check(config, classes)


def _overrides(values: Any, where: str) -> dict[str, Any]:
    """Check the training settings that a series overrides."""
    if not isinstance(values, dict):
        raise UserError(f"{where}.overrides: Input should be a valid dictionary (got {values!r})")
    if refused := {"seed", "algorithm", *NOT_TRAINING} & set(values):
        raise UserError(
            f"{where}: overrides: {', '.join(sorted(refused))} cannot be set for one series"
        )
    return values


def resolve(config: RunConfig, own: Collection[str] = ()) -> RunConfig:
    """Return a config with every option of every choice written out, except of kinds in `own`,
    which have no registered name. Raises UserError for an unknown name or option."""
    filled: dict[str, Choice] = {}
    for kind in (kind for kind in CHOICES if kind not in own):
        choice = getattr(config, kind)
        filled[kind] = Choice(
            name=choice.name, **registry.parse_options(f"{kind}s", choice).model_dump(mode="json")
        )
    resolved = config.model_copy(update=filled)
    clients = filled["partition"].options["clients"]
    if resolved.clients_per_round > clients:
        raise UserError(
            f"clients_per_round: at most the {clients} clients of the partition (got "
            f"{resolved.clients_per_round})"
        )
    name = resolved.algorithm.name
    method = registry.find("algorithms", name)
    if resolved.optimizer != "sgd" and method.assumes_sgd:
        raise UserError(
            f"optimizer: {name} assumes that clients train by SGD (got adam). Set optimizer: sgd"
        )
    if resolved.keep_momentum and not method.supports_kept_momentum:
        raise UserError(
            f"keep_momentum: {name} starts each round with zero momentum (got true). Set "
            f"keep_momentum: false"
        )
    if (
        filled["partition"].options.get("permute_pixels")
        and resolved.validation
        and not resolved.validation.per_client
    ):
        raise UserError(
            "validation: its images have a pixel order that no client has. Set "
            "validation.per_client: true"
        )
    return resolved
