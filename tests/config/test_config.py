"""Settings: errors name file, key and valid values; overlays are merged level by level."""

import os
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from fedrepro.config import strict_yaml
from fedrepro.config.inheritance import flatten, merge
from fedrepro.config.params import PAPERS, Experiment, Gpus, Params, RunConfig, read_params
from fedrepro.config.types import Choice, parse
from fedrepro.core.errors import UserError
from fedrepro.experiments.resolve import resolve
from support.checkout import ROOT
from support.federation import PLAIN, config

RUN = dict(PLAIN)
SMALL = """
scale: quick
papers: [paper]
scales:
  quick: {seeds: [0], compare: none, note: small}
"""
EXPERIMENTS = "fig: {rounds: 9, variants: {close: {lr: 2}}}"
SCALES = "quick: {fig: {rounds: 2}}"


def refused(model, values, *words):
    with pytest.raises(UserError) as caught:
        parse(model, values, "settings.yaml")
    for word in ("settings.yaml: ", *words):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"round": 3}, ["round: unknown key", "rounds"]),
        ({"rounds": -1}, ["rounds: ", "greater than or equal to 1 (got -1)"]),
        ({"rounds": 0}, ["rounds: ", "(got 0)"]),
        ({"rounds": 2.5}, ["rounds: ", "integer", "(got 2.5)"]),
        ({"rounds": "many"}, ["rounds: ", "integer", "(got 'many')"]),
        ({"rounds": True}, ["rounds: expected a number"]),
        ({"lr": True}, ["lr: expected a number"]),
        ({"train_images": 0}, ["train_images: ", "(got 0)"]),
        ({"batch_size": None}, ["batch_size: "]),
        ({"lr": 0}, ["lr: ", "greater than 0 (got 0)"]),
        ({"lr": "inf"}, ["lr: ", "finite"]),
        ({"lr": 1e39}, ["lr: at most 3.4e+38"]),
        ({"seed": 1 << 63}, ["seed: at most"]),
        ({"seed": 10**400}, ["seed: at most"]),
        ({"evaluate_every": 0}, ["evaluate_every: ", "(got 0)"]),
        ({"momentum": 1.5}, ["momentum: ", "(got 1.5)"]),
        ({"seed": -1}, ["seed: ", "(got -1)"]),
        (
            {"pixel_scaling": "bits"},
            [
                "pixel_scaling.name: ",
                "'raw', 'unit', 'half', 'standardised' or 'normalised'",
                "(got 'bits')",
            ],
        ),
        (
            {"pixel_scaling": {"name": "normalised", "mean": [0.5]}},
            ["pixel_scaling: mean and std: both, one number per channel each"],
        ),
        (
            {"pixel_scaling": {"name": "normalised", "mean": [0.5], "std": [0.2, 0.3]}},
            ["pixel_scaling: mean and std: both, one number per"],
        ),
        (
            {"pixel_scaling": {"name": "normalised", "mean": [0.5, 0.6], "std": [0.2]}},
            ["pixel_scaling: mean and std: both, one number per"],
        ),
        (
            {"pixel_scaling": {"name": "unit", "mean": [0.5], "std": [0.2]}},
            ["pixel_scaling: mean and std: of normalised alone (got unit)"],
        ),
        (
            {"pixel_scaling": {"name": "normalised", "mean": 0.5, "std": [0.2]}},
            ["pixel_scaling.mean: expected a list"],
        ),
        (
            {"pixel_scaling": {"name": "normalised", "mean": [0.5], "std": [0]}},
            ["pixel_scaling.std.0: ", "greater than 0"],
        ),
        (
            {"pixel_scaling": {"name": "raw", "mean": [], "std": []}},
            ["pixel_scaling.mean: ", "at least 1 item"],
        ),
        (
            {"pixel_scaling": {"name": "normalised", "deviation": [0.5]}},
            ["pixel_scaling.deviation: unknown key"],
        ),
        ({"weighting": "size"}, ["weighting: ", "'uniform' or 'samples'"]),
        ({"precision": "float16"}, ["precision: ", "'float32', 'float64' or 'bfloat16'"]),
        (
            {"augment": ["rotate"]},
            ["augment.0: ", "'crop', 'reflected_crop', 'resized_crop', ", "or 'contrast_jitter'"],
        ),
        # as the device: of a machine, not of a run
        ({"executor": "stacked"}, ["executor: unknown key"]),
        ({"model": {"width": 0.1}}, ["model.name: "]),
        ({"model": 3}, ["model: "]),
        ({"dataset": {"alpha": 1}}, ["dataset.name: "]),
    ],
    ids=str,
)
def test_mistakes_in_a_run(changes, words):
    refused(RunConfig, RUN | changes, *words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"partition": {"name": "halves"}}, "unknown partition 'halves'"),
        ({"model": {"name": "vgg"}}, "unknown model 'vgg'"),
        ({"algorithm": {"name": "sgd"}}, "unknown algorithm 'sgd'"),
        ({"algorithm": {"name": "_private"}}, "unknown algorithm '_private'"),
        ({"algorithm": {"name": "base"}}, "unknown algorithm 'base'"),
        ({"algorithm": {"name": "fedprox", "nu": 1}}, "algorithm fedprox: nu: unknown key"),
        (
            {"algorithm": {"name": "fedprox", "mu": -1}},
            "algorithm fedprox: mu: .*greater than or equal to 0 .got -1",
        ),
        ({"algorithm": {"name": "fedavg", "mu": 1}}, "algorithm fedavg: mu: unknown key"),
        ({"partition": {"name": "iid"}}, "partition iid: clients: Field required"),
        (
            {"keep_momentum": True, "momentum": 0.9, "algorithm": {"name": "fednova"}},
            "keep_momentum: fednova starts each round",
        ),
        (
            {"clients_per_round": 9},
            "clients_per_round: at most the 4 clients of the partition .got 9",
        ),
    ],
    ids=str,
)
def test_mistakes_in_choices(changes, words):
    with pytest.raises(UserError, match=words):
        resolve(parse(RunConfig, RUN | changes, "run"))


def test_a_plain_name_is_a_choice_without_options():
    run = parse(RunConfig, RUN | {"dataset": "mnist", "model": "logistic"}, "run")
    assert run == parse(
        RunConfig, RUN | {"dataset": {"name": "mnist"}, "model": {"name": "logistic"}}, "run"
    )
    assert (run.model_dump()["dataset"], run.model_dump(mode="json")["dataset"]) == (
        "mnist",
        "mnist",
    )
    own = {"name": "synthetic", "alpha": 0.5}
    assert parse(RunConfig, RUN | {"dataset": own}, "run").model_dump(mode="json")["dataset"] == own
    assert merge({"dataset": "synthetic"}, {"dataset": {"alpha": 0.5}})["dataset"] == own
    assert merge({"dataset": own}, {"dataset": "mnist"})["dataset"] == "mnist"
    written = resolve(parse(RunConfig, RUN | {"dataset": own}, "run")).dataset.options
    assert written["alpha"] == 0.5 and written["devices"] == 10  # a default


@pytest.mark.parametrize("key", ["nesterov", "keep_momentum"])
def test_what_needs_momentum(key):
    refused(RunConfig, RUN | {key: True}, key, "needs a momentum above 0")


def test_settings_are_frozen_and_a_choice_keeps_its_options():
    run = config(algorithm={"name": "fedprox", "mu": 1})
    with pytest.raises(ValidationError):
        run.rounds = 5
    assert run.algorithm.options == {"mu": 1.0, "norm": "sum"}
    assert Choice(name="x", a=1, b={"c": 2}).options == {"a": 1, "b": {"c": 2}}


def test_resolving_writes_every_option_out_and_once_is_enough():
    run = config(model={"arch": "code"}, algorithm={"name": "fedmmd"})
    usual = {"dropout": 0.0, "norm": "none", "norm_groups": None, "frozen": []}
    assert run.model.options == usual | {"arch": "code", "init": "truncated_normal", "width": 0.05}
    assert run.algorithm.options == {
        "weight": 0.1,
        "outputs": "logits",
        "kernel": "fixed19",
        "floor": 1e-4,
    }
    assert resolve(run) == run == parse(RunConfig, run.model_dump(mode="json"), "again")


def test_merging():
    base = {"a": 1, "b": {"c": 2, "d": 3}, "model": {"name": "x", "width": 1}, "list": [1, 2]}
    assert merge(base, {}) == base
    assert merge(base, {"b": {"c": 9}}) == base | {"b": {"c": 9, "d": 3}}
    assert merge(base, {"list": [3]}) == base | {"list": [3]}
    assert merge(base, {"b": 5, "new": {"k": 1}}) == base | {"b": 5, "new": {"k": 1}}
    assert merge(base, {"model": {"width": 2}})["model"] == {"name": "x", "width": 2}
    assert merge(base, {"model": {"name": "x", "depth": 2}})["model"] == {
        "name": "x",
        "width": 1,
        "depth": 2,
    }
    assert merge(base, {"model": {"name": "y", "depth": 2}})["model"] == {"name": "y", "depth": 2}
    assert base == {
        "a": 1,
        "b": {"c": 2, "d": 3},
        "model": {"name": "x", "width": 1},
        "list": [1, 2],
    }


def test_an_experiment_needs_a_series():
    shared = {key: value for key, value in RUN.items() if key not in ("algorithm", "seed")}
    refused(Experiment, shared | {"series": {}}, "at least one series")
    refused(Experiment, shared | {"series": {"a": {"mu": 1}}}, "series.a.name: ")
    for hidden in ("_a", "", " "):  # matplotlib leaves the first out of legends
        refused(
            Experiment,
            shared | {"series": {hidden: {"name": "fedavg"}}},
            f"series: '{hidden}' would be hidden from legends",
        )
    assert (
        parse(
            Experiment, shared | {"series": {"a": {"name": "fedavg", "overrides": {"lr": 1}}}}, "x"
        )
        .series["a"]
        .name
        == "fedavg"
    )


def write(folder: Path, text: str, experiments: str = EXPERIMENTS, scales: str = SCALES) -> Path:
    paper = folder / PAPERS / "paper"
    paper.mkdir(parents=True, exist_ok=True)
    (paper / "experiments.yaml").write_text(experiments, encoding="utf-8")
    (paper / "scales.yaml").write_text(scales, encoding="utf-8")
    path = folder / "params.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_reading_params(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDREPRO_DATA_MIRROR", raising=False)
    params = read_params(write(tmp_path, SMALL))
    assert (
        params.active_scale.seeds == (0,)
        and params.mirror is None
        and params.checkpoint_seconds == 30
    )
    monkeypatch.setenv("FEDREPRO_DATA_MIRROR", "there")
    assert (
        params.mirror == "there"
        and read_params(tmp_path / "params.yaml", {"data_mirror": "here"}).mirror == "here"
    )
    several = read_params(tmp_path / "params.yaml", {"cores_per_run": 4})
    assert [several.limit_cores(cores).cores_per_run for cores in (1, 2, 16)] == [
        1,
        2,
        4,
    ] and params.limit_cores(16).cores_per_run == 1
    shared = read_params(tmp_path / "params.yaml", {"devices": [1, 0], "gpu_jobs_per_device": 2})
    assert (params.gpus, shared.gpus) == (Gpus(None, 1), Gpus((1, 0), 2))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("scale: quick", "scale: fast", "scale: unknown scale 'fast'"),
        ("scale: quick", "scale: quick\nmirror: x", r"mirror: unknown key"),
        (
            "compare: none",
            "compare: exact",
            r"scales.quick.compare: .*'none', 'direction' or 'full' \(got 'exact'\)",
        ),
        ("seeds: [0]", "seeds: []", r"scales.quick.seeds: "),
        # a seed that counts twice
        ("seeds: [0]", "seeds: [0, 1, 0]", r"scales.quick.seeds: values must be unique"),
        # planned for minutes
        ("seeds: [0]", f"seeds: {list(range(1001))}", r"scales.quick.seeds: .* at most 1000 items"),
        ("scale: quick", "scale: quick\ndevices: [1, 1]", r"devices: values must be unique"),
        ("seeds: [0]", "seeds: 3", r"scales.quick.seeds: expected a list such as \[0\] \(got 3\)"),
        (
            "scale: quick",
            "scale: quick\ndevices: 0",
            r"devices: expected a list such as \[0\] \(got 0\)",
        ),
        (
            "scale: quick",
            "scale: quick\ndevices: 0,1",
            r"devices: expected a list such as \[0\] \(got '0,1'\)",
        ),
        ("note: small", "note: small, color: red", r"scales.quick.color: unknown key"),
        ("note: small", "note: small, like: tiny", r"scales: quick: like: unknown scale 'tiny'"),
        ("note: small", "note: small, like: quick", r"scales: quick: like: unknown scale 'quick'"),
        (
            "note: small",
            "note: small, on_request: [papper]",
            r"scales.quick.on_request: unknown paper 'papper'",
        ),
        ("scales:\n", "scales:\n  mine: 3\n", r"scales.mine: .*valid dictionary"),
        ("scales:\n  quick:", "scales: [3]\nquick:", r"scales: .*valid dictionary"),
        ("[paper]", "paper", r"papers: expected a list"),
        ("[paper]", "[paper, paper]", r"papers: values must be unique"),
        ("[paper]", "[papper]", r"papers: unknown paper 'papper'"),
    ],
    ids=str,
)
def test_mistakes_in_params(old, new, words, tmp_path):
    path = write(tmp_path, SMALL.replace(old, new))
    with pytest.raises(UserError, match=rf"params\.yaml: (.*{words})"):
        read_params(path)


@pytest.mark.parametrize(
    ("experiments", "scales", "words"),
    [
        ("my-fig: {}", "{}", r"experiments.yaml: .*, at most 60 of them, such as my_fig"),
        (
            "fig: {variants: {my-fig: {}}}",
            "{}",
            r"experiments.yaml: fig.variants: .*, such as my_fig",
        ),
        (
            "fig: {variants: {fig: {}}}",
            "{}",
            r"experiments.yaml: fig: two experiments have this name",
        ),
        (
            "a: {variants: {c: }}\nb: {variants: {c: }}",
            "{}",
            r"experiments.yaml: c: two experiments have this name",
        ),
        ("fig: 3", "{}", r"experiments.yaml: fig: .*valid dictionary"),
        *(
            (f"fig: {{{key}: {value}}}", "{}", rf"experiments.yaml: fig: {key}\b.*: ")
            for key in ("series", "studies", "measures")
            for value in ("0", "false", "[[1]]", "fedavg")
        ),
        ("fig: {series: {A: 7}}", "{}", r"experiments.yaml: fig: series.A: .*valid dictionary"),
        (
            "fig: {series: {A: {name: fedprox, overrides: 7}}}",
            "{}",
            r"experiments.yaml: fig: series.A.overrides: .*dictionary",
        ),
        ("fig: {rounds: many}", "{}", r"experiments.yaml: fig: rounds: .*integer.* \(got 'many'\)"),
        *(
            (
                f"fig: {{variants: {value}}}",
                "{}",
                r"experiments.yaml: fig.variants: .*valid dictionary",
            )
            for value in ("0", "''")
        ),
        *(
            (EXPERIMENTS, f"quick: {value}", r"scales.yaml: quick: .*valid dictionary")
            for value in ("0", "''", "false", "[]")
        ),
        (EXPERIMENTS, "fast: {fig: }", r"scales.yaml: unknown scale 'fast'"),
        (EXPERIMENTS, "quick: {figure: }", r"scales.yaml: quick: unknown experiment 'figure'"),
        (EXPERIMENTS, "quick: [fig]", r"scales.yaml: quick: .*valid dictionary"),
        (EXPERIMENTS, "quick: {fig: [rounds]}", r"scales.yaml: quick: fig: .*valid dictionary"),
    ],
)
def test_mistakes_in_the_files_of_a_paper(experiments, scales, words, tmp_path):
    with pytest.raises(UserError, match=rf"workflow/papers/paper/{words}"):
        read_params(write(tmp_path, SMALL, experiments, scales))


@pytest.mark.parametrize(
    "name",
    ["../../X", "/abs", "a/b", "a\0b", "n" * 61, "", "x; touch f", 7, "A", "\u00e4", "a\n"],
    ids=ascii,
)
@pytest.mark.parametrize("place", ["scales", "papers"])
def test_a_name_is_no_path_and_no_command(name, place):
    values = yaml.safe_load(SMALL)
    values[place] = [name] if place == "papers" else {name: values["scales"]["quick"]}
    with pytest.raises(UserError) as caught:
        parse(Params, values, "params.yaml")
    where = {"papers": "papers.0", "scales": "scales"}[place]
    assert str(caught.value).startswith(
        f"params.yaml: {where}: a name consists of a to z, 0 to 9 and _, at most 60 of them"
    )
    assert str(caught.value).endswith(f"(got {name!r})") and "\0" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scale: quick\npapers: {}\nscale: paper", "line 3: the key scale is here and in line 1"),
        ("papers:\n  p:\n    lr: 1\n    lr: 2", "line 4: the key lr is here and in line 3"),
        ("a: 1\nrounds: 010", "line 2: 010 would be read as a number of base 8"),
        ("rounds: 1:30", "line 1: 1:30 would be read as a number of base 60"),
        ("rounds: 1:30.5", "line 1: 1:30.5 would be read as a number of base 60"),
        *(
            (f"a: 1\nseed: {number}", "line 2: a whole number of more than 64 bits")
            for number in ("9" * 400, "9" * 5000, "0x" + "f" * 300, "0x" + "f" * 5000, 1 << 63)
        ),
        *(
            (f"a: {text}", f"line 1: YAML reads a {name}, which no setting is")
            for name, text in (
                ("timestamp", "2020-01-01"),
                ("timestamp", "2020-13-45"),
                ("binary", "!!binary aGk="),
                ("set", "!!set {a, b}"),
                ("omap", "!!omap [a: 1]"),
                ("pairs", "!!pairs [a: 1]"),
            )
        ),
        *(
            (f"a: 1\n{key}: 1", "line 2: a key that is no text")
            for key in (7, "no", "2020-01-01", "? [a]\n")
        ),
        *((f"a: {text}", "a tag such as ") for text in ("!!float []", "!!int {}", "!!bool x")),
        ("a: " + "[" * 5000, "line 1: nested deeper than 60 levels"),
        ("a: &a [1]\nb: *a", r"line 2: \*a repeats text from elsewhere"),
        (
            "papers: {}\n__use_yte__: true",
            "line 2: the key __use_yte__ would make a template of the file",
        ),
    ],
    ids=lambda text: text[:40],
)
def test_yaml_that_could_be_misread_is_refused(text, words, tmp_path):
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(UserError, match=f"params.yaml: {words}"):
        read_params(tmp_path / "params.yaml")


def test_a_scale_that_is_like_another(tmp_path):
    """It has what the other says, where it says nothing itself; of a paper it changes one
    experiment at a time."""
    more = "  mine: {like: quick, seeds: [3, 4]}\n  most: {like: mine, note: mine too}\n"
    overlays = f"{SCALES}\nmine: {{fig: {{lr: 0.5}}, close: }}"
    params = read_params(write(tmp_path, SMALL + more, scales=overlays), {"scale": "most"})
    assert (params.active_scale.seeds, params.active_scale.compare, params.active_scale.note) == (
        (3, 4),
        "none",
        "mine too",
    )
    assert (
        params.overlay("paper", "fig") == {"rounds": 2, "lr": 0.5}
        and params.overlay("paper", "close") == {}
    )
    assert params.overlay("paper", "close", "quick") is None
    assert (
        params.inherited_scales == ("mine", "quick")
        and read_params(tmp_path / "params.yaml").inherited_scales == ()
    )


def test_the_settings_that_come_along_are_valid():
    path = ROOT / "params.yaml"
    for scale in read_params(path).scales:
        assert isinstance(read_params(path, {"scale": scale}), Params)


def test_variants_of_an_experiment():
    """Laid over it level by level; another partition drops the options of the first; own series
    replace it."""
    third = {"partition": {"name": "iid", "clients": 3}, "series": {"B": {"name": "fedprox"}}}
    second = {"lr": 0.2, "partition": {"redraw": False}, "variants": {"third": third}}
    own = {
        "lr": 0.1,
        "partition": {"name": "classes", "clients": 2, "redraw": True},
        "series": {"A": {"name": "fedavg"}},
    }
    found = flatten({"first": own | {"variants": {"second": second, "same": None}}}, "file")
    assert (
        list(found) == ["first", "second", "third", "same"]
        and found["first"] == found["same"] == own
    )
    assert found["second"] == {
        "lr": 0.2,
        "partition": own["partition"] | {"redraw": False},
        "series": own["series"],
    }
    assert found["third"] == {"lr": 0.2, **third}


MARKS = "\0\a\x1b\x7f\x85\xad\u061c\u200b\u200f\u2028\u202e\u2060\u2066\ufeff"


@pytest.mark.parametrize("mark", MARKS, ids=ascii)
@pytest.mark.parametrize("text", ['note: "a{}b"', '"a{}b": note'])
def test_invisible_letters_are_refused_with_their_line(mark, text, tmp_path):
    """Also those that YAML writes as an escape: what counts is the value that is shown."""
    written = [f"\\u{ord(mark):04x}"] + [mark] * (ord(mark) >= 0x80)
    for letter in written:
        (tmp_path / "p.yaml").write_text(f"scale: quick\n{text.format(letter)}\n", encoding="utf-8")
        with pytest.raises(UserError, match=rf"p\.yaml: line 2: .*U\+{ord(mark):04X}"):
            strict_yaml.read(tmp_path / "p.yaml")


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
def test_a_file_without_end_is_not_read(kind, tmp_path):
    path = Path("/dev/zero") if kind == "device" else tmp_path / "p.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(3 << 30)
    with pytest.raises(UserError, match=f"^{path}: "):
        strict_yaml.read(path)
