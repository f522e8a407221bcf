"""The settings of an experiment's series in plain words: what all of them share, and what each has of its own.

A topic tells one or more settings; where any of them differs between series, the topic stands with each of them. Light: reads
the gathered results, imports no method.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

from fedrepro.core.metrics import MEASURES
from fedrepro.report import settings_labels as phrases
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
    phrase = phrases.CHOICES.get((kind, name), name.replace("_", " "))
    given = {} if isinstance(value, str) else value
    if not _named(phrase) <= given.keys():  # stored before an option was there
        phrase = name.replace("_", " ")
    options = {option: _value(kind, option, setting) for option, setting in given.items()}
    return ", ".join([phrase.format(**options), *_options(kind, value, _named(phrase))])


def _options(kind: str, value: Any, told: set[str] = frozenset()) -> list[str]:
    """The options that are told behind a phrase."""
    given = {} if isinstance(value, str) else {key: setting for key, setting in value.items() if key != "name"}
    return [
        f"{phrases.OPTIONS.get(option, option.replace('_', ' '))} {_value(kind, option, setting)}"
        for option, setting in given.items()
        if option not in told and not _silent(kind, option, setting)
    ]


def _silent(kind: str, option: str, setting: Any) -> bool:
    return (kind, option) in phrases.SILENT and phrases.SILENT[kind, option] == setting


def _named(phrase: str) -> set[str]:
    """The options that stand in a phrase."""
    return {field for _, field, _, _ in Formatter().parse(phrase) if field}


def _value(kind: str, option: str, setting: Any) -> str:
    known = phrases.VALUES.get((kind, option), {})
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
    changes = [phrases.CHANGES.get(change, change) for change in config.get("augment", ())]
    inputs = config["inputs"]
    if isinstance(inputs, str):
        scaled = phrases.INPUTS.get(inputs, inputs)
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
    Topic("Averaging", ("weighting",), lambda config: phrases.WEIGHTING.get(config["weighting"], config["weighting"])),
    Topic("Images of the server", ("proxy",), lambda config: _plain(config["proxy"] or "none")),
    Topic("Measured", ("measures", "evaluate_every"), _measured),
    Topic("Arithmetic", ("precision",), lambda config: phrases.PRECISION.get(config["precision"], config["precision"])),
)
