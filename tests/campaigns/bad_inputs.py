"""Generated bad inputs: settings, options of every method, YAML as text, a paper's file, its digitised curves, lists of runs,
command lines, mirrors. Each has to be answered by one message, without a traceback and not with exit code 0. A generated change
that turns out to be allowed (another name for a series) is counted apart.

`python -m tests.campaigns.bad_inputs --seed 0 --count 1000`
"""

import copy
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from fedrepro.config import registry
from support.federation import ALGORITHMS
from tests.campaigns import cases
from tests.campaigns.cases import Failed
from tests.campaigns.right import ARTIFACTS, CLAIMS, CURVES, EXPERIMENTS, PARAMS, RUNS, SCALES, WORK

NO_NUMBER = (float("nan"), float("inf"), -float("inf"), "many", "", [1, [2]], {"zz": 1}, True, "1e5x", "\u0661\u0662x", "0x1g")
NO_TEXT = ([["x"]], {"zz": {"zz": 1}}, 7.5, True, [], [None], [1], {1: 2})
NO_LIST = ({"zz": 1}, [[[]]], 7, "zz zz", [{}], [None])
NO_SETTINGS = (7, "zz zz", [["x"]], [], True, float("nan"))
TRAPS = {
    "tab": "\tx: 1",
    "open": "x: [1, {",
    "octal": "scale: 0777",
    "hidden": "x: a\u202eb",
    "deep": "x: " + "[" * 3000 + "]" * 3000,
    "sixty": "scale: 1:30",
    "alias": "x: *nobody",
    "tag": "x: !!python/object/apply:os.system ['true']",
    "long": f"x: {'9' * 5000}",
}
WORDS = (
    *("zz", "", " ", "\u202e", "é√Δ", "../..", "/", "a" * 5000, "--", "0", "-1", "nan", "\n", "%s", "{}", "$(true)"),
    "\U0001f600",
)
PLACES = {"params": "params.yaml", "curves": "workflow/papers/p/curves.json", "runs": "runs.json"}
RIGHT = {"params": PARAMS, "experiments": EXPERIMENTS, "scales": SCALES, "artifacts": ARTIFACTS, "claims": CLAIMS}
OPTIONS = ("scale", "paper", "experiment", "device", "executor", "budget", "cores", "runs", "params", "zz")


class Place:
    """A folder to work in, with prepared data and a list of runs, where all that is asked for is right."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for command in (("train", "--budget", "0s"), ("list",), ("plan", "--export", "runs.json")):
            self.write()
            if (ended := cases.command(folder, *command)).code not in (0, 3):
                raise SystemExit(f"nothing is wrong, and yet: {ended.text}")
        self.runs = json.loads((folder / "runs.json").read_text(encoding="utf-8"))

    def write(self, **given: str | bytes) -> None:
        """Write the right files again, or what is given in the place of some."""
        shutil.rmtree(self.folder / "results", ignore_errors=True)
        right = {name: dumped(values) for name, values in RIGHT.items()} | {"curves": json.dumps(CURVES), "runs": "[]"}
        for name, content in (right | given).items():
            path = self.folder / PLACES.get(name, f"workflow/papers/p/{name}.yaml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def dumped(values: Any) -> str:
    return yaml.safe_dump(values, allow_unicode=True, sort_keys=False)


def spoiled(values: Any, draw: random.Random) -> tuple[Any, bool]:
    """A copy with one node that cannot be, and whether that is sure: a name may be free to choose."""
    values = copy.deepcopy(values)
    nodes = [(above, key) for above in _containers(values) for key in _keys(above) if above[key] is not None]
    above, key = draw.choice(nodes)
    node = above[key]
    if isinstance(node, dict) and node and draw.random() < 0.5:
        return _misspelt(values, node, draw), False
    kinds = ((bool, NO_SETTINGS[:3]), (int | float, NO_NUMBER), (str, NO_TEXT), (list, NO_LIST), (dict, NO_SETTINGS))
    above[key] = copy.deepcopy(draw.choice(next(bad for kind, bad in kinds if isinstance(node, kind))))
    return values, True


def _misspelt(values: Any, node: dict, draw: random.Random) -> Any:
    key = draw.choice(list(node))
    wrong = draw.choice([f"{key}z", str(key)[1:], str(key).upper(), f" {key}", 7, "zz", ""])
    entries = [(wrong if name == key else name, value) for name, value in node.items()]
    node.clear()
    node.update(entries)
    return values


def _containers(values: Any) -> list:
    below = [values[key] for key in _keys(values)] if isinstance(values, dict | list) else []
    return ([values] if isinstance(values, dict | list) else []) + [found for one in below for found in _containers(one)]


def _keys(values: dict | list) -> list:
    return list(values) if isinstance(values, dict) else list(range(len(values)))


def settings(place: Place, draw: random.Random) -> tuple[tuple[str, ...], bool]:
    name = draw.choice(["params", "experiments", "experiments", "scales"])
    values, sure = spoiled(RIGHT[name], draw)
    place.write(**{name: dumped(values)})
    return ("train", "--budget", "0s"), sure


def option(place: Place, draw: random.Random) -> tuple[tuple[str, ...], bool]:
    """One option of one method, network, data set, partition, schedule, task or study, which nobody sets otherwise."""
    rooms = {"dataset": "datasets", "partition": "partitions", "model": "models", "schedule": "schedules", "task": "tasks"}
    kind = draw.choice([*rooms, "algorithm", "algorithm", "study"])
    room = {"algorithm": "algorithms", "study": "studies"}.get(kind) or rooms[kind]
    name = draw.choice(ALGORITHMS if kind == "algorithm" else registry.names(room))
    known = list(registry.options_model(room, name).model_fields)
    key = draw.choice([*known, *known, "zz"])
    numbers = [float("nan"), -3.5, 10**17 + 0.5, True]
    lists = [[], [1], ["zz"], [[-1]], [[["x"]]], [float("nan")], [None], [{"zz": 1}]]
    value = draw.choice([*numbers, *lists, {"zz": {}}, {1: 2}, {}, "zz zz", "", "0", "é" * 300])
    clients = {"clients": 3} if kind == "partition" else {}
    choice = {key: value} if kind == "study" else {"name": name, **clients, key: value}
    changes = {"algorithm": {"series": {"A": choice}}, "study": {"studies": {name: choice}}}.get(kind, {kind: choice})
    alone(place, {"series": {"A": {"name": "fedavg"}}} | changes)
    return ("train", "--budget", "0s"), False


def alone(place: Place, changes: dict) -> None:
    """Write settings of one experiment."""
    place.write(experiments=dumped({"first": WORK | changes}), scales="quick: {first: {}}")


def numbers(place: Place, draw: random.Random) -> tuple[tuple[str, ...], bool]:
    """A number that is far too large, or negative, where there is one."""
    key = draw.choice([key for key, value in WORK.items() if isinstance(value, int | float)])
    value = draw.choice([-1, 10**12, 1e39, -0.5, 1e308, 10**17, 10**400, 10**19 - 1])
    alone(place, {"series": RUNS, key: value})
    return ("plan",), False


def text(place: Place, draw: random.Random) -> tuple[tuple[str, ...], bool]:
    """YAML that is cut, traps or is no YAML, in one of the files."""
    name = draw.choice(list(RIGHT))
    lines = dumped(RIGHT[name]).splitlines()
    at = draw.randrange(len(lines))
    keyed = [number for number, line in enumerate(lines) if ":" in line]
    damage = draw.choice([*TRAPS, "twice", "bytes", "noise", "cut"])
    if damage == "twice":
        at = draw.choice([number for number in keyed if not lines[number].endswith(":") and "- " not in lines[number]])
        lines.insert(at, lines[at])
    if damage in TRAPS:
        lines.insert(0, TRAPS[damage])
    content = "\n".join(lines).encode()
    if damage == "cut":
        content = content[: draw.randrange(1, len(content) * 2 // 3)]
    if damage == "bytes":
        content = content[:at] + b"\xff\xfe\x80" + content[at:]
    if damage == "noise":
        content = draw.randbytes(draw.randrange(1, 3000))
    place.write(**{name: content})
    return ("list",), damage != "cut"  # between two lines, what is left may be a paper that has no figures yet


def paper(place: Place, draw: random.Random) -> tuple[tuple[str, ...], bool]:
    name = draw.choice(["artifacts", "claims"])
    values, sure = spoiled(RIGHT[name], draw)
    place.write(**{name: dumped(values)})
    return ("list",), sure


def curves(place: Place, draw: random.Random) -> tuple[tuple[str, ...], bool]:
    values, sure = spoiled(CURVES, draw)
    content = json.dumps(values)
    if draw.random() < 0.3:
        wrong = ["[]", "{", "7", "null", "[" * 9000, content[:-9], json.dumps(CURVES).replace("0.5", "NaN"), "\x00"]
        content, sure = draw.choice(wrong), True
    place.write(curves=content)
    return ("list",), sure


def runs(place: Place, draw: random.Random) -> tuple[tuple[str, ...], bool]:
    listed = [{key: value for key, value in run.items() if key != "seal"} for run in place.runs]
    values, sure = spoiled(draw.choice([listed, place.runs]), draw)
    content = json.dumps(values)
    if draw.random() < 0.3:
        folder = draw.choice(["../..", "/", "", "x", "\x00", "a/../../b", "results/runs/p/", 7, None, ["x"]])
        content, sure = json.dumps([place.runs[0] | {"folder": folder}]), True
    elif draw.random() < 0.3:
        content, sure = draw.choice(["{}", "[[]]", "[7]", "[{}]", "null", content[:-5], "[" * 9000, "\ufeff", '"x"']), True
    place.write(runs=content)
    return ("train", "--runs", "runs.json", "--budget", "0s"), sure


def line(place: Place, draw: random.Random) -> tuple[tuple[str, ...], bool]:
    """A command with one argument that cannot be."""
    place.write()
    command = draw.choice(["train", "plan", "keep", "list", "prune", "notebook", "schema", "docs", "fly"])
    word = draw.choice(WORDS)
    kind = draw.randrange(4)
    given = {
        0: [f"--{draw.choice(OPTIONS)}", word],
        1: [f"--{draw.choice(OPTIONS)}"],
        2: [f"--params={draw.choice(['absent.yaml', '.', 'data', 'runs.json', '/dev/null', 'a' * 300, 'é/x'])}"],
        3: [word or "zz"],
    }[kind]
    return (command, *given, *(["--budget", "0s"] if command == "train" and "--budget" not in given else [])), False


def mirror(place: Place, draw: random.Random) -> tuple[tuple[str, ...], bool]:
    """Where the data are not."""
    alone(place, {"series": RUNS, "dataset": draw.choice(["mnist", "cifar10"])})
    (place.folder / "empty").mkdir(exist_ok=True)
    where = draw.choice(
        ["absent", "runs.json", "empty", "/dev/null", "http://127.0.0.1:9/x", "https://u:secret@127.0.0.1:9", "http://[::1", "ftp://x/y",
         "http://", "a" * 5000, "http://127.0.0.1:99999/", "http://127.0.0.1:9/?token=secret", "file:///x", "~nobody/x", "é\n"]
    )  # fmt: skip
    return ("train", "--budget", "60s", "--data-mirror", where), True


GROUPS = (settings, settings, option, option, numbers, text, paper, paper, curves, runs, line, mirror)


class Inputs:
    def __init__(self, folder: Path, verbose: bool) -> None:
        self.place, self.verbose = Place(folder), verbose

    def __call__(self, number: int, draw: random.Random) -> str:
        group = GROUPS[number % len(GROUPS)]
        arguments, sure = group(self.place, draw)
        ended = cases.command(self.place.folder, *arguments)
        if "secret" in ended.text:
            raise Failed(f"{group.__name__}, {arguments}: a secret is shown:\n{ended.text[-2000:]}")
        if ended.code in (0, 3) and not sure and "Traceback" not in ended.text:
            return "allowed after all"
        try:
            message = cases.one_message(ended)
        except Failed as failed:
            raise Failed(f"{group.__name__}, {' '.join(arguments)[:300]}: {failed}") from None
        if self.verbose:
            cases.say(f"{number} {group.__name__}: {message}"[:400])
        return "one message"


if __name__ == "__main__":
    options = cases.parse_options("bad_inputs", 1000, verbose="print every message")
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(cases.run_campaign("bad_inputs", lambda: Inputs(Path(folder), options.verbose), options))
