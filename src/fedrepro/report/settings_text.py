"""The settings of an experiment's series in plain words: what all of them share, and what each has of its own.

A topic tells one or more settings; where any of them differs between series, the topic stands with each of them. Light: reads
the gathered results, imports no method.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

from fedrepro.core.metrics import MEASURES
from fedrepro.report.inputs.gathered import Results

Config = Mapping[str, Any]
METHOD = "Method"


@dataclass(frozen=True)
class Described:
    """Pairs of a topic and its words. `own`: series -> its method, then what differs between series."""

    shared: list[tuple[str, str]]
    own: dict[str, list[tuple[str, str]]]


@dataclass(frozen=True)
class Topic:
    """What is told of some settings, the first of which decides whether it is there."""

    name: str
    settings: tuple[str, ...]
    words: Callable[[Config], str]


def described(results: Results) -> Described:
    """What was set for the runs of these results, as it was resolved for each series; nothing where none were made."""
    if results.skipped:
        return Described([], {})
    told = {label: _told(results, label) for label in results.labels}
    names = list(dict.fromkeys(name for topics in told.values() for name in topics))
    alike = [name for name in names if name != METHOD and len({topics.get(name) for topics in told.values()}) == 1]
    shared = [(name, told[results.labels[0]][name]) for name in alike]
    if "study" in results.note:
        shared.append(("Study", f"{results.note['study']}: {_listed(results.settings)}"))
    own = {label: [(name, text) for name, text in topics.items() if name not in alike] for label, topics in told.items()}
    return Described(shared, own)


def _told(results: Results, label: str) -> dict[str, str]:
    """Topic -> words of one series."""
    series, runs = results.note["series"][label], results.runs(label)
    config = series.get("config") or results.note["training"] | {"algorithm": series["algorithm"]}
    found = {topic.name: topic.words(config) for topic in TOPICS if topic.settings[0] in config}
    if titles := sorted({run["dataset"] for run in runs}):
        found["Data"] = ", ".join([" and ".join(titles), *_options("dataset", config.get("dataset", ""))])
    return found | {"Seeds": ", ".join(str(run["seed"]) for run in runs)}


def _choice(kind: str, value: Any) -> str:
    """A name with its options."""
    name = value if isinstance(value, str) else value["name"]
    phrase = CHOICES.get((kind, name), name.replace("_", " "))
    given = {} if isinstance(value, str) else value
    if not _named(phrase) <= given.keys():  # stored before an option was there
        phrase = name.replace("_", " ")
    options = {option: _value(kind, option, setting) for option, setting in given.items()}
    return ", ".join([phrase.format(**options), *_options(kind, value, _named(phrase))])


def _options(kind: str, value: Any, told: set[str] = frozenset()) -> list[str]:
    """The options that are told behind a phrase."""
    given = {} if isinstance(value, str) else {key: setting for key, setting in value.items() if key != "name"}
    return [
        f"{OPTIONS.get(option, option.replace('_', ' '))} {_value(kind, option, setting)}"
        for option, setting in given.items()
        if option not in told and not _silent(kind, option, setting)
    ]


def _silent(kind: str, option: str, setting: Any) -> bool:
    return (kind, option) in SILENT and SILENT[kind, option] == setting


def _named(phrase: str) -> set[str]:
    """The options that stand in a phrase."""
    return {field for _, field, _, _ in Formatter().parse(phrase) if field}


def _value(kind: str, option: str, setting: Any) -> str:
    known = VALUES.get((kind, option), {})
    return known[setting] if isinstance(setting, str | bool | None) and setting in known else _plain(setting)


def told_as(path: str, setting: Any) -> str:
    """A setting's value in words, by its path: `algorithm.importance`."""
    kind, _, option = path.rpartition(".")
    return _value(kind, option, setting)


def _plain(setting: Any) -> str:
    if setting is None or isinstance(setting, bool):
        return {None: "not set", True: "yes", False: "no"}[setting]
    if isinstance(setting, int | float):
        return f"{setting:,}" if isinstance(setting, int) else f"{setting:.10g}"
    if isinstance(setting, Mapping):
        return _listed(setting)
    if isinstance(setting, list | tuple):
        nested = any(isinstance(item, list | tuple) for item in setting)
        return (" and " if nested else ", ").join(map(_plain, setting)) or "none"
    return str(setting)


def _listed(settings: Config) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {_plain(value)}" for key, value in settings.items())


def _images(config: Config) -> str:
    parts = {"training": config["train_images"], "test": config.get("test_images")}
    told = [f"{'all' if count is None else f'{count:,} random'} {name} images" for name, count in parts.items()]
    return " and ".join(told) if parts["training"] != parts["test"] or parts["test"] else "all training and test images"


def _inputs(config: Config) -> str:
    changes = [CHANGES.get(change, change) for change in config.get("augment", ())]
    inputs = config["inputs"]
    if isinstance(inputs, str):
        scaled = INPUTS.get(inputs, inputs)
    else:  # moments of one's own
        scaled = f"by mean {_plain(inputs['mean'])} and deviation {_plain(inputs['std'])} per channel"
    return f"{scaled}; {', '.join(changes) or 'no augmentation'}"


def _participants(config: Config) -> str:
    clients = config.get("partition", {}).get("clients", "the")
    return f"{config['clients_per_round']} of {clients} clients a round"


def _epochs(config: Config) -> str:
    count = config["local_epochs"]
    return f"{count} epoch{'s' * (count != 1)} a round, batches of {config.get('batch_size')}"


def _rate(config: Config) -> str:
    return ", ".join([_plain(config["lr"]), *([_choice("schedule", config["schedule"])] if "schedule" in config else [])])


def _optimiser(config: Config) -> str:
    momentum = f"{'Nesterov ' * bool(config.get('nesterov'))}momentum {_plain(config['momentum'])}"
    decay = f"weight decay {_plain(config.get('weight_decay', 0))}"
    parts = [momentum if config["momentum"] else "", decay if config.get("weight_decay") else ""]
    start = "each client goes on with its momentum" if config.get("keep_momentum") else "fresh in every round"
    return ", ".join([f"SGD, {start}", *filter(None, parts)])


def _measured(config: Config) -> str:
    step = config.get("evaluate_every", 1)
    titles = [MEASURES[name].title if name in MEASURES else name for name in config["measures"]]
    return f"{'; '.join(titles)} in every {'round' if step == 1 else f'{step} rounds'}"


TOPICS = (
    Topic(METHOD, ("algorithm",), lambda config: _choice("algorithm", config["algorithm"])),
    Topic("Data", ("dataset",), lambda config: _choice("dataset", config["dataset"])),
    Topic("Images", ("train_images", "test_images"), _images),
    Topic("Inputs", ("inputs", "augment"), _inputs),
    Topic("Partition", ("partition",), lambda config: _choice("partition", config["partition"])),
    Topic("Participants", ("clients_per_round",), _participants),
    Topic("Network", ("model",), lambda config: _choice("model", config["model"])),
    Topic("Task", ("task",), lambda config: _choice("task", config["task"])),
    Topic("Rounds", ("rounds",), lambda config: _plain(config["rounds"])),
    Topic("Local training", ("local_epochs", "batch_size"), _epochs),
    Topic("Learning rate", ("lr", "schedule"), _rate),
    Topic("Optimiser", ("momentum", "nesterov", "keep_momentum", "weight_decay"), _optimiser),
    Topic("Averaging", ("weighting",), lambda config: WEIGHTING.get(config["weighting"], config["weighting"])),
    Topic("Images of the server", ("proxy",), lambda config: _plain(config["proxy"] or "none")),
    Topic("Measured", ("measures", "evaluate_every"), _measured),
    Topic("Arithmetic", ("precision",), lambda config: PRECISION.get(config["precision"], config["precision"])),
)


# (kind, name) -> phrase; options stand in braces. What it does not name is told behind it, unless it is SILENT.
CHOICES = {
    ("algorithm", "fedavg"): "FedAvg",
    ("algorithm", "fedmmd"): "FedMMD, λ = {weight}, on {outputs}, {kernel}, constant below {floor}",
    ("algorithm", "l2"): "two-stream L2, λ = {weight}",
    ("algorithm", "fedprox"): "FedProx, μ = {mu}, squares {norm}",
    ("algorithm", "fedfusion"): "FedFusion, operator {operator}, its gates' moving average {ema}, tested with {tested_with}",
    ("algorithm", "fedmax"): "FedMAX, β = {beta}, {direction}, {reduction}",
    ("algorithm", "activation_l2"): "L2 penalty, β = {beta}, {norm}",
    ("algorithm", "fedcl"): "FedCL, λ = {weight}, Ω: {importance}",
    ("algorithm", "fedcurv"): "FedCurv, λ = {weight}",
    ("algorithm", "fednova"): "FedNova",
    ("algorithm", "fedma"): "FedMA, γ = {gamma}, {posterior}, global units: {units}, {grow}",
    ("algorithm", "psi_net"): "Psi-Net, groups: {groups}, from {grouped_from} on, classes {classes}, {norm}, {trim}, {softmax}",
    ("algorithm", "scaffold"): "SCAFFOLD, rate of the server {server_lr}",
    ("partition", "iid"): "{clients} clients, random equal parts",
    ("partition", "permuted"): "{clients} clients, random equal parts, each with its own order of the pixels",
    ("partition", "shards"): "{clients} clients, {shards} label-sorted shards each",
    ("partition", "classes"): "{clients} clients with whole classes, dealt {redraw}",
    ("partition", "balanced_classes"): "{clients} clients with {classes_per_client} classes each, every class equally often",
    ("partition", "dirichlet"): "{clients} clients, class shares of each from Dirichlet(α = {alpha}), prior {prior}",
    ("partition", "dirichlet_by_class"): "{clients} clients, shares of each class from Dirichlet(α = {alpha})",
    ("partition", "natural"): "{clients} of the data's own devices",
    ("model", "mnist_cnn"): "MNIST network {arch}, {init} start",
    ("model", "cifar_cnn"): "CIFAR network {arch}, {init} start",
    ("model", "fedmax_cnn"): "FedMAX's network, {init} start",
    ("model", "pfl_cnn"): "pfl-research's network, {init} start",
    ("model", "vgg9"): "VGG9, {init} start",
    ("model", "vgg16"): "VGG16, {init} start",
    ("model", "mobilenet"): "MobileNetV1, {init} start",
    ("model", "logistic"): "logistic regression, {init} start",
    ("schedule", "constant"): "the same in every round",
    ("schedule", "exponential"): "times {decay} after every round",
    ("schedule", "cosine"): "then down half a cosine",
    ("task", "classification"): "classification by cross entropy",
    ("task", "regression"): "ordered classes as one number, by squared error",
}

# (kind, option) -> the value that needs no word, whatever name has the option
SILENT = {
    ("algorithm", "every"): 1,
    ("algorithm", "bias"): True,
    ("partition", "permute_pixels"): True,
    ("partition", "overlap"): False,
    ("partition", "groups"): None,
    ("partition", "size"): None,
    ("model", "width"): 1.0,
    ("model", "dropout"): 0.0,
    ("model", "norm"): "none",
    ("model", "norm_groups"): None,
    ("model", "frozen"): [],
    ("schedule", "floor"): 0.0,
    ("schedule", "period"): None,
    ("schedule", "late"): False,
    ("task", "thresholds"): None,
}

# (kind, option) -> what its values are called
VALUES = {
    ("algorithm", "outputs"): {"logits": "the logits", "features": "the layer before the logits"},
    ("algorithm", "kernel"): {"fixed19": "19 fixed Gaussians", "mean_distance": "5 Gaussians around the mean distance"},
    ("algorithm", "norm"): {
        "sum": "summed over all weights",
        "mean": "averaged within each tensor",
        "frobenius": "Frobenius norm of the whole batch",
        "samples": "mean of the images' norms",
        "group": "group normalisation in each group",
        "model": "the network's own normalisation",
    },
    ("algorithm", "groups"): {None: "one for each class"},
    ("algorithm", "grouped_from"): {None: "the first dense layer"},
    ("algorithm", "grow"): {True: "widths grow", False: "widths stay"},
    ("algorithm", "posterior"): {"code": "posterior as in the code", "paper": "posterior of PFNM"},
    ("algorithm", "units"): {"mean": "means of what is matched", "posterior": "means of the posterior"},
    ("algorithm", "trim"): {True: "groups without local classes trimmed", False: "nothing trimmed"},
    ("algorithm", "softmax"): {"held": "local softmax over the groups held", "all": "local softmax over all groups"},
    ("algorithm", "tested_with"): {"previous": "the extractor of the round before", "new": "its own extractor"},
    ("algorithm", "direction"): {"uniform_activation": "KL(U || p)", "activation_uniform": "KL(p || U)"},
    ("algorithm", "reduction"): {"elements": "divided by the width", "samples": "not divided by the width"},
    ("algorithm", "importance"): {
        "layer_squares": "squared gradients of batches, one number a tensor",
        "layer_norm": "norm of each image's gradient, one number a tensor",
        "layer_outputs": "gradients of squared scores, one number a tensor",
        "absolute": "absolute gradients, one number a weight",
        "fisher": "diagonal Fisher information, one number a weight",
        "identity": "1",
    },
    ("algorithm", "fallback"): {"local": "estimated by the client", "identity": "taken as 1", "none": "no penalty"},
    ("partition", "alpha"): {"uniform": "∞"},
    ("partition", "redraw"): {True: "anew every round", False: "once"},
    ("partition", "prior"): {"unit": "α per class", "classes": "α by class frequency"},
    ("model", "arch"): {
        "paper": "of the paper's text",
        "code": "of the authors' code",
        "fusion_code": "of FedFusion's code",
    },
    ("model", "init"): {"pytorch": "torch's default", "glorot": "Glorot", "truncated_normal": "truncated-normal"},
}

# option -> its name in words, where it is told behind the phrase
OPTIONS = {"groups": "classes", "width": "width times", "norm": "normalisation", "frozen": "frozen weights", "floor": "down to"}
OPTIONS |= {
    "every": "sent in one round of",
    "fallback": "in rounds without it",
    "late": "one round late",
    "bias": "the convolution's bias",
}

INPUTS = {
    "raw": "as stored",
    "unit": "pixels scaled to 0 to 1",
    "half": "pixels scaled to -0.5 to 0.5",
    "standardised": "each image to mean 0 and deviation 1",
    "normalised": "by mean and deviation of the training images, per channel",
}
CHANGES = {
    "crop": "random crop",
    "reflected_crop": "random crop with mirrored borders",
    "resized_crop": "random resized crop",
    "flip": "random mirroring",
    "vertical_flip": "random mirroring upside down",
    "affine": "random turn, shear and enlargement",
    "brightness": "random brightness",
    "contrast": "random contrast",
    "contrast_jitter": "random contrast around the mean grey",
}
WEIGHTING = {"uniform": "every client counts the same", "samples": "clients count by their images"}
PRECISION = {"float32": "single precision (float32)", "float64": "double precision (float64)"}
