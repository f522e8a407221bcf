"""Models and readers of all settings: params.yaml and the experiments and scales of each paper.

`RunConfig` is one fully resolved training run: two runs are the same exactly if their configs and
their data are equal.
"""

import functools
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    SerializerFunctionWrapHandler,
    create_model,
    field_validator,
    model_serializer,
    model_validator,
)

from fedrepro.config.inheritance import flatten, merge
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
    MeasureName,
    Measures,
    NonNegative,
    Numbers,
    PlainChoice,
    Positive,
    Rate,
    Seed,
    Seeds,
    Share,
    distinct,
    parse,
)
from fedrepro.core.errors import UserError, for_each, unknown_name_message
from fedrepro.core.metrics import MEASURES, USUAL

# next to params.yaml; it has a folder for each paper, with the files below
PAPERS = Path("workflow/papers")
EXPERIMENTS, SCALES, CHOSEN = "experiments.yaml", "scales.yaml", "chosen.yaml"


class Gpus(NamedTuple):
    """The GPUs that jobs may use, by torch's numbers (None: all), and the number of jobs that share
    one."""

    numbers: tuple[int, ...] | None = None
    jobs: int = 1


class DeviceChoice(NamedTuple):
    """The device that a job asks for, as in params.yaml, and the GPUs that it may get."""

    name: str = "auto"
    gpus: Gpus = Gpus()


class Proxy(Frozen):
    """Training images on the server: a random `share` of the images in use, the same for all
    methods of a seed."""

    share: Share = Field(description="the part of the training images in use that the server holds")
    batch_size: Count = Field(
        64, description="of estimates on them, and of those that clients make on their own images"
    )
    augment: bool = Field(False, description="augment them as the clients do, in every round")
    removed: bool = Field(
        False, description="take them from the clients' images; else clients may hold them too"
    )


class Validation(Frozen):
    """Training images that nobody trains on, on which settings are chosen: the same for all methods
    of a seed."""

    share: Rate = Field(
        gt=0, description="the part of the training images in use, or of each client's"
    )
    per_client: bool = Field(
        False,
        description="true: from each client's images, also for the measures on each client's own "
        "validation images; false: before the images are given to clients",
        exclude_if=lambda value: not value,
    )


class PixelScaling(Frozen):
    """The scaling of pixels from 0 to 255: a plain name, or `normalised` with given moments."""

    name: Literal["raw", "unit", "half", "standardised", "normalised"] = Field(
        description="raw: 0 to 255; unit: 0 to 1; half: -0.5 to 0.5; standardised: each image by "
        "its own mean and deviation; normalised: each channel by its mean and deviation"
    )
    mean: Annotated[tuple[Fraction, ...], Field(min_length=1), Listed] | None = Field(
        default=None,
        description="of normalised: per channel, of pixels as 0 to 1; null: the training images'",
    )
    std: Annotated[tuple[Positive, ...], Field(min_length=1), Listed] | None = Field(
        default=None, description="of normalised: per channel, as mean"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _moments_belong_together(self) -> "PixelScaling":
        mean, std = self.mean, self.std
        if (mean is None) != (std is None) or (mean and std and len(mean) != len(std)):
            raise ValueError("mean and std: both, one number per channel each, or neither")
        if mean and self.name != "normalised":
            raise ValueError(f"mean and std: of normalised alone (got {self.name})")
        return self

    @model_serializer(mode="wrap")
    def _plain(self, serialize: SerializerFunctionWrapHandler) -> Any:
        return serialize(self) if self.mean else self.name

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        return {
            "anyOf": [{"enum": list(get_args(cls.model_fields["name"].annotation))}, handler(core)]
        }


class Adam(Frozen):
    """Adam on the clients, whose moments start at zero in each round: Kingma and Ba, Adam: A Method
    for Stochastic Optimization, ICLR 2015, Algorithm 1."""

    name: Literal["adam"] = Field(description="the method")
    beta1: Rate = Field(0.9, description="decay of the mean of gradients")
    beta2: Rate = Field(0.999, description="decay of the mean of squared gradients")
    epsilon: Positive = Field(1e-8, description="added to the root of the mean of squares")

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class Training(Frozen):
    """The training settings that all series of an experiment share; the defaults are plain
    FedAvg."""

    dataset: PlainChoice = Field(description="a data set, with its options")
    train_images: Count | None = Field(
        None, description="use only so many training images, the first of a fixed shuffle"
    )
    test_images: Count | None = Field(
        None, description="use only so many test images, the first of a fixed shuffle"
    )
    pixel_scaling: PixelScaling = Field(
        PixelScaling(name="unit"), description="how pixels are scaled"
    )
    augment: tuple[Change, ...] = Field(
        (), description="random changes of training images, in this order"
    )
    partition: Choice = Field(description="which client holds which images, with its options")
    model: Choice = Field(description="the network, with its options")
    clients_per_round: Count = Field(description="clients that take part in a round")
    rounds: Count = Field(description="communication rounds")
    local_epochs: Count = Field(description="epochs that a client trains in a round")
    batch_size: Count = Field(description="images of a local step")
    lr: Positive = Field(description="learning rate of the first round")
    schedule: Choice = Field(
        Choice(name="constant"), description="of the learning rate, from round to round"
    )
    optimizer: Literal["sgd"] | Adam = Field(
        "sgd",
        description="of local training: sgd, adam, or {name: adam, beta1: 0.9, beta2: 0.999, "
        "epsilon: 1.0e-8}",
        # so that settings without it keep the names of their runs
        exclude_if=lambda value: value == "sgd",
    )
    momentum: Fraction = Field(0.0, description="of SGD")
    keep_momentum: bool = Field(
        False,
        description="a client keeps its momentum until it takes part again; else it starts at 0",
    )
    nesterov: bool = Field(False, description="use Nesterov's momentum")
    weight_decay: NonNegative = Field(
        0.0, description="times the weights, added to their gradients"
    )
    weighting: Literal["uniform", "samples"] = Field(
        "uniform", description="the server averages clients equally, or by images"
    )
    task: Choice = Field(
        Choice(name="classification"), description="the loss, and what is predicted"
    )
    proxy: Proxy | None = Field(
        None, description="training images that the server holds; null: none"
    )
    validation: Validation | None = Field(
        None,
        description="training images held out, for the measures `validation_*`; null: none",
        # so that settings without it keep the names of their runs
        exclude_if=lambda value: value is None,
    )
    measures: Measures = Field(USUAL, description="what is measured after a round")  # pyright: ignore[reportAssignmentType] - names of a table
    evaluate_every: Count = Field(
        1, description="measure after every so many rounds, and after the last"
    )
    precision: Literal["float32", "float64", "bfloat16"] = Field(
        "float32", description="of local training"
    )

    @model_validator(mode="after")
    def _has_momentum(self) -> "Training":
        if self.momentum and self.optimizer != "sgd":
            raise ValueError("momentum: of sgd only; adam has beta1")
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov: true needs a momentum above 0")
        if self.keep_momentum and self.momentum == 0:
            raise ValueError("keep_momentum: true needs a momentum above 0")
        return self

    @model_validator(mode="after")
    def _has_validation_images(self) -> "Training":
        needed = [name for name in self.measures if MEASURES[name].images == "validation"]
        if needed and not self.validation:
            raise ValueError(f"measures: {needed[0]} needs validation, e.g. {{share: 0.1}}")
        own = [name for name in needed if MEASURES[name].over]
        if own and self.validation and not self.validation.per_client:
            raise ValueError(f"measures: {own[0]} needs validation.per_client: true")
        return self


class PartitionConfig(Frozen):
    """The settings of a run that determine which client holds which images."""

    dataset: PlainChoice
    train_images: Count | None
    test_images: Count | None
    partition: Choice
    proxy: Proxy | None
    validation: Validation | None = Field(None, exclude_if=lambda value: value is None)
    seed: Seed


class RunConfig(Training):
    """The settings of one run, with its algorithm and seed."""

    algorithm: Choice
    seed: Seed

    @property
    def partition_config(self) -> PartitionConfig:
        return PartitionConfig.model_validate(
            self.model_dump(include=set(PartitionConfig.model_fields))
        )


class Tuning(Frozen):
    """How the values in `tune` of an experiment's series are chosen: equally for all of them, on
    validation images."""

    budget: Count = Field(description="settings that are tried of a series, at most")
    seeds: Seeds = Field(description="seeds of the trials, none of which the evaluation has")
    by: MeasureName = Field(
        "validation_accuracy", description="the validation measure that decides"
    )
    last: Count = Field(
        1, description="measured rounds at the end of a trial over which the measure is averaged"
    )


class Chosen(Frozen):
    """The outcome of a series' tuning, as in chosen.yaml."""

    values: dict[str, Any]
    score: float  # mean of `by` over the last rounds and the seeds
    # options whose chosen value is the smallest or the largest of the grid
    at_edge: tuple[str, ...]
    trials: Count
    budget: Count
    by: MeasureName
    grid: dict[str, list[Any]]
    scores: tuple[float | None, ...]  # of the trials, in the order of the grid; None: diverged
    settings: str  # digests of the settings, data and code of the trials
    data: str
    code: str


class Experiment(Training):
    """The settings of an experiment: a `Training` with series, seeds, studies and tuning.

    An entry of `series` may override fields of the training for this series alone: `{name: fedavg,
    overrides: {lr: 0.01}}`. It may name values to choose from, of the method's options and of
    fields of the training: `{name: fedprox, tune: {mu: [0.1, 1], lr: [0.01, 0.1]}}`.
    """

    series: dict[str, Choice] = Field(
        description="label -> algorithm with its options; `overrides` changes settings of the "
        "training, `tune` lists values of options and of such settings to choose from"
    )
    seeds: Seeds | None = Field(
        None, description="a run of each series for each seed; null: the scale's"
    )
    studies: dict[str, dict[str, Any] | None] = Field(
        {}, description="study -> its settings; null: leave it out"
    )
    tuning: Tuning | None = Field(
        None, description="how the values in `tune` of series are chosen; null: no series has any"
    )

    @model_validator(mode="after")
    def _has_series(self) -> "Experiment":
        if not self.series:
            raise ValueError("an experiment needs at least one series")
        if hidden := [label for label in self.series if not label.strip() or label.startswith("_")]:
            raise ValueError(
                f"series: '{hidden[0]}' would be hidden from legends: a name must not be empty "
                f"or start with _"
            )
        return self

    @model_validator(mode="after")
    def _can_tune(self) -> "Experiment":
        tuned = [label for label, choice in self.series.items() if "tune" in choice.options]
        if tuned and not self.tuning:
            raise ValueError(
                f"series.{tuned[0]}.tune: needs tuning, e.g. {{budget: 6, seeds: [100]}}"
            )
        if self.tuning and not self.validation:
            raise ValueError("tuning: needs validation, e.g. {share: 0.1}")
        if self.tuning and MEASURES[self.tuning.by].images != "validation":
            raise ValueError(
                f"tuning.by: {self.tuning.by} is measured on the test set. Choose a validation "
                f"measure."
            )
        return self


class _Method(Choice):
    """A series as experiments.yaml writes it."""

    name: str = ""
    overrides: dict[str, Any] = {}


_FIELDS: dict[str, Any] = {
    name: (field.rebuild_annotation(), None) for name, field in Experiment.model_fields.items()
}
_FIELDS["series"] = (dict[str, _Method], {})
# an experiment as experiments.yaml writes it, and as figures and tables read it: any setting may be
# left to the scales
Written = create_model("Written", __config__=ConfigDict(extra="allow"), **_FIELDS)


class Scale(Frozen):
    """A size of all experiments: the default seeds, and what may be compared with a paper's
    numbers."""

    like: str | None = Field(None, description="another scale, whose settings this one inherits")
    seeds: Seeds = Field(description="of experiments without seeds of their own")
    compare: Literal["none", "direction", "full"] = Field(
        description="what of a claim is judged at this scale: nothing, the direction of "
        "differences, or the numbers too"
    )
    note: str = Field(description="what pages say of this scale")
    on_request: tuple[Key, ...] = Field(
        (), description="papers that a command makes only if it names them; pages leave them out"
    )


class ChosenFile(RootModel[dict[str, dict[str, dict[str, Chosen]]]]):
    """The content of chosen.yaml: scale -> experiment -> series -> outcome."""


@dataclass(frozen=True)
class PaperSettings:
    """A paper's folder and the settings in it, with variants resolved."""

    folder: Path
    experiments: dict[str, dict[str, Any]]  # by name
    # scale -> experiments that it runs -> settings that it changes
    scales: dict[str, dict[str, dict[str, Any]]]
    # scale -> experiment -> series -> the outcome of its tuning
    chosen: dict[str, dict[str, dict[str, Chosen]]]


class Params(Frozen):
    """The settings in params.yaml, with those of the papers that it lists."""

    scale: str = Field("quick", description="the scale to run: one of `scales`")
    data_mirror: str | None = Field(
        None,
        description="folder or URL that has the data sets' files; null: FEDREPRO_DATA_MIRROR, or "
        "the official sources",
    )
    device: Device = Field(
        "auto", description="where runs are trained; auto: on a GPU where there is one"
    )
    devices: Numbers | None = Field(
        None,
        description="GPUs to use, such as [0, 1], counted from 0 in CUDA_VISIBLE_DEVICES; null: "
        "all",
    )
    gpu_jobs_per_device: Count = Field(1, description="jobs that share a GPU")
    executor: Executor = Field(
        "auto", description="how the clients of a round are trained; changes speed, not the method"
    )
    cores_per_run: Count = Field(
        1,
        description="cores of a training job on a processor, over which sequential clients are "
        "spread",
    )
    checkpoint_seconds: NonNegative = Field(
        30, description="a run saves its state at most this often"
    )
    use_kept_results: bool | Literal["same_data"] = Field(
        True,
        description="reuse the committed runs in results/kept, whatever copy of the data they "
        "were made from; same_data: only those of the data here; false: train everything",
    )
    report_only: bool = Field(
        False,
        description="train nothing: report the series whose runs are all finished, where an "
        "experiment has two or more",
    )
    mlflow_uri: str | None = Field(
        "sqlite:///mlflow.db",
        description="MLflow's database file or server, to which finished runs are copied; null: "
        "none",
    )
    papers: Annotated[tuple[Key, ...], AfterValidator(distinct), Listed] = Field(
        description="folders of workflow/papers"
    )
    scales: dict[Key, Scale] = Field(
        description="scale -> its settings; a paper's scales.yaml lists the experiments that "
        "each scale runs"
    )
    _settings: dict[str, PaperSettings] = PrivateAttr(default_factory=dict)

    @field_validator("scales", mode="before")
    @classmethod
    def _merge_inherited(cls, scales: Any) -> Any:
        """Merge each scale over the one that it names in `like`, which must come before it."""
        if not isinstance(scales, dict) or not all(
            isinstance(scale, dict) for scale in scales.values()
        ):
            return scales  # reported below
        merged: dict[str, dict[str, Any]] = {}
        for name, scale in scales.items():
            like = scale.get("like")
            if like is not None and (not isinstance(like, str) or like not in merged):
                raise ValueError(
                    f"{name}: like: {unknown_name_message('scale', like, merged)}, which come "
                    f"before it"
                )
            merged[name] = {**({} if like is None else merged[like]), "like": None, **scale}
        return merged

    @model_validator(mode="after")
    def _scale_exists(self) -> "Params":
        if self.scale not in self.scales:
            raise ValueError(f"scale: {unknown_name_message('scale', self.scale, self.scales)}")
        return self

    @property
    def paper_settings(self) -> dict[str, PaperSettings]:
        """Return the settings in the papers' folders, by paper."""
        return {paper: self._settings[paper] for paper in self.papers}

    @property
    def same_data(self) -> "Params":
        """Return the settings with the kept runs of the data at hand alone."""
        return self.model_copy(update={"use_kept_results": self.use_kept_results and "same_data"})

    def overlay(
        self, paper: str, experiment: str, scale: str | None = None
    ) -> dict[str, Any] | None:
        """Return the settings of an experiment that a scale (None: the active one) changes, with
        inherited ones.

        None if the scale does not run the experiment.
        """
        scales = [
            self.paper_settings[paper].scales.get(name, {})
            for name in reversed(self._chain(scale or self.scale))
        ]
        changes = [experiments[experiment] for experiments in scales if experiment in experiments]
        return functools.reduce(merge, changes) if changes else None

    def chosen(self, paper: str, experiment: str) -> dict[str, Chosen]:
        """Return the outcomes of tuning of an experiment's series at the active scale."""
        return self.paper_settings[paper].chosen.get(self.scale, {}).get(experiment, {})

    @property
    def mirror(self) -> str | None:
        return data_mirror(self.data_mirror)

    @property
    def gpus(self) -> Gpus:
        return Gpus(self.devices, self.gpu_jobs_per_device)

    @property
    def device_choice(self) -> DeviceChoice:
        return DeviceChoice(self.device, self.gpus)

    def limit_cores(self, cores: int) -> "Params":
        """Return these settings with `cores_per_run` limited to the cores of the machine."""
        return self.model_copy(update={"cores_per_run": min(self.cores_per_run, cores)})

    @property
    def active_scale(self) -> Scale:
        return self.scales[self.scale]

    @property
    def default_papers(self) -> tuple[str, ...]:
        """Return the papers that a command makes without naming them, and that pages show."""
        return (
            tuple(paper for paper in self.papers if paper not in self.active_scale.on_request)
            or self.papers
        )

    @property
    def inherited_scales(self) -> tuple[str, ...]:
        """Return the scales from which the active one inherits, the nearest first."""
        return self._chain(self.scale)[1:]

    def _chain(self, scale: str) -> tuple[str, ...]:
        like = self.scales[scale].like
        return (scale, *(self._chain(like) if like else ()))


@dataclass(frozen=True)
class DataSource:
    """The mirror from which files are fetched.

    Snakemake does not compare objects, so another mirror does not cause checked files to be fetched
    again.
    """

    mirror: str | None


def data_mirror(configured: str | None) -> str | None:
    """Return the mirror that replaces the official sources: the configured one, or
    FEDREPRO_DATA_MIRROR, or None."""
    return configured or os.environ.get("FEDREPRO_DATA_MIRROR") or None


def read_params(
    path: Path = Path("params.yaml"), overrides: dict[str, Any] | None = None
) -> Params:
    """Return the settings of a file, with `overrides` from a command line, and those of the papers
    in workflow/papers."""
    from fedrepro.config import strict_yaml  # needs PyYAML, which is not part of the training core

    return with_papers(merge(strict_yaml.read(path), overrides or {}), path)


def with_papers(values: Mapping[str, Any], path: Path) -> Params:
    """Return settings from a file's `values`, with those of the papers that they list. Raises
    UserError."""
    params = parse(Params, values, str(path))
    folders = sorted(folder.name for folder in (path.parent / PAPERS).glob("*/"))
    for paper in params.papers:
        if folders and paper not in folders:
            raise UserError(f"{path}: papers: {unknown_name_message('paper', paper, folders)}")
    for name, scale in params.scales.items():
        for paper in scale.on_request if folders else ():
            if paper not in folders:
                raise UserError(
                    f"{path}: scales.{name}.on_request: "
                    f"{unknown_name_message('paper', paper, folders)}"
                )
    params._settings.update(
        {paper: _read_paper(path.parent / PAPERS / paper, params.scales) for paper in params.papers}
    )
    return params


def _read_paper(folder: Path, scales: Collection[str]) -> PaperSettings:
    from fedrepro.config import strict_yaml

    file, overlays = folder / SCALES, {}
    experiments = flatten(strict_yaml.read(folder / EXPERIMENTS), str(folder / EXPERIMENTS))
    for_each(
        experiments,
        lambda name: parse(Written, experiments[name], f"{folder / EXPERIMENTS}: {name}"),
    )
    for scale, listed in strict_yaml.read(file).items():
        if scale not in scales:
            raise UserError(f"{file}: {unknown_name_message('scale', scale, scales)}")
        overlays[scale] = flatten(listed, f"{file}: {scale}")
        for name in overlays[scale]:
            if name not in experiments:
                raise UserError(
                    f"{file}: {scale}: {unknown_name_message('experiment', name, experiments)}"
                )
    path = folder / CHOSEN
    chosen = parse(ChosenFile, strict_yaml.read(path), str(path)).root if path.exists() else {}
    return PaperSettings(folder, experiments, overlays, chosen)
