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

    share: Share = Field(description="the part of the training images in use that the server holds")
    batch_size: Count = Field(64, description="of estimates on them, and of those that clients make on their own images")
    augment: bool = Field(False, description="augment them as the clients do, in every round")
    removed: bool = Field(False, description="take them from the clients' images; else clients may hold them too")


class Scaling(Frozen):
    """What becomes of pixels, 0 to 255: a plain name, or `normalised` with moments of one's own."""

    name: Literal["raw", "unit", "half", "standardised", "normalised"] = Field(
        description="raw: 0 to 255; unit: 0 to 1; half: -0.5 to 0.5; standardised: each image by its own mean and deviation; "
        "normalised: each channel by its mean and deviation"
    )
    mean: Annotated[tuple[Fraction, ...], Field(min_length=1), Listed] | None = Field(
        None, description="of normalised: per channel, of pixels as 0 to 1; null: the training images'"
    )
    std: Annotated[tuple[Positive, ...], Field(min_length=1), Listed] | None = Field(None, description="likewise")

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

    dataset: PlainChoice = Field(description="a data set, with its options")
    train_images: Count | None = Field(None, description="use only so many training images, the first of a fixed shuffle")
    test_images: Count | None = Field(None, description="use only so many test images, likewise")
    inputs: Scaling = Field(Scaling(name="unit"), description="how pixels are scaled")
    augment: tuple[Change, ...] = Field((), description="random changes of training images, in this order")
    partition: Choice = Field(description="which client holds which images, with its options")
    model: Choice = Field(description="the network, with its options")
    clients_per_round: Count = Field(description="clients that take part in a round")
    rounds: Count = Field(description="communication rounds")
    local_epochs: Count = Field(description="epochs that a client trains in a round")
    batch_size: Count = Field(description="images of a local step")
    lr: Positive = Field(description="learning rate of the first round")
    schedule: Choice = Field(Choice(name="constant"), description="of the learning rate, from round to round")
    momentum: Fraction = Field(0.0, description="of SGD")
    keep_momentum: bool = Field(False, description="a client keeps its momentum until it takes part again; else it starts at 0")
    nesterov: bool = Field(False, description="use Nesterov's momentum")
    weight_decay: NonNegative = Field(0.0, description="of SGD")
    weighting: Literal["uniform", "samples"] = Field("uniform", description="the server averages clients equally, or by images")
    task: Choice = Field(Choice(name="classification"), description="the loss, and what is predicted")
    proxy: Proxy | None = Field(None, description="training images that the server holds; null: none")
    measures: Measures = Field(USUAL, description="what is measured after a round")
    evaluate_every: Count = Field(1, description="measure after every so many rounds, and after the last")
    precision: Literal["float32", "float64", "tf32", "bfloat16"] = Field("float32", description="of local training")

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

    series: dict[str, Choice] = Field(
        description="label -> algorithm with its options; `with` overrides settings of the training"
    )
    seeds: Seeds | None = Field(None, description="a run of each series for each seed; null: the scale's")
    studies: dict[str, dict[str, Any] | None] = Field({}, description="study -> its settings; null: leave it out")

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

    like: str | None = Field(None, description="another scale, whose settings this one takes over")
    seeds: Seeds = Field(description="of experiments that name none of their own")
    compare: Literal["none", "direction", "full"] = Field(
        description="what of a claim is judged at this scale: nothing, the direction of differences, or the numbers too"
    )
    note: str = Field(description="what pages say of this scale")
    experiments: dict[str, dict[str, dict[str, Any]]] = {}  # paper -> experiment -> overlay; {skip: reason} leaves one out

    @field_validator("experiments")
    @classmethod
    def _inherit(cls, papers: dict[str, dict]) -> dict[str, dict]:
        return {paper: inherited(overlays, paper) for paper, overlays in papers.items()}


class Params(Frozen):
    """params.yaml."""

    scale: str = Field("quick", description="the scale to run: one of `scales`")
    data_mirror: str | None = Field(
        None, description="folder or URL that has the data sets' files; null: FEDREPRO_DATA_MIRROR, or the official sources"
    )
    device: Device = Field("auto", description="where runs are trained; auto: on a GPU where there is one")
    devices: Numbers | None = Field(
        None, description="GPUs to use, such as [0, 1], counted from 0 in CUDA_VISIBLE_DEVICES; null: all"
    )
    gpu_jobs_per_device: Count = Field(1, description="jobs that share a GPU")
    executor: Executor = Field("auto", description="how the clients of a round are trained; changes speed, not the method")
    cores_per_run: Count = Field(
        1, description="cores of a training job on a processor, over which sequential clients are spread"
    )
    checkpoint_seconds: NonNegative = Field(30, description="a run saves its state at most this often")
    kept: bool = Field(True, description="reuse the committed runs in results/kept; false: train everything")
    only_finished: bool = Field(
        False, description="train nothing: report the series whose runs are all finished, where an experiment has two or more"
    )
    mlflow_uri: str = Field(
        "sqlite:///mlflow.db", description="MLflow's database file or server, to which finished runs are copied"
    )
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
