"""All that fedrepro reads, spoiled: by somebody who means ill, by a mistake, by a disk. Settings,
names, YAML, command lines, files of results and data, links in their place, commits, configurations
of git, servers.

Whatever the command, it ends in time, without a traceback, with one message or with what comes out
where nothing is spoiled. Nothing is executed, no secret shown, nothing beside the working tree
written or deleted, no finished result lost.

`python -m tests.campaigns.hostile --seed 0 --count 1800`; the topics take turns
"""

import copy
import dataclasses
import gzip
import importlib
import itertools
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from fedrepro.cli import main
from fedrepro.config import registry, strict_yaml
from fedrepro.config.params import read_params
from fedrepro.core import provenance
from fedrepro.core.files import MACHINE
from fedrepro.data import datasets
from fedrepro.data.datasets import SOURCES, _download
from fedrepro.data.datasets.source import File
from fedrepro.experiments import plan
from fedrepro.experiments.request import Command
from fedrepro.experiments.workflow import Capacity, plan_workflow
from fedrepro.runs import gather, records
from fedrepro.runs.paths import Paths
from fedrepro.training.run import Limits
from support import files, kinds
from support.federation import ALGORITHMS
from support.server import Server
from support.settings import SETTINGS
from tests.campaigns import cases
from tests.campaigns.cases import Ended, Failed

ROOT = Path(__file__).parents[2]
SECONDS = 120  # a command that takes longer hangs
LARGEST = 1 << 20  # bytes that a download may have in a case
OVER = "record.json"  # of a run that is finished
COPIES = ("mnist", "cifar10", "emnist_letters", "pneumonia")
TIMES = r"[0-9.]+ (s|ms)\b"

# ---- settings and a paper's files with nothing wrong in them, which use most of what may be said

WORK = {
    "dataset": "digits",
    "train_images": 60,
    "test_images": 30,
    "pixel_scaling": "unit",
    "augment": ["crop", "flip"],
    "rounds": 2,
    "partition": {"name": "permuted", "clients": 3},
    "model": {"name": "mnist_cnn", "width": 0.05},
    "clients_per_round": 2,
    "local_epochs": 1,
    "batch_size": 10,
    "lr": 0.1,
    "schedule": {"name": "cosine", "floor": 0.001},
    "momentum": 0.5,
    "weight_decay": 0.001,
    "proxy": {"share": 0.1},
    "measures": ["test_accuracy", "test_loss"],
    "evaluate_every": 1,
    "studies": {
        "newcomers": {"clients": 2, "target": 0.5, "epochs": 2},
        "activations": {"every": 1},
    },
    "seeds": [0],
}
RUNS = {
    "FedAvg": {"name": "fedavg"},
    "FedMMD": {"name": "fedmmd", "weight": 0.1},
    "Rate": {"name": "scaffold", "overrides": {"lr": 0.2}},
}
SWEEP = {"FedAvg": {"name": "fedavg"}} | {
    label: {"name": "fedmax", "beta": beta} for label, beta in kinds.BETAS.items()
}
VARIANTS = {"second": {"rounds": 3}, "third": {"seeds": [2]}, "sweep": {"series": SWEEP}}
PARAMS = {key: value for key, value in SETTINGS.items() if key != "papers"} | {
    "scales": {
        "quick": {"seeds": [0], "compare": "none", "note": "q"},
        "other": {"seeds": [1], "compare": "full", "note": "o"},
    },
    "papers": ["p"],
}
SCALES = {
    "quick": {"first": {"nesterov": False}, "second": {"studies": {}}},
    "other": {"first": {}},
}
FIGURES = {
    name: kinds.FIGURES[name] for name in ("alone", "other", "absent", "grid", "beta", "heights")
}
ARTIFACTS = {
    "title": "p",
    "reference": "r",
    "curves_from": "made up",
    "proposed": ["FedMMD"],
    "experiments": {
        "first": {
            "name": "Fig. 1",
            "about": "x",
            "target": {"quick": 0.9},
            "reported": {"FedMMD": "a", "FedAvg": "b"},
        },
        "second": {"target": {"quick": 0.5}, "measure": "test_accuracy"},
        "third": {"target": {"quick": 0.5}},
    },
    "figures": json.loads(json.dumps(FIGURES).replace('"paper"', '"quick"')),
    "tables": {
        "rounds": {
            "title": "Rounds",
            "kind": "rounds_to_target",
            "panels": ["first", "second"],
            "baseline": "FedAvg",
        },
        "last": {"title": "Last", "kind": "convergence", "panels": ["first"], "last": 1},
    },
}
CLAIM = {
    "text": "t",
    "source": "s",
    "experiment": "first",
    "reported": 0.5,
    "tolerance": 0.1,
    "because": "b",
}
CLAIMS = {
    "one": CLAIM
    | {
        "quantity": {"kind": "value", "series": "FedMMD", "last": 1},
        "scales": {"quick": {"last": 2}},
    },
    "two": CLAIM
    | {
        "quantity": {"kind": "rounds_to", "series": "FedMMD", "baseline": "FedAvg", "target": 0.5},
        "note": "n",
    },
}
OF_PAPER = {
    "experiments": {"first": WORK | {"series": RUNS, "variants": VARIANTS}},
    "scales": SCALES,
    "artifacts": ARTIFACTS,
    "claims": CLAIMS,
    "curves": {"a": [[0, 1, 2], [0.1, 0.5, 0.7]], "b": [[0, 2], [0.1, 0.9]]},
}
RIGHT = {"params.yaml": PARAMS} | {
    f"workflow/papers/p/{name}.{'json' if name == 'curves' else 'yaml'}": values
    for name, values in OF_PAPER.items()
}


class Try(NamedTuple):
    """What is done, in words; whether it cannot be right; and where what comes of it lies, if that
    is to be compared."""

    work: Callable[[], int]
    what: str
    sure: bool = False
    out: str | None = None


class Scene:
    """What a case has: `tree`, the working folder, and beside it `precious`, and where `sentinel`
    must not come to be."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.folder, self.draw = folder, draw
        self.tree, self.precious, self.sentinel = (
            folder / name for name in ("tree", "precious", "sentinel")
        )
        self.elsewhere = False  # whether new files may come to be beside the tree
        self.damaged: dict[str, bytes] = {}  # which may stay as it is where nobody reads it

    def path(self, pattern: str = "", folders: bool = False) -> Path:
        """A file (or a folder too) whose name has the pattern: first its kind is drawn, then one of
        that kind."""
        found: dict[str, list[Path]] = {}
        for path in sorted(self.tree.rglob("*")):
            name = str(path.relative_to(self.tree))
            if (
                (folders or path.is_file())
                and path.name not in cases.FREE
                and re.search(pattern, name)
            ):
                found.setdefault(re.sub("[0-9a-f]*[0-9][0-9a-f]*", "", name), []).append(path)
        return self.draw.choice(self.draw.choice(list(found.values())))

    def write(self, values: dict[str, Any]) -> None:
        for name, content in values.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                content if isinstance(content, bytes) else dumped(content, path.suffix).encode()
            )

    def hostile(self) -> str:
        """A name, or a part of a path, that means ill."""
        return self.draw.choice(
            [
                *(
                    "../../X",
                    f"{self.precious}",
                    f"{self.precious}/X",
                    "../precious",
                    "a/b",
                    "a\0b",
                    "n" * 300,
                    "",
                    ".",
                    "..",
                    "-",
                    "--",
                ),
                *(
                    f"x; touch {self.sentinel}; true",
                    f"$(touch {self.sentinel})",
                    f"`touch {self.sentinel}`",
                    f"|touch {self.sentinel}",
                ),
                *(
                    "my-exp",
                    "a\nb",
                    "a\n  touch: x",
                    "é" * 200,
                    "\u4e2d" * 90,
                    "\U0001f600" * 70,
                    "--output=X",
                    "-o",
                    "CON",
                    " ",
                    "%s",
                ),
                *(
                    "{scale}",
                    "{{ 7 }}",
                    "${HOME}",
                    "\\input{/etc/passwd}",
                    "<script>",
                    "*",
                    "[a-z]*",
                    "~root",
                    "\u202ex",
                    "{}",
                ),
                f"'; import os; os.system('touch {self.sentinel}'); '",
            ]
        )


def dumped(values: Any, suffix: str = ".yaml") -> str:
    return (
        json.dumps(values)
        if suffix == ".json"
        else yaml.safe_dump(copy.deepcopy(values), allow_unicode=True, sort_keys=False)
    )


def command(*words: str) -> Callable[[], int]:
    return lambda: main.main(list(words))


def gathered() -> int:
    """What reports read, of an experiment and its study, into `out`."""
    params, paths = read_params(), Paths()
    for item in plan.all_experiments(plan.plan_experiments(params, paths)):
        for study in ("", "newcomers"):
            gather.gather(plan.result_sources(item, study, params), Path("out"))
    return 0


def identified() -> int:
    """The data sets of a mirror, into `out`."""
    Path("out").mkdir()
    for name in COPIES:
        datasets.provide(name, Path("raw"), Path("prepared") / name, "mirror")
        Path(f"out/{name}.json").write_text(
            json.dumps(datasets.load(Path("prepared") / name).meta), encoding="utf-8"
        )
    return 0


def packed() -> int:
    """What Snakemake's main process plans."""
    plan_workflow(strict_yaml.read(Path("params.yaml")), Command(), Capacity())
    return 0


TRAIN, LISTED, NOW = command("train"), command("list"), ("train", "--budget", "0s")

# ---- what is written down


def names(scene: Scene) -> Iterator[Try]:
    """A hostile name where one is asked for."""
    draw, name, values = scene.draw, scene.hostile(), copy.deepcopy(RIGHT)
    params, experiments, scales, artifacts, claims, _ = values.values()
    fig, shown = experiments["first"], artifacts["figures"]["alone"]
    places = {
        "scale": lambda: (
            params["scales"].update({name: params["scales"]["quick"]}),
            params.update(scale=name),
            scales.update({name: scales["quick"]}),
        ),
        "paper": lambda: params["papers"].append(name),
        "experiment": lambda: (
            experiments.update({name: fig | {"rounds": 1, "variants": {}}}),
            scales["quick"].update({name: {}}),
        ),
        "variant": lambda: fig.update(variants={name: {"rounds": 1}}),
        "label": lambda: fig["series"].update({name: {"name": "fedavg", "overrides": {"lr": 0.3}}}),
        "choice": lambda: fig.update(
            draw.choice(
                [
                    {"dataset": name},
                    {"partition": {"name": name}},
                    {"studies": {name: {}}},
                    {"series": {"A": name}},
                ]
            )
        ),
        "like": lambda: params["scales"]["other"].update(like=name),
        "mirror": lambda: (params.update(data_mirror=name), fig.update(dataset="mnist")),
        "overlay": lambda: scales["quick"].update(draw.choice([{name: {}}, {"first": {name: 1}}])),
        "artifact": lambda: (
            artifacts[draw.choice(["figures", "tables"])].update({name: shown}),
            claims.update({name: claims["one"]}),
        ),
        "shown": lambda: shown.update(draw.choice([{"experiment": name}, {"title": name}])),
        "title": lambda: artifacts.update(
            {draw.choice(["title", "reference", "curves_from"]): name}
        ),
    }
    where = draw.choice([*places, "label", "dvc", "option", "target", "notebook"])
    words = draw.choice([("list",), ("plan",), NOW, ("prune",), ("store",), ("restore",), ()])
    if where == "option":
        option = draw.choice(["--scale", "--data-mirror", "--results", "--params", "--device"])
        words = (*draw.choice([NOW, ("plan",)]), f"{option}={name}")
    elif where in ("target", "notebook"):
        words = (
            "notebook" if where == "notebook" else draw.choice(["train", "plan", "keep"]),
            "--",
            name,
        )
    else:
        places["scale" if where == "dvc" else where]()
    scene.write(values)
    if "\0" not in "".join(words):  # which no command line can have
        work = (lambda: rendered(scene)) if where == "dvc" else command(*words) if words else packed
        yield Try(work, f"{where} {name[:60]!r}, {' '.join(words)[:80] or 'packing'}")


def rendered(scene: Scene) -> int:
    """The shell's part of what DVC would do: its commands, of programs that do nothing."""
    from dvc.repo import Repo

    tools = scene.tree / "tools"
    tools.mkdir()
    (tools / "python").write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    (tools / "python").chmod(0o755)
    for name in ("dvc.yaml", "Snakefile"):
        shutil.copy(ROOT / name, scene.tree)
    shutil.copytree(
        ROOT / ".dvc",
        scene.tree / ".dvc",
        ignore=shutil.ignore_patterns("tmp", "cache", "config.local"),
    )
    subprocess.run(["git", "init", "-q"], check=True)
    try:
        with Repo(".") as repo:
            commands = [command for stage in repo.index.stages for command in (stage.cmd or [])]
    except Exception as error:  # DVC's own refusal
        cases.say(f"error: DVC: {type(error).__name__}")
        return 2
    assert len(commands) > 5
    for one in commands:
        subprocess.run(["/bin/sh", "-c", one], env={"PATH": f"{tools}:/usr/bin:/bin"}, check=True)
    return 0


WRONG: tuple[tuple[Any, tuple], ...] = (  # type of a value -> what cannot stand in its place
    (bool, (7, "zz zz", [["x"]])),
    (
        int | float,
        (
            float("nan"),
            float("inf"),
            "many",
            "",
            [1, [2]],
            {"zz": 1},
            True,
            "1e5x",
            "\u0661\u0662x",
            "0x1g",
        ),
    ),
    (str, ([["x"]], {"zz": {"zz": 1}}, 7.5, True, [], [None], [1], {1: 2})),
    (list, ({"zz": 1}, [[[]]], 7, "zz zz", [{}], [None])),
    (dict, (7, "zz zz", [["x"]], [], True, float("nan"))),
)
FREELY = (
    -1,
    0,
    10**12,
    1e39,
    -0.5,
    1e308,
    10**17,
    10**400,
    10**19 - 1,
    10**17 + 0.5,
    "zz",
    "é" * 300,
    [["x"]],
    {},
    [-1],
    [[-1]],
)


def nodes(values: Any) -> list[tuple[Any, Any]]:
    """All places in some values: what holds each, and its key."""
    keys = (
        list(values)
        if isinstance(values, dict)
        else list(range(len(values)))
        if isinstance(values, list)
        else []
    )
    return [
        place
        for key in keys
        if values[key] is not None
        for place in [(values, key), *nodes(values[key])]
    ]


def spoiled(values: Any, draw: random.Random) -> tuple[Any, bool]:
    """A copy with one node that is another, and whether that cannot be right: a name may be free to
    choose."""
    values = copy.deepcopy(values)
    above, key = draw.choice(nodes(values))
    node, how = above[key], draw.random()
    if how < 0.25 and isinstance(above, dict):  # misspelt
        wrong = draw.choice([f"{key}z", str(key)[1:], str(key).upper(), f" {key}", 7, "zz", ""])
        entries = [(wrong if name == key else name, value) for name, value in above.items()]
        above.clear()
        above.update(entries)
    elif how < 0.4:
        above[key] = copy.deepcopy(
            draw.choice([value for value in FREELY if repr(value) != repr(node)])
        )
    else:
        above[key] = copy.deepcopy(
            draw.choice(next(bad for kind, bad in WRONG if isinstance(node, kind)))
        )
    return values, how >= 0.4


def values(scene: Scene) -> Iterator[Try]:
    """A value that cannot be, in one of the files or in a list of runs."""
    draw, right = (
        scene.draw,
        RIGHT | {"runs.json": json.loads((scene.tree / "runs.json").read_text(encoding="utf-8"))},
    )
    name = draw.choice([*right, "workflow/papers/p/experiments.yaml", "runs.json", "runs.json"])
    listed = name == "runs.json"
    if listed and draw.random() < 0.5:  # as somebody writes it who knows nothing of the seal
        right[name] = [
            {key: value for key, value in run.items() if key != "seal"} for run in right[name]
        ]
    content, sure = spoiled(right[name], draw)
    if listed and draw.random() < 0.4:
        folder = draw.choice(
            ["../..", "/", "", "x", "\x00", "a/../../b", "results/runs/p/", 7, None, ["x"]]
        )
        content, sure = [right[name][0] | {"folder": folder}], True
    # so that all are read
    every = {"quick": dict.fromkeys(("first", "second", "third", "sweep"), {})}
    scene.write({"workflow/papers/p/scales.yaml": every} | {name: content})
    read = name.endswith(("artifacts.yaml", "claims.yaml", "curves.json"))
    words = (
        (*NOW, "--runs", "runs.json")
        if listed
        else ("list",)
        if read
        else draw.choice([NOW, ("plan",)])
    )
    yield Try(
        command(*words), f"a value in {name}, {words[0]}", sure and (listed or read or words == NOW)
    )


def options(scene: Scene) -> Iterator[Try]:
    """One option of one method, network, data set, partition, schedule, task or study, which nobody
    sets otherwise."""
    rooms = {
        "dataset": "datasets",
        "partition": "partitions",
        "model": "models",
        "schedule": "schedules",
        "task": "tasks",
    }
    kind = scene.draw.choice([*rooms, "algorithm", "algorithm", "study"])
    room = {"algorithm": "algorithms", "study": "studies"}.get(kind) or rooms[kind]
    name = scene.draw.choice(ALGORITHMS if kind == "algorithm" else registry.names(room))
    key = scene.draw.choice([*registry.options_model(room, name).model_fields, "zz"])
    value = scene.draw.choice(
        [
            *FREELY,
            float("nan"),
            -3.5,
            True,
            [],
            [1],
            [[["x"]]],
            [None],
            [{"zz": 1}],
            {1: 2},
            "",
            "0",
        ]
    )
    clients = {"clients": 3} if kind == "partition" else {}
    choice = {key: value} if kind == "study" else {"name": name, **clients, key: value}
    changes = {"algorithm": {"series": {"A": choice}}, "study": {"studies": {name: choice}}}.get(
        kind, {kind: choice}
    )
    first = {"first": WORK | {"series": {"A": {"name": "fedavg"}}} | changes}
    scene.write(
        {
            "workflow/papers/p/experiments.yaml": first,
            "workflow/papers/p/scales.yaml": {"quick": {"first": {}}},
        }
    )
    yield Try(command(*NOW), f"{room} {name}: {key}: {str(value)[:60]!r}")


def texts(scene: Scene) -> Iterator[Try]:
    """Text that is larger, deeper or more than it looks, misread, cut or no text, in a file or
    under one of its keys."""
    draw, touch = scene.draw, f"touch {scene.sentinel}"
    deep, wide = draw.randint(2, 14), draw.randint(2, 12)

    def tower(first: str, level: Callable[[int], str], ends: str) -> str:
        return ends[0] + ", ".join([first, *map(level, range(1, deep))]) + ends[1]

    kinds = {
        "bomb": tower(
            f"&a0 [{', '.join(['x'] * wide)}]",
            lambda n: f"&a{n} [{', '.join([f'*a{n - 1}'] * wide)}]",
            "[]",
        ),
        "maps": tower(
            "k0: &a0 {x: 1}",
            lambda n: f"k{n}: &a{n} {{{', '.join(f'm{i}: *a{n - 1}' for i in range(wide))}}}",
            "{}",
        ),
        "merge": tower(
            "k0: &a0 {x: 1}",
            lambda n: f"k{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * wide)}], y{n}: 1}}",
            "{}",
        ),
        "merges": draw.choice(
            [
                "{<<: 7}",
                "{<<: [[]]}",
                "&a {<<: *a}",
                "{<<: {lr: 0.1}}",
                "{<<: {x: 1}, <<: {y: 2}}",
                "[<<]",
                "{? [<<] : 1}",
            ]
        ),
        "tag": draw.choice(
            [
                f"!!python/object/apply:os.system ['{touch}']",
                f"!!python/object/new:os.system [{touch}]",
                "!!python/name:os.system",
                f"!!python/object/apply:subprocess.check_output [[touch, {scene.sentinel}]]",
                "!!python/tuple [1]",
                "!unknown x",
                "!!binary aGFsbG8=",
                "!!set {a, b}",
                "!!omap [a: 1]",
                "2001-01-01",
                "!!int x",
                "!!float []",
                "!!null 7",
                "!!bool x",
                "!!str [x]",
                "!!map []",
                "! x",
                "!!pairs [a: 1]",
                "!!seq {}",
                "!!merge <<",
                "!!value =",
                "=",
                "0777",
                "1:30",
                "*nobody",
            ]
        ),
        "nested": draw.choice(["[", "{a: ", "[[{x: "]) * draw.choice([59, 70, 3000, 3000, 200_000]),
        "block": "\n" + "".join(f"{' ' * n}- \n" for n in range(12, draw.choice([40, 500]))),
        "scalar": draw.choice(["x", "9", "1:", "é", "\\x41", "0.", "- ", "1_"])
        * draw.choice([5000, 10**5, 5 * 10**6]),
        "keys": "{" + ", ".join(f"k{n}: 1" for n in range(draw.choice([100, 30_000]))) + "}",
        "template": f"{{__use_yte__: true, __definitions__: ['import os; "
        f'os.system("{touch}")\']}}',
        "odd": draw.choice(
            [
                "{? [a] : 1}",
                "{null: 1}",
                "{.nan: 1, .nan: 2}",
                "{1: 1, true: 2}",
                "{? !!binary aGE= : 1}",
                "{2001-01-01: 1}",
                "x\n---\ny: 1",
                "x\n...\n",
                '"\\0"',
                '"\\ud800"',
                ".inf",
                ".nan",
                "{true: 1}",
                "&a *a",
                "|\n  x\n y",
                "%",
                "@",
                "`",
                "a\u202eb",
                "\tx: 1",
                "[1, {",
                "{? " + "k" * 10**6 + " : 1}",
            ]
        ),
    }
    kinds["nested"] += "".join(
        {"[": "]", "{": "}"}.get(letter, "") for letter in reversed(kinds["nested"])
    ) * (draw.random() < 0.5)
    name = draw.choice([*RIGHT, "runs.json"])
    whole = (scene.tree / name).read_bytes()
    listed, at = name == "runs.json", draw.randrange(len(whole) * 2 // 3)
    damage = {
        "twice": lambda: b"\n".join(
            line for line in whole.splitlines() for _ in range(1 + (line in whole[at : at + 99]))
        ),
        "bytes": lambda: whole[:at] + b"\xff\xfe\x80" + whole[at:],
        "noise": lambda: draw.randbytes(draw.randrange(1, 3000)),
        "cut": lambda: whole[:at],
        "json": lambda: draw.choice(
            [
                b"[]",
                b"{",
                b"7",
                b"null",
                b"[" * 9000,
                b"\0",
                b"{}",
                b"[[]]",
                b"\xef\xbb\xbf",
                b'"x"',
            ]
        ),
    }
    if listed or draw.random() < 0.4:
        kind = draw.choice(list(damage))
        content = damage[kind]()
    else:  # in the place of a value
        kind, spoilt = (
            draw.choice([*kinds, *3 * ["tag"], "odd", "bomb", *2 * ["nested"]]),
            copy.deepcopy(RIGHT[name]),
        )
        above, key = draw.choice(nodes(spoilt))
        above[key] = "HERE-"
        content = (
            dumped(spoilt, Path(name).suffix)
            .encode()
            .replace(b"HERE-", kinds[kind].encode(errors="surrogatepass"))
        )
    scene.write({name: content})
    read = draw.choice([("list",), ("list",), ("plan",), NOW, ("prune",), ("keep",), ()])
    words = (*NOW, "--runs", "runs.json") if listed else read
    what = f"{kind} ({deep}, {wide}) in {name}, {' '.join(words)}"
    yield Try(
        command(*words) if words else packed,
        what,
        kind in ("bytes", "noise") and (listed or words == ("list",)),
    )


def lines(scene: Scene) -> Iterator[Try]:
    """A command with one argument that cannot be."""
    words = (
        "zz",
        " ",
        "\u202e",
        "é√Δ",
        "../..",
        "/",
        "a" * 5000,
        "--",
        "0",
        "-1",
        "nan",
        "\n",
        "%s",
        "{}",
        "$(true)",
        "\U0001f600",
        "",
    )
    word, draw = scene.draw.choice(words), scene.draw
    options = [
        "scale",
        "paper",
        "device",
        "executor",
        "budget",
        "cores",
        "runs",
        "params",
        "part",
        "zz",
    ]
    files = ["absent.yaml", ".", "data", "runs.json", "/dev/null", "a" * 300, "é/x"]
    option, absent = f"--{draw.choice(options)}", f"--params={draw.choice(files)}"
    given = draw.choice([[option, word], [option], [absent], [word or "zz"]])
    name = draw.choice(
        ["train", "plan", "keep", "list", "prune", "notebook", "schema", "docs", "fly"]
    )
    budget = ["--budget", "0s"] if name == "train" and "--budget" not in given else []
    yield Try(command(name, *given, *budget), f"{name} {given}"[:300])


# ---- what lies there

DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "a bit": lambda whole, draw: _changed(
        whole, draw.randrange(len(whole)), 1 << draw.randrange(8)
    ),
    "a byte": lambda whole, draw: _changed(
        whole, draw.randrange(len(whole)), draw.randrange(1, 256)
    ),
    "cut": lambda whole, draw: whole[: draw.randrange(len(whole))],
    "empty": lambda whole, draw: b"",
    "zeros": lambda whole, draw: _blotted(whole, draw, bytes),
    "a hole": lambda whole, draw: _blotted(whole, draw, lambda long: b""),
    "twice": lambda whole, draw: whole + whole,
    "a digit": lambda whole, draw: _changed(
        whole, draw.choice([at for at, byte in enumerate(whole) if byte in b"0123456789"] or [0]), 1
    ),
    "noise": lambda whole, draw: draw.randbytes(len(whole)),
    "a line gone": lambda whole, draw: _lines(whole, draw, lambda line: []),
    "a line twice": lambda whole, draw: _lines(whole, draw, lambda line: [line, line]),
    "a line longer": lambda whole, draw: _lines(whole, draw, lambda line: [line[:-1] + b"0\n"]),
}


def _changed(whole: bytes, at: int, bits: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ bits]) + whole[at + 1 :]


def _blotted(whole: bytes, draw: random.Random, instead: Callable[[int], bytes]) -> bytes:
    at = draw.randrange(len(whole))
    long = min(draw.choice((1, 16, 512)), len(whole) - at)
    return whole[:at] + instead(long) + whole[at + long :]


def _lines(whole: bytes, draw: random.Random, instead: Callable[[bytes], list[bytes]]) -> bytes:
    found = whole.splitlines(keepends=True)
    at = draw.randrange(len(found))
    return b"".join([*found[:at], *instead(found[at]), *found[at + 1 :]])


def damage(pattern: str, work: Callable[[], int], out: str) -> Callable[[Scene], Iterator[Try]]:
    """Damage of one file, and what reads it."""

    def damaged(scene: Scene) -> Iterator[Try]:
        path = scene.path(pattern)
        # lines that only git misses
        unseen = {"empty", "a line gone", "gone"} if "results/kept" in str(path) else set()
        kind = scene.draw.choice([name for name in (*DAMAGES, "gone") if name not in unseen])
        before = path.read_bytes() or b"\n"
        path.unlink()
        if kind != "gone":
            path.write_bytes(DAMAGES[kind](before, scene.draw))
            scene.damaged[str(path.relative_to(scene.tree))] = path.read_bytes()
        # what is made anew where it lacks, or another plan; of kept results only git knows
        rewritten = kind == "gone"
        yield Try(work, f"{kind}: {path.relative_to(scene.tree)}", out=None if rewritten else out)

    return damaged


ADDED = (
    *4 * ("results/runs/q", "results/stored/q", "results/kept/q.jsonl"),
    *(
        "results/runs/q",
        "results/runs/q/run",
        "results/runs/p/more",
        "results/runs/.part",
        "results/stored/q",
        "results/kept/q.jsonl",
    ),
    *(
        f"results/runs/p/.x.json.{MACHINE}-4194303.part",
        f"results/kept/.x.{MACHINE}-4194303.part",
        "results/.kept.lock",
        ".snakemake",
    ),
    *(
        f"data/partitions/.x.npz.{MACHINE}-4194303.part",
        "data/partitions/x.npz",
        "data/partitions/x.png",
        "data/raw/.digits.fetch.lock",
    ),
    *(
        "data/prepared/.digits.lock",
        "data/prepared/.digits.part",
        "operations.json",
        "results/operations.json",
        "runs.json",
    ),
    *(
        f"{{run}}/{name}"
        for name in (
            "snapshots/round-9.safetensors",
            "snapshots/round-9.clients",
            "checkpoint.safetensors",
            "tsne-0.json",
            "checkpoint.clients",
            "progress.json",
            "newcomers-0.begun",
            ".x.part",
            f".record.json.{MACHINE}-4194303.part",
        )
    ),
)


def links(scene: Scene) -> Iterator[Try]:
    """Something else in the place of a file or folder, or beside them."""
    draw, run = scene.draw, scene.path(rf"/{OVER}$").parent
    if draw.random() < 0.65:
        path = scene.path("^(results|data)" + draw.choice(["", r"(/[^/]*){0,2}$"]), folders=True)
        is_file = not path.is_dir()
        shutil.move(path, scene.tree / "moved")
    else:
        path, is_file = (
            scene.tree / draw.choice(ADDED).format(run=run.relative_to(scene.tree)),
            True,
        )
        if path.exists():
            shutil.move(path, scene.tree / "moved")
        path.parent.mkdir(parents=True, exist_ok=True)
    targets = {
        "folder": scene.precious,
        "file": scene.precious / "doc.txt",
        "like": scene.precious / path.name,
        "itself": path.name,
        "absent": scene.precious / "absent",
        "within": scene.precious / "p",
        "run": next(scene.precious.glob("p/*")),
    }
    kind = draw.choice([*targets, *targets, "pipe", "other", "empty"])
    made = {
        "pipe": os.mkfifo,
        "empty": Path.touch,
        "other": Path.mkdir if is_file else lambda at: at.write_bytes(b"no folder"),
    }
    made[kind](path) if kind in made else path.symlink_to(targets[kind])
    name = str(path.relative_to(scene.tree))
    # a folder that a user may have put on another disk: new files come to be there, and none that
    # is there goes
    scene.elsewhere = path.is_symlink() and not is_file and not re.search("kept|/p/", name)
    if draw.random() < 0.5:  # something is to be done, from a checkpoint or from the beginning
        for over in scene.tree.glob(f"results/runs/*/*/{OVER}"):
            if not over.parent.is_symlink() and draw.random() < 0.7:
                over.unlink()
                for weights in over.parent.glob("model.*"):
                    other = weights.with_name(
                        weights.name.replace("model", draw.choice(["checkpoint", "moved"]))
                    )
                    if not os.path.lexists(other):
                        weights.rename(other)
    for words in draw.sample(
        [["prune"], ["keep"], ["store"], ["restore"], ["train"], ["list"], ["plan"]], 2
    ):
        yield Try(command(*words), f"{kind} at {name}, {' '.join(words)}")


def commits(scene: Scene) -> Iterator[Try]:
    """What a run, a study or a variable calls a commit, and git may take for an option."""
    draw, target = scene.draw, scene.precious / "doc.txt"
    name = draw.choice(
        [
            *(
                f"--output={target}",
                f"-o{target}",
                f"--exec=touch {scene.sentinel}",
                "-h",
                "--help",
                "HEAD",
                "HEAD~1",
                "HEAD^{/x}",
            ),
            *(
                f"--remote=ext::touch {scene.sentinel}",
                f";touch {scene.sentinel}",
                f"$(touch {scene.sentinel})",
                str(target),
                "main",
                "",
            ),
            *(
                "0" * 10**5,
                "0" * 40,
                "deadbeef",
                "deadbeef-dirty",
                "unknown-dirty",
                "unknown\n",
                "deadbeef\n--output=x",
                "\0",
                "-dirty",
                "é",
            ),
            *("１２３４５６７", None, 7, 1.5, True, [], ["deadbeef"], {"a": 1}),
        ]
    )
    what = f"commit {str(name)[:60]!r}"
    if draw.random() < 0.25 and isinstance(name, str) and "\0" not in name:
        shutil.rmtree(scene.tree / "results/runs")
        yield Try(lambda: without_checkout(scene, name), f"FEDREPRO_COMMIT, {what}")
        yield Try(command("keep"), f"FEDREPRO_COMMIT, {what}, keep")
        return
    path = scene.path(r"results/runs/.*(record|newcomers-\w+)\.json$")
    content = json.loads(path.read_text(encoding="utf-8"))
    content["environment"]["commit"] = name
    path.unlink()  # a link to another, perhaps
    if draw.random() < 0.5:
        records.write(path, content)  # sealed again
    else:
        path.write_text(json.dumps(content), encoding="utf-8")
    words = draw.choice(["keep", "keep", "list", "store", "gather"])
    yield Try(gathered if words == "gather" else command(words), f"{what} in {path.name}, {words}")


def without_checkout(scene: Scene, commit: str) -> int:
    provenance.PACKAGE = shutil.copytree(provenance.PACKAGE, scene.folder / "tree/copy/fedrepro")
    provenance.clear_caches()
    os.environ["FEDREPRO_COMMIT"] = commit
    return main.main(["train"])


def configurations(scene: Scene) -> Iterator[Try]:
    """What a user, a machine or a hook may have configured in git: it makes no difference to a
    run."""
    draw, touch, path = scene.draw, f"touch {scene.sentinel}", str(scene.precious)
    config = draw.choice(
        [
            "[log]\nshowSignature = true",
            "[core]\nautocrlf = true\neol = crlf",
            "[color]\nui = always",
            f"[core]\nfsmonitor = {touch}",
            f"[core]\nsshCommand = {touch}\npager = {touch}\neditor = {touch}",
            f"[alias]\nrev-parse = !{touch}\narchive = !{touch}",
            "[status]\nshowUntrackedFiles = all\nshort = true\nrelativePaths = false",
            "[core]\nabbrev = 40",
            "[core",
            "garbage",
            "\0",
            f"[gpg]\nprogram = {touch}",
            f"[diff]\nexternal = {touch}",
            "[core]\nrepositoryformatversion = 9",
            f"[core]\nhooksPath = {path}",
            "[core]\nbare = true",
            f"[include]\npath = {scene.tree}/config",
            "[extensions]\nobjectFormat = sha256",
            "[core]\nworktree = /absent",
            f'[core]\nattributesFile = {scene.tree}/attributes\n[filter "f"]\nclean = {touch}; '
            f"cat\nsmudge = {touch}; cat",
            "[i18n]\nlogOutputEncoding = utf-16",
            "[log]\ndate = raw",
            "[core]\nfileMode = false",
            f'[tar]\numask = 0777\n[tar "tar"]\ncommand = {touch}',
        ]
    )
    variables = draw.choice(
        [
            {},
            {},
            {},
            {"GIT_DIR": path},
            {"GIT_DIR": "/absent", "GIT_WORK_TREE": "/absent"},
            {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"},
            {"PATH": "/absent"},
            {"GIT_TRACE": str(scene.tree / "trace")},
            {"GIT_PAGER": touch},
            {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"},
            {"GIT_EXTERNAL_DIFF": touch},
            {"GIT_CONFIG_COUNT": "x"},
            {"GIT_INDEX_FILE": "/absent"},
            {"GIT_CONFIG_PARAMETERS": "x"},
            {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "core.fsmonitor",
                "GIT_CONFIG_VALUE_0": touch,
            },
            {"HOME": "/absent"},
            {"GIT_ALTERNATE_OBJECT_DIRECTORIES": "/absent"},
            {"XDG_CONFIG_HOME": path},
            {"GIT_REDIRECT_STDOUT": f"{path}/doc.txt"},
        ]
    )
    scene.write(
        {"attributes": b"*.py filter=f\n* export-ignore\n", "config": f"{config}\n".encode()}
    )

    def run(word: str) -> int:
        os.environ.update({"GIT_CONFIG_GLOBAL": str(scene.tree / "config")} | variables)
        provenance.clear_caches()
        code = main.main([word])
        assert word == "keep" or code == 0, "nothing is wrong with a run because of git"
        return code

    for word in ("train", "keep"):
        yield Try(lambda word=word: run(word), f"{config[:60]!r} {variables}, {word}")


# ---- servers


def answers(scene: Scene, data: bytes, server: Server) -> dict[str, Callable[[], Iterator[bytes]]]:
    """What a server may send in the place of a file."""
    draw, ok, secret = scene.draw, b"HTTP/1.1 200 OK\r\n", scene.precious / "doc.txt"
    status = draw.choice(
        [
            *range(200, 208),
            226,
            *range(300, 309),
            *range(400, 430),
            100,
            101,
            199,
            500,
            503,
            599,
            600,
            999,
            0,
            "abc",
            -1,
            10**6,
        ]
    )
    length = draw.choice(
        [
            "abc",
            "-1",
            "1e3",
            "",
            "0",
            "5",
            "99999999999",
            "9" * 5000,
            "5, 7",
            "0x10",
            "\u0661",
            "+5",
            " 5 ",
            "1.5",
        ]
    ).encode()
    location = draw.choice(
        [
            f"file://{secret}",
            f"ftp://127.0.0.1{secret}",
            f"//localhost{secret}",
            f"gopher://x{secret}",
            "data:,x",
            "javascript:x",
            "",
            "/",
            "http://",
            "http://[",
            "http://127.0.0.1:99999/",
            "http://127.0.0.1:1/",
            "http://127.0.0.1\0/",
            "\r",
            "é",
            "x" * 70_000,
            "http://u:secret@127.0.0.1:1/",
            f"unix://{secret}",
            files.IMAGES,
        ]
    )
    span = draw.choice(
        [
            b"bytes 0-3/9",
            b"bytes 5-8/9",
            b"bytes */9",
            b"x",
            b"bytes 9-1/9",
            b"bytes 0-99999999999/100000000000",
            b"",
        ]
    )
    pause, bomb = draw.choice([0.003, 0.02]), gzip.compress(bytes(10**7))

    def endless(head: bytes, piece: bytes = b"x" * 4096) -> Callable[[], Iterator[bytes]]:
        return lambda: itertools.chain([head], itertools.repeat(piece))

    def slow(head: bytes) -> Callable[[], Iterator[bytes]]:
        return lambda: itertools.chain([head], (time.sleep(pause) or b"x" for _ in range(10**6)))

    def once(*pieces: bytes) -> Callable[[], Iterator[bytes]]:
        return lambda: iter(pieces)

    def changing() -> Iterator[bytes]:
        """Another file from where the first answer broke off."""
        if asked := server.log[-1][1]:
            start = int(asked[6:-1])
            yield b"HTTP/1.1 206 X\r\nContent-Range: bytes %d-%d/%d\r\n" % (
                start,
                len(data) - 1,
                len(data),
            )
            yield b"Content-Length: %d\r\n\r\n" % (len(data) - start) + data[::-1][start:]
        else:
            yield ok + b"Content-Length: %d\r\n\r\n" % len(data) + data[: len(data) // 2]

    return {
        "endless": endless(ok + draw.choice([b"\r\n", b"Content-Length: 99999999\r\n\r\n"])),
        "endless headers": endless(ok, b"X: y\r\n"),
        "endless chunks": endless(
            ok + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"
        ),
        "endless header": endless(ok + b"X: "),
        "endless status": endless(b"HTTP/1.1 200 "),
        "slow": slow(ok + b"\r\n"),
        "slow headers": slow(ok + b"X: "),
        "slow status": slow(b"HTTP/1.1 200 "),
        "changing": changing,
        "nothing": once(),
        "length": once(ok + b"Content-Length: " + length + b"\r\n\r\n", data),
        "noise": once(draw.randbytes(500)),
        "old": once(data),
        "lengths": once(ok + b"Content-Length: 5\r\nContent-Length: 9\r\n\r\n", data),
        "cut": once(ok + b"\r\n", data[: len(data) // 3]),
        "location": once(
            b"HTTP/1.1 302 X\r\nLocation: "
            + location.encode("latin-1", "replace")
            + b"\r\nContent-Length: 0\r\n\r\n"
        ),
        "bytes": once(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\xff\xfe\r\n\r\n"),
        "empty": once(ok + b"Content-Length: 0\r\n\r\n"),
        "status": once(
            f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n\r\n".encode(), data
        ),
        "html": once(ok + b"Content-Type: text/html\r\n\r\n<html>sign in</html>"),
        "short": once(ok + b"Content-Length: 9999\r\n\r\n", data[:50]),
        "bomb": once(ok + b"Content-Length: %d\r\n\r\n" % len(bomb), bomb),
        "range": once(b"HTTP/1.1 206 X\r\nContent-Range: " + span + b"\r\n\r\n", data),
        "coded": once(
            ok
            + b"Content-Encoding: "
            + draw.choice([b"gzip", b"br", b"chunked", b"x"])
            + b"\r\n\r\n",
            data,
        ),
        "chunks": once(
            ok + b"Transfer-Encoding: chunked\r\n\r\n",
            draw.choice([b"zz\r\n", b"-5\r\n", b"ffffffffffffffff\r\n"]),
            data,
        ),
        "split": once(ok + b"X: a\r\n b\r\n: c\r\nd\r\n\r\n", data),
    }


def servers(scene: Scene) -> Iterator[Try]:
    """A server with the files of a data set, one of which it gives in a hostile way; or no server
    at all."""
    draw = scene.draw
    first = {
        "first": WORK
        | {"series": RUNS, "dataset": "mnist", "train_images": 20, "test_images": 9, "studies": {}}
    }
    scene.write(
        {
            "workflow/papers/p/experiments.yaml": first,
            "workflow/papers/p/scales.yaml": {"quick": {"first": {}}},
            "empty/x": b"",
        }
    )
    if draw.random() < 0.2:
        where = draw.choice(["absent", "runs.json", "empty", "/dev/null", "http://127.0.0.1:9/x",
        "https://u:secret@127.0.0.1:9", "http://[::1",
                             "ftp://x/y", "http://", "a" * 5000, "http://127.0.0.1:99999/",
                             "http://127.0.0.1:9/?token=secret", "file:///x",
                             "~nobody/x", "é\n"])  # fmt: skip
        yield Try(
            command("train", "--budget", "60s", "--data-mirror", where),
            f"mirror {where[:60]}",
            sure=True,
        )
        return
    whole, again, mirror = files.mnist_files(), draw.random() < 0.7, draw.random() < 0.5
    kind, victim = draw.choice(list(answers(scene, b"", Server()))), draw.choice(sorted(whole))

    def work() -> int:
        server = Server()
        server.daemon_threads, server.files = (
            True,
            {f"/{name}": data for name, data in whole.items()},
        )
        server.handle_error = lambda *_: None  # of who has heard enough
        answer = answers(scene, whole[victim], server)[kind]
        server.answers[f"/{victim}"] = lambda: (
            answer() if again or not server.answers.clear() else iter(())
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pinned = tuple(
            File(name, (f"{server.url}/{name}",), files.md5(data)) for name, data in whole.items()
        )
        SOURCES["mnist"] = dataclasses.replace(SOURCES["mnist"], files=pinned, pixels=None)
        _download.MAX_BYTES, _download.BACKOFF, _download.WINDOW, _download.TIMEOUT = (
            LARGEST,
            0,
            0.05,
            (0.3, 0.3),
        )
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            os.environ.pop(name, None)
        code = main.main(
            ["train", "--budget", "60s", *(["--data-mirror", server.url] if mirror else [])]
        )
        found = {path.name: path.read_bytes() for path in Path("data/raw/mnist").glob("*ubyte*")}
        assert code or found == {name: whole[name] for name in found}, (
            "other files than the server's were taken"
        )
        left = sum(path.stat().st_size for path in Path("data/raw").rglob("*") if path.is_file())
        assert left < 2 * LARGEST, f"{left} bytes were left"
        return code

    yield Try(work, f"{kind}, {'mirror' if mirror else 'official'}{'' if again else ', once'}")


TOPICS: dict[str, tuple[str, Callable[[Scene], Iterator[Try]]]] = {  # from which place each starts
    "names": ("trained", names),
    "values": ("fresh", values),
    "links": ("whole", links),
    "texts": ("fresh", texts),
    "commits": ("trained", commits),
    "kept": ("kept", damage("^results/kept", gathered, "out")),
    "shown": ("kept", damage("^results/kept", LISTED, "")),
    "git": ("fresh", configurations),
    "servers": ("fresh", servers),
    "options": ("fresh", options),
    "runs": ("trained", damage("^results/runs", gathered, "out")),
    "begun": ("begun", damage("checkpoint", TRAIN, "results")),
    "waiting": ("waiting", damage("begun|model|record", TRAIN, "results")),
    "data": ("fresh", damage("^data/", TRAIN, "results")),
    "listed": ("fresh", damage("^runs.json", command("train", "--runs", "runs.json"), "results")),
    "mirror": ("archives", damage("^mirror/.*z", identified, "out")),
    "lines": ("fresh", lines),
}

# ---- the campaign


def picture(top: Path, but: Path | None = None) -> dict[str, tuple]:
    """All that lies in a folder, links as links."""
    found: dict[str, tuple] = {}
    for root, folders, names in os.walk(top):
        folders[:] = [name for name in folders if Path(root, name) != but]
        for path in (Path(root, name) for name in (*folders, *names)):
            mode = path.lstat().st_mode
            what = {stat.S_IFLNK: os.readlink, stat.S_IFREG: Path.read_bytes}.get(
                stat.S_IFMT(mode), lambda path: None
            )
            found[str(path.relative_to(top))] = (mode, what(path))
    return found


def finished(tree: Path) -> dict[str, tuple]:
    """What is kept, and the finished runs, of which nothing may go."""
    found = picture(tree / "results")
    over = tuple(name.removesuffix(OVER) for name in found if name.endswith(f"/{OVER}"))
    ours = {
        name: content
        for name, content in found.items()
        if name.startswith(("kept/", *over)) and stat.S_ISREG(content[0])
    }
    return {
        name: content
        for name, content in ours.items()
        if Path(name).name not in cases.FREE and "/." not in name
    }


def stopped() -> int:
    """Train, where each run and each study is stopped after its first step."""
    Limits.forbid = lambda limits, seconds: seconds > 0
    return main.main(["train"])


def mirror(folder: Path) -> None:
    """Archives of four kinds, small, as mirrors lay them out."""
    files.write_all(folder / "mnist", files.mnist_files())
    files.tar_gz(folder / files.CIFAR10_ARCHIVE, files.cifar10_files())
    (folder / "emnist").mkdir()
    images, labels = np.arange(26 * 784).reshape(26, 28, 28) % 251, np.arange(1, 27)
    with zipfile.ZipFile(folder / "emnist/gzip.zip", "w") as archive:
        for part, (name, array) in itertools.product(
            ("train", "test"), (("images-idx3", images), ("labels-idx1", labels))
        ):
            archive.writestr(
                f"gzip/emnist-letters-{part}-{name}-ubyte.gz",
                gzip.compress(files.idx_bytes(array), mtime=0),
            )
    (folder / "pneumonia28").mkdir()
    arrays = {
        f"{part}_images": np.full((4, 28, 28), 7, np.uint8) for part in ("train", "val", "test")
    }
    arrays |= {
        f"{part}_labels": np.arange(4, dtype=np.uint8)[:, None] % 2
        for part in ("train", "val", "test")
    }
    np.savez_compressed(folder / "pneumonia28/pneumoniamnist.npz", **arrays)
    for name in COPIES:
        files.declare(folder, name)


def repository(folder: Path) -> Path:
    """A checkout of the package's code; the package in it."""
    package = folder / "src/fedrepro"
    shutil.copytree(provenance.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-q", "-m", "m"],
        ["commit", "-q", "--allow-empty", "-m", "n"],
    ):
        subprocess.run([*git, *words], check=True)
    return package


class Hostile:
    """Places where all is well, what comes out of them, and what lies beside them."""

    def __init__(self, folder: Path, verbose: bool) -> None:
        self.folder, self.verbose = folder, verbose
        for name in [name for name in os.environ if name.startswith(("GIT_", "FEDREPRO_"))]:
            del os.environ[name]
        modules = (
            "dvc.repo",
            "requests",
            *(
                f"fedrepro.experiments.{name}"
                for name in ("keep", "prune", "run_list", "study_runner")
            ),
        )
        for module in (*modules, "fedrepro.runs.dvc_store"):  # so that no case has to
            importlib.import_module(module)
        provenance.PACKAGE = repository(folder / "repository")
        provenance.clear_caches()
        start, begun, waiting, trained, fresh, whole, kept = (
            folder / name
            for name in ("start", "begun", "waiting", "trained", "fresh", "whole", "kept")
        )
        Scene(folder, random.Random(0)).write(
            {f"../start/{name}": content for name, content in RIGHT.items()}
        )
        self.well(start, command(*NOW), (0, 3))  # prepares the data, remembers the digests of code
        self.well(start, command("plan", "--export", "runs.json"))
        for place, before, times in ((begun, start, 1), (waiting, begun, 2)):
            shutil.copytree(before, place)
            for _ in range(times):
                self.well(place, stopped, (0, 3))
        shutil.copytree(start, trained)
        self.well(trained, TRAIN)
        shutil.copytree(trained, whole)
        self.well(whole, command("keep"))
        shutil.copytree(whole, kept, ignore=shutil.ignore_patterns("runs"))
        self.well(whole, command("store"))
        shutil.copytree(trained, fresh, ignore=shutil.ignore_patterns("results"))
        mirror(folder / "archives/mirror")
        self.right: dict[str, tuple[dict[str, bytes], str]] = {}

    def well(self, place: Path, work: Callable[[], int], codes: tuple[int, ...] = (0,)) -> Ended:
        ended = cases.ended(place, work)
        if ended.code not in codes:
            raise SystemExit(f"nothing is wrong, and yet: {ended.text}")
        return ended

    def expected(self, topic: str, one: Try) -> tuple[dict[str, bytes], str]:
        """What comes out, and is shown, where nothing is spoiled."""
        if topic not in self.right:
            with tempfile.TemporaryDirectory() as folder:
                tree = shutil.copytree(
                    self.folder / TOPICS[topic][0], Path(folder) / "tree", symlinks=True
                )
                text = self.well(tree, one.work).text
                self.right[topic] = (
                    cases.contents(tree / one.out) if one.out else {},
                    re.sub(TIMES, "", text),
                )
        return self.right[topic]

    def __call__(self, number: int, draw: random.Random) -> str:
        topic = list(TOPICS)[number % len(TOPICS)]
        place, attack = TOPICS[topic]
        with tempfile.TemporaryDirectory() as folder:
            scene = self.scene(Path(folder), place, draw)
            outcomes = []
            for one in attack(scene):
                try:
                    outcomes.append(self.tried(scene, topic, one))
                except Failed as failed:
                    raise Failed(f"{topic}: {one.what}: {failed}") from None
                if self.verbose:
                    cases.say(f"{number} {topic}: {one.what}: {outcomes[-1]}"[:500])
        return (
            f"{topic}: "
            f"{'one message' if any(outcome != 'allowed' for outcome in outcomes) else 'allowed'}"
        )

    def scene(self, folder: Path, place: str, draw: random.Random) -> Scene:
        scene = Scene(folder, draw)
        shutil.copytree(self.folder / place, scene.tree, symlinks=True)
        run = sorted((self.folder / "trained").glob("results/runs/p/*"))[0]
        shutil.copytree(run, scene.precious / "p" / f"{run.name[:-1]}x")
        shutil.copytree(run, scene.precious, dirs_exist_ok=True)
        for name in (
            "doc.txt",
            "sub/doc.txt",
            f".x.{MACHINE}-4194303.part",
            "x.npz",
            "meta.json",
            "checkpoint.clients/0-1.safetensors",
            "round-9.safetensors",
            "snapshots/round-9.clients/0-8.safetensors",
            "SHA256SUMS",
            "log.txt",
            "runs.json",
        ):
            path = scene.precious / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"mine, in {name}\n", encoding="utf-8")
        (scene.precious / "link").symlink_to("sub")
        (scene.precious / "file").symlink_to("doc.txt")
        return scene

    def tried(self, scene: Scene, topic: str, one: Try) -> str:
        """Do it, and look at what must not have happened."""
        right = self.expected(topic, one) if one.out is not None else None
        beside, ours = picture(scene.folder, scene.tree), finished(scene.tree)
        ended = cases.ended(scene.tree, one.work, SECONDS)
        allowed = ended.code in (0, 3) and "Traceback" not in ended.text and not one.sure
        message = "allowed" if allowed else cases.one_message(ended)
        if "secret" in ended.text:
            raise Failed(f"a secret is shown:\n{ended.text[-2000:]}")
        after, left = picture(scene.folder, scene.tree), finished(scene.tree)
        if other := [
            name for name in cases.different(beside, after) if name in beside or not scene.elsewhere
        ]:
            raise Failed(
                f"written or deleted beside the working tree: {other}\n{ended.text[-2000:]}"
            )
        shelf = b"".join(content for name, (_, content) in left.items() if name.startswith("kept/"))
        gone = [name for name in ours if ours[name] != left.get(name)]
        if lost := [
            name
            for name in gone
            if name in left or name.startswith("kept/") or Path(name).parts[2].encode() not in shelf
        ]:
            raise Failed(f"lost or changed: {lost}\n{ended.text[-2000:]}")
        if (
            right is not None
            and not allowed
            and not any(path.name in message for path in scene.tree.rglob("*.*"))
        ):
            raise Failed(f"names no file: {message}")
        if right is not None and ended.code == 0:
            out, text = right
            found = cases.contents(scene.tree / one.out) if one.out else {}
            other = [
                name
                for name in cases.different(out, found)
                if name not in scene.damaged or found.get(name) != scene.damaged[name]
            ]
            if other or (not one.out and text != re.sub(TIMES, "", ended.text)):
                raise Failed(
                    f"not noticed, and these came out otherwise: {other}\n{ended.text[-1500:]}"
                )
        return message


if __name__ == "__main__":
    chosen = cases.parse_options("hostile", 1800, verbose="print every message")
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(
            cases.run_campaign("hostile", lambda: Hostile(Path(folder), chosen.verbose), chosen)
        )
