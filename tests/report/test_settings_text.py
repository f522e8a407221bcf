"""Settings in plain words: nothing of what was set is left out, and nothing of Python is left in."""

import json
from collections import defaultdict
from pathlib import Path
from string import Formatter
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import pytest

from fedrepro.config import registry
from fedrepro.config.params import RunConfig, Scaling
from fedrepro.report import settings_text
from fedrepro.report.inputs.gathered import Results, load
from fedrepro.report.settings_text import METHOD, TOPICS, described
from support.results import arrives, made

COMMITTED = sorted(Path(__file__).parents[2].glob("reports/*/*/data/*.json"))
CONFIG = {
    "dataset": "mnist", "train_images": None, "test_images": None, "inputs": "unit", "augment": [],
    "partition": {"name": "shards", "clients": 100, "shards": 2},
    "model": {"name": "mnist_cnn", "width": 1.0, "init": "pytorch", "dropout": 0.0, "norm": "none", "arch": "paper"},
    "clients_per_round": 10, "rounds": 150, "local_epochs": 2, "batch_size": 10, "lr": 0.03,
    "schedule": {"name": "exponential", "decay": 0.99, "floor": 0.0}, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0,
    "weighting": "uniform", "task": {"name": "classification"}, "proxy": None, "measures": ["test_accuracy"],
    "evaluate_every": 1, "precision": "float32", "algorithm": {"name": "fedmmd", "weight": 0.1, "outputs": "logits"},
}  # fmt: skip


def results(**configs: dict) -> Results:
    """Results of series with these changes of `CONFIG`."""
    found = made({label: {0: arrives(3), 1: arrives(3)} for label in configs})
    for label, changes in configs.items():
        config = CONFIG | changes
        found.note["series"][label] |= {"config": config, "algorithm": config["algorithm"]}
    return found


def own(**changes) -> list[tuple[str, str]]:
    return described(results(a={}, b=changes)).own["b"]


def test_every_setting_has_its_topic():
    told = [setting for topic in TOPICS for setting in topic.settings]
    assert sorted([*told, "seed"]) == sorted(RunConfig.model_fields)


def test_what_all_series_share_and_what_is_their_own():
    found = described(results(low={"lr": 0.01}, high={"lr": 0.1, "algorithm": {"name": "l2", "weight": 0.001}}))
    shared = dict(found.shared)
    assert shared["Partition"] == "100 clients, 2 label-sorted shards each"
    assert shared["Participants"] == "10 of 100 clients a round" and shared["Seeds"] == "0, 1"
    assert shared["Data"] == "MNIST (official release)" and shared["Images of the server"] == "none"
    assert shared["Optimiser"] == "SGD, fresh in every round, momentum 0.9"
    assert found.own["high"] == [(METHOD, "two-stream L2, λ = 0.001"), ("Learning rate", "0.1, times 0.99 after every round")]
    assert found.own["low"][1] == ("Learning rate", "0.01, times 0.99 after every round")
    assert not {"Learning rate", METHOD} & set(shared)


@pytest.mark.parametrize(("changes", "name", "words"), [
    ({"train_images": 1600}, "Images", "1,600 random training images and all test images"),
    ({"inputs": "half", "augment": ["flip"]}, "Inputs", "pixels scaled to -0.5 to 0.5; random mirroring"),
    ({"inputs": {"name": "normalised", "mean": [0.4914, 0.4822], "std": [0.2023, 0.1994]}}, "Inputs",
     "by mean 0.4914, 0.4822 and deviation 0.2023, 0.1994 per channel; no augmentation"),
    ({"inputs": "raw", "augment": ["reflected_crop", "brightness"]}, "Inputs",
     "as stored; random crop with mirrored borders, random brightness"),
    ({"task": {"name": "regression", "thresholds": None}}, "Task", "ordered classes as one number, by squared error"),
    ({"partition": {"name": "iid", "clients": 2}}, "Partition", "2 clients, random equal parts"),
    ({"partition": {"name": "classes", "clients": 2, "redraw": False, "groups": [[0, 1], [2, 3]]}}, "Partition",
     "2 clients with whole classes, dealt once, classes 0, 1 and 2, 3"),
    ({"partition": {"name": "dirichlet", "clients": 9, "alpha": 0.5, "prior": "unit", "overlap": True}}, "Partition",
     "9 clients, class shares of each from Dirichlet(α = 0.5), prior α per class, overlap yes"),
    ({"partition": {"name": "dirichlet", "clients": 9, "alpha": "uniform", "prior": "unit", "overlap": False}}, "Partition",
     "9 clients, class shares of each from Dirichlet(α = ∞), prior α per class"),
    ({"algorithm": {"name": "fedcl", "weight": 0.5, "importance": "absolute", "every": 10, "fallback": "local"}}, METHOD,
     "FedCL, λ = 0.5, Ω: absolute gradients, one number a weight, sent in one round of 10, in rounds without it estimated by "
     "the client"),
    ({"model": CONFIG["model"] | {"width": 0.5, "dropout": 0.2, "arch": "code", "init": "truncated_normal"}}, "Network",
     "MNIST network of the authors' code, truncated-normal start, width times 0.5, dropout 0.2"),
    ({"model": {"name": "new_net", "depth": 3}}, "Network", "new net, depth 3"),
    ({"model": {"name": "mnist_cnn", "width": 1.0}}, "Network", "mnist cnn"),  # stored before it had the others
    ({"rounds": 3000}, "Rounds", "3,000"),
    ({"local_epochs": 1}, "Local training", "1 epoch a round, batches of 10"),
    ({"schedule": {"name": "constant"}}, "Learning rate", "0.03, the same in every round"),
    ({"schedule": {"name": "cosine", "floor": 0.0001, "period": None, "late": False}}, "Learning rate",
     "0.03, then down half a cosine, down to 0.0001"),
    ({"momentum": 0.0}, "Optimiser", "SGD, fresh in every round"),
    ({"keep_momentum": True}, "Optimiser", "SGD, each client goes on with its momentum, momentum 0.9"),
    ({"test_images": 1600}, "Images", "all training images and 1,600 random test images"),
    ({"nesterov": True, "weight_decay": 0.0005}, "Optimiser",
     "SGD, fresh in every round, Nesterov momentum 0.9, weight decay 0.0005"),
    ({"weighting": "samples"}, "Averaging", "clients count by their images"),
    ({"proxy": {"share": 0.01, "batch_size": 64, "augment": False}}, "Images of the server",
     "share 0.01, batch size 64, augment no"),
    ({"measures": ["test_loss", "test_macro_f1"], "evaluate_every": 5}, "Measured",
     "test loss; macro-F1 on the test set in every 5 rounds"),
    ({"precision": "bfloat16"}, "Arithmetic", "bfloat16"),
    ({"precision": "float64"}, "Arithmetic", "double precision (float64)"),
    ({"algorithm": {"name": "psi_net", "groups": None, "grouped_from": "conv5", "classes": "consecutive", "norm": "group",
                    "trim": True, "softmax": "held"}}, METHOD,
     "Psi-Net, groups: one for each class, from conv5 on, classes consecutive, group normalisation in each group, "
     "groups without local classes trimmed, local softmax over the groups held"),
    ({"algorithm": {"name": "fedma", "gamma": 7.0, "iterations": 5, "posterior": "code", "units": "mean", "grow": True}},
     METHOD, "FedMA, γ = 7, posterior as in the code, global units: means of what is matched, widths grow, iterations 5"),
    ({"algorithm": {"name": "fedma", "gamma": 7.0, "posterior": "paper", "units": "posterior", "grow": False}}, METHOD,
     "FedMA, γ = 7, posterior of PFNM, global units: means of the posterior, widths stay"),
    ({"algorithm": {"name": "fedmmd", "weight": 0.1, "outputs": "features", "kernel": "mean_distance", "floor": 0.0001}},
     METHOD, "FedMMD, λ = 0.1, on the layer before the logits, 5 Gaussians around the mean distance, constant below 0.0001"),
    ({"algorithm": {"name": "activation_l2", "beta": 0.1, "norm": "samples"}}, METHOD,
     "L2 penalty, β = 0.1, mean of the images' norms"),
    ({"algorithm": {"name": "fedprox", "mu": 0.01, "norm": "mean"}}, METHOD,
     "FedProx, μ = 0.01, squares averaged within each tensor"),
    ({"algorithm": {"name": "fedfusion", "operator": "conv", "ema": 0.9, "tested_with": "previous"}}, METHOD,
     "FedFusion, operator conv, its gates' moving average 0.9, tested with the extractor of the round before"),
    ({"algorithm": {"name": "my_method", "strength": 0.1, "twice": True, "none": None}}, METHOD,
     "my method, strength 0.1, twice yes, none not set"),
], ids=lambda value: value[:30] if isinstance(value, str) else "")  # fmt: skip
def test_words(changes, name, words):
    assert (name, words) in own(**changes)


def test_the_datas_options_and_an_older_note():
    told = dict(own(dataset={"name": "synthetic", "alpha": 0.5}))
    assert told["Data"] == "MNIST (official release), alpha 0.5"
    old = described(made({"FedMMD": {0: arrives(3)}}))  # its series have no settings of their own
    assert old.own == {"FedMMD": [(METHOD, "fedmmd")]} and ("Rounds", "20") in old.shared


def test_a_study_is_told_too():
    found = results(a={})
    found.note.update(study="newcomers", settings={"clients": 5, "images": None})
    assert described(found).shared[-1] == ("Study", "newcomers: clients 5, images not set")


def settings_of(config: dict) -> dict:
    """Every setting and option by its path."""
    flat = {}
    for key, value in config.items():
        flat |= {f"{key}.{name}": item for name, item in value.items()} if isinstance(value, dict) else {key: value}
    return flat


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parts[-4]}-{path.stem}")
def test_no_difference_between_committed_series_is_left_out(path):
    found = load(path.parent, path.stem)
    if found.skipped:
        assert described(found).own == {}
        return
    told = described(found)
    configs = {label: series["config"] for label, series in found.note["series"].items()}
    for one, config in configs.items():
        for other, another in configs.items():
            for topic in TOPICS:
                differ = any(config[setting] != another[setting] for setting in topic.settings)
                assert differ <= (dict(told.own[one]).get(topic.name) != dict(told.own[other]).get(topic.name)), (one, other)
    texts = [text for pairs in (told.shared, *told.own.values()) for _, text in pairs]
    assert all(texts) and not any(mark in text for text in texts for mark in ("{", "[", "None", "True", "False", "'name'"))
    silent = {f"{kind}.{option}" for kind, option in settings_text.SILENT}
    for label, config in configs.items():
        words = json.dumps(dict(told.shared) | dict(told.own[label]), ensure_ascii=False)
        for key, value in settings_of(config).items():
            if isinstance(value, int | float) and not isinstance(value, bool) and value and key != "seed":
                assert f"{value:,}" in words or f"{value:.10g}" in words or key in silent | {"evaluate_every"}, key


def test_phrases_name_what_exists():
    """A phrase of a method that is gone, or of an option or a value, would never be read."""
    for (kind, name), phrase in settings_text.CHOICES.items():
        options = registry.options(f"{kind}s", name).model_fields
        assert {field for _, field, _, _ in Formatter().parse(phrase) if field} <= set(options), name
    every = {kind: _options(kind) for kind in ("algorithm", "partition", "model", "schedule", "task")}
    for kind, option in settings_text.SILENT:
        assert option in every[kind], (kind, option)
    for (kind, option), told in settings_text.VALUES.items():
        assert told.keys() <= every[kind][option], (kind, option)
    settings = {"augment": settings_text.CHANGES, "weighting": settings_text.WEIGHTING, "precision": settings_text.PRECISION}
    for setting, told in settings.items():
        assert told.keys() <= _values(RunConfig.model_fields[setting].annotation), setting
    assert settings_text.INPUTS.keys() <= _values(Scaling.model_fields["name"].annotation)


def _options(kind: str) -> dict[str, set]:
    """Every option of a kind, with the words that it may be set to."""
    found = defaultdict(set)
    for name in registry.names(f"{kind}s"):
        for option, field in registry.options(f"{kind}s", name).model_fields.items():
            found[option] |= _values(field.annotation)
    return found


def _values(annotation: Any) -> set:
    """The words, truths and nothings of a type; numbers and free texts have none."""
    if annotation in (bool, NoneType):
        return {bool: {True, False}, NoneType: {None}}[annotation]
    inner = get_args(annotation)
    return set(inner) if get_origin(annotation) is Literal else set().union(*map(_values, inner))


def test_it_is_light():
    import subprocess
    import sys

    code = "import sys; from fedrepro.report import settings_text; print({'torch', 'matplotlib', 'pandas'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
