"""Everything a user may set, as frozen models that refuse unknown keys. The only reader of params.yaml.

`RunConfig` is one training run, fully resolved: two runs are the same run exactly if their configs and their data are the same.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from fedrepro.config.inheritance import inherited, merge
from fedrepro.config.types import (
    Change,
    Choice,
    Count,
    Device,
    Executor,
    Fraction,
    Frozen,
    Key,
    Listed,
    Measures,
    NonNegative,
    Numbers,
    PlainChoice,
    Positive,
    Seed,
    Seeds,
    Share,
    parse,
)
from fedrepro.core.errors import not_among
from fedrepro.core.metrics import USUAL


class Gpus(NamedTuple):
    """Which GPUs jobs may take, by torch's numbers (None: all), and how many jobs share one."""

    numbers: tuple[int, ...] | None = None
    jobs: int = 1


class Proxy(Frozen):
    """Training images that the server holds: a random `share` of those in use, the same for every method of a seed."""

    share: Share
    batch_size: Count = 64  # of estimates on them, and of those that clients make on their own images
    augment: bool = False  # as the clients do; drawn anew every round
    removed: bool = False  # from what clients are dealt; else some hold these images too


class Scaling(Frozen):
    """What becomes of pixels, 0 to 255: a plain name, or `normalised` with moments of one's own."""

    name: Literal["raw", "unit", "half", "standardised", "normalised"]
    # per channel, of pixels as 0 to 1; None: the training images'
    mean: Annotated[tuple[Fraction, ...], Field(min_length=1), Listed] | None = None
    std: Annotated[tuple[Positive, ...], Field(min_length=1), Listed] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _moments_belong_together(self) -> "Scaling":
        mean, std = self.mean, self.std
        if (mean is None) != (std is None) or (mean and std and len(mean) != len(std)):
            raise ValueError("mean and std: both, one number per channel each, or neither")
        if mean and self.name != "normalised":
            raise ValueError(f"mean and std: of normalised alone (got {self.name})")
        return self

    @model_serializer(mode="wrap")
    def _plain(self, written: SerializerFunctionWrapHandler) -> Any:
        return written(self) if self.mean else self.name

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"enum": list(get_args(cls.model_fields["name"].annotation))}, handler(core)]}


class Training(Frozen):
    """What every series of an experiment shares; defaults are FedAvg's plainest form."""

    dataset: PlainChoice
    train_images: Count | None = None  # keep only the first n of a fixed shuffle (scales small and quick)
    test_images: Count | None = None
    inputs: Scaling = Scaling(name="unit")
    augment: tuple[Change, ...] = ()
    partition: Choice
    model: Choice
    clients_per_round: Count
    rounds: Count
    local_epochs: Count
    batch_size: Count
    lr: Positive
    schedule: Choice = Choice(name="constant")  # of the rate, from round to round
    momentum: Fraction = 0.0
    keep_momentum: bool = False  # a client goes on with it when it takes part next; else each round begins without
    nesterov: bool = False
    weight_decay: NonNegative = 0.0
    weighting: Literal["uniform", "samples"] = "uniform"
    task: Choice = Choice(name="classification")
    proxy: Proxy | None = None
    measures: Measures = USUAL
    evaluate_every: Count = 1
    precision: Literal["float32", "float64", "tf32", "bfloat16"] = "float32"

    @model_validator(mode="after")
    def _has_momentum(self) -> "Training":
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov: true needs a momentum above 0")
        if self.keep_momentum and self.momentum == 0:
            raise ValueError("keep_momentum: true needs a momentum above 0")
        return self


class Dealing(Frozen):
    """All of a run's settings that decide who holds which images."""

    dataset: PlainChoice
    train_images: Count | None
    test_images: Count | None
    partition: Choice
    proxy: Proxy | None
    seed: Seed


class RunConfig(Training):
    """One run: one algorithm, one seed."""

    algorithm: Choice
    seed: Seed

    @property
    def dealing(self) -> Dealing:
        return Dealing.model_validate(self.model_dump(include=set(Dealing.model_fields)))


class Experiment(Training):
    """A `Training` with its series: label -> algorithm; the label names the series in every artifact.

    `series` entries may override fields of the training for that series alone through `with`, e.g. a calibration over rates:
    `{name: fedavg, with: {lr: 0.01}}`.
    """

    series: dict[str, Choice]
    seeds: Seeds | None = None
    studies: dict[str, dict[str, Any] | None] = {}  # study -> its settings; null: not here

    @model_validator(mode="after")
    def _has_series(self) -> "Experiment":
        if not self.series:
            raise ValueError("an experiment needs at least one series")
        if unseen := [label for label in self.series if not label.strip() or label.startswith("_")]:
            raise ValueError(f"series: '{unseen[0]}' would be hidden from legends: a name must not be empty or start with _")
        return self


def _check_series(where: str, series: Any) -> None:
    """Raise ValueError for what names no methods. Pages assign looks to all series, also of experiments that a scale skips."""
    if not isinstance(series, dict) or not all(isinstance(label, str) for label in series):
        raise ValueError(f"{where}: expected names of series, each with its method")
    for label, given in series.items():
        if not isinstance(given.get("name", "") if isinstance(given, dict) else given, str):
            raise ValueError(f"{where}.{label}: expected a method, such as fedavg or {{name: fedprox, mu: 0.1}}")


class Scale(Frozen):
    """How large to run: an overlay on every experiment, and how far its numbers may be held against a paper's."""

    like: str | None = None  # another scale, over which this one is laid
    seeds: Seeds
    compare: Literal["none", "direction", "full"]
    note: str
    experiments: dict[str, dict[str, dict[str, Any]]] = {}  # paper -> experiment -> overlay; {skip: reason} leaves one out

    @field_validator("experiments")
    @classmethod
    def _inherit(cls, papers: dict[str, dict]) -> dict[str, dict]:
        return {paper: inherited(overlays, paper) for paper, overlays in papers.items()}


class Params(Frozen):
    """params.yaml."""

    scale: str = "quick"
    data_mirror: str | None = None
    device: Device = "auto"
    devices: Numbers | None = None  # the GPUs that may be used; None: all
    gpu_jobs_per_device: Count = 1
    executor: Executor = "auto"  # not what is learnt, but how
    cores_per_run: Count = 1  # likewise
    checkpoint_seconds: NonNegative = 30
    kept: bool = True  # results/kept answers; false: whoever trains, trains all of it
    only_finished: bool = False  # report the series that are finished, of experiments that have two or all of theirs
    mlflow_uri: str = "sqlite:///mlflow.db"
    scales: dict[Key, Scale]
    papers: dict[Key, dict[Key, dict[str, Any]]]

    @field_validator("scales", mode="before")
    @classmethod
    def _laid_over(cls, scales: Any) -> Any:
        if not isinstance(scales, dict) or not all(isinstance(scale, dict) for scale in scales.values()):
            return scales  # told below
        whole = inherited(scales, "scales", "scale")
        return {name: whole[name] | ({"like": scale["like"]} if "like" in scale else {}) for name, scale in scales.items()}

    @field_validator("papers")
    @classmethod
    def _inherit(cls, papers: dict[str, dict]) -> dict[str, dict]:
        whole = {paper: inherited(experiments, paper) for paper, experiments in papers.items()}
        for paper, experiments in whole.items():
            for name, values in experiments.items():
                _check_series(f"{paper}.{name}.series", values.get("series", {}))
        return whole

    @model_validator(mode="after")
    def _names_exist(self) -> "Params":
        if self.scale not in self.scales:
            raise ValueError(f"scale: {not_among('scale', self.scale, self.scales)}")
        for name, scale in self.scales.items():
            for paper, overlays in scale.experiments.items():
                if paper not in self.papers:
                    raise ValueError(f"scales.{name}.experiments: {not_among('paper', paper, self.papers)}")
                for experiment in overlays:
                    if experiment not in self.papers[paper]:
                        told = not_among("experiment", experiment, self.papers[paper])
                        raise ValueError(f"scales.{name}.experiments.{paper}: {told}")
        return self

    @property
    def mirror(self) -> str | None:
        return mirror(self.data_mirror)

    @property
    def gpus(self) -> Gpus:
        return Gpus(self.devices, self.gpu_jobs_per_device)

    def on(self, cores: int) -> "Params":
        """The same on a machine of so many cores."""
        return self.model_copy(update={"cores_per_run": min(self.cores_per_run, cores)})

    @property
    def active(self) -> Scale:
        return self.scales[self.scale]

    @property
    def alike(self) -> tuple[str, ...]:
        """The scale that the active one is like, the one that this is like, and so on."""
        found, like = [], self.active.like
        while like is not None:
            found.append(like)
            like = self.scales[like].like
        return tuple(found)


@dataclass(frozen=True)
class Source:
    """Where files are fetched from. As an object Snakemake leaves it out when it compares: what is there and checked is not
    fetched again because of a mirror."""

    mirror: str | None


def mirror(given: str | None) -> str | None:
    """Where data come from instead of their official sources; the environment variable serves where nothing is given."""
    return given or os.environ.get("FEDREPRO_DATA_MIRROR") or None


def renamed(stored: dict[str, Any]) -> dict[str, Any]:
    """The settings of a stored result in today's names."""
    values = dict(stored)
    decay, floor = values.pop("lr_decay", 1.0), values.pop("lr_floor", 0.0)
    return values if decay == 1 else values | {"schedule": {"name": "exponential", "decay": decay, "floor": floor}}


def read_params(path: Path = Path("params.yaml"), overrides: dict[str, Any] | None = None) -> Params:
    """params.yaml with command-line overrides laid over it."""
    from fedrepro.config import strict_yaml  # needs PyYAML, which is not part of the training core

    return parse(Params, merge(strict_yaml.read(path), overrides or {}), str(path))
