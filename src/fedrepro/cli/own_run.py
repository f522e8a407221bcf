"""The command `fedrepro run`: a training, or a comparison of some, whose settings stand on the
command line.

They are written as the files of a small paper into a folder of their own, which is then checked,
planned, trained and drawn as papers are; `fedrepro train --params <folder>/params.yaml` accepts the
same files.
"""

import copy
import itertools
import logging
import math
import re
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from fedrepro.config import registry, strict_yaml
from fedrepro.config.params import PAPERS, Experiment
from fedrepro.core.errors import Failures, UserError, error_prefix, unknown_name
from fedrepro.core.files import atomic_write, single_process
from fedrepro.core.provenance import value_digest

NAME = "run"  # of the paper, of its scale and of its experiment
SETTINGS = [
    name for name in Experiment.model_fields if name not in ("series", "seeds", "studies", "tuning")
]
DEFAULTS: dict[str, Any] = {
    "partition": {"name": "iid"},
    "model": "mlp",
    "rounds": 20,
    "local_epochs": 1,
    "batch_size": 20,
}
DEFAULTS |= {"lr": 0.1, "weighting": "samples"}
# clients, and how many of them take part in a round at most, unless settings say
CLIENTS, PARTICIPANTS = 10, 10
MOST = 1000  # seeds, and series
TICKS = "▁▂▃▄▅▆▇█"


def settings_files(methods: Sequence[str], dataset: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the files of a paper that has one experiment: name -> content.

    Args:
        words: `key=value`: a setting of an experiment, `a.b=value` one in it, or an option of the
            methods that have it. Values with commas are alternatives, each a series of its own;
            `seeds=0..4` are five.
    """
    registry.find("datasets", dataset)
    options = {
        method: registry.options_model("algorithms", method).model_fields for method in methods
    }
    # `_set` changes what is nested
    shared: dict[str, Any] = copy.deepcopy(DEFAULTS) | {"dataset": {"name": dataset}}
    alternatives: dict[str, list] = {}  # of settings that all methods have, or of options
    seeds, given = [0], set[str]()
    for word in words:
        key, _, text = word.partition("=")
        key = re.sub("^clients$", "partition.clients", key)
        values, top = _values(key, text), key.split(".")[0]
        owners = [method for method, own in options.items() if top in own]
        if key in given:
            raise UserError(f"{key}: given twice. Give alternatives in one, with commas")
        given.add(key)
        if key in ("dataset", "dataset.name"):
            raise UserError(f"{key}: --data names the data set ({dataset}). Leave it out")
        if top in SETTINGS and owners:
            problem = f"a setting of all clients, and an option of {' and '.join(owners)}"
            raise UserError(
                f"{key}: {problem}. Write it into the files of a paper: fedrepro new paper NAME"
            )
        if key == "seeds":
            seeds = values
        elif not (top in SETTINGS or owners) or key.count(".") > 1:
            others = [
                one
                for one in registry.names("algorithms")
                if top in registry.options_model("algorithms", one).model_fields
            ]
            if others and not owners:
                raise UserError(
                    f"{top}: an option of {', '.join(others)}. Name such a method, or leave "
                    f"{top} out"
                )
            raise unknown_name(
                "setting", key, [*SETTINGS, "clients", "seeds", *itertools.chain(*options.values())]
            )
        elif top in SETTINGS and len(values) == 1:
            _set(shared, key, values[0])
        else:
            alternatives[key] = values
    series: dict[str, Any] = {}
    for method, own in options.items():
        grid = {
            key: values
            for key, values in alternatives.items()
            if key.split(".")[0] in {*SETTINGS, *own}
        }
        if math.prod(map(len, grid.values())) > MOST:
            raise UserError(
                f"{method}: more than {MOST} combinations of {', '.join(grid)}. Give fewer values"
            )
        for chosen in itertools.product(*grid.values()):
            choice: dict[str, Any] = {"name": method}
            settings = copy.deepcopy(shared)
            for key, value in zip(grid, chosen, strict=True):
                _set(choice if key.split(".")[0] in own else settings, key, value)
            changed = {
                key: value
                for key, value in _with_clients(settings).items()
                if value != _with_clients(shared).get(key)
            }
            varied = [
                f"{key} {value}"
                for key, value in zip(grid, chosen, strict=True)
                if len(grid[key]) > 1
            ]
            series[" ".join([method, *varied])] = choice | (
                {"overrides": changed} if changed else {}
            )
    shared = _with_clients(shared)
    table, first = {"kind": "convergence", "panels": [NAME], "last": 1}, next(iter(series))
    tables = {"final": table | {"title": "At the end", "panels": [NAME]}}
    if len(series) > 1:
        tables["leads"] = table | {"title": f"At the end, above {first}", "baseline": first}
    scale = {"seeds": seeds, "compare": "none", "note": "settings of the command line"}
    return {
        "params.yaml": {
            "scale": NAME,
            "papers": [NAME],
            "scales": {NAME: scale},
            "use_kept_results": False,
        },
        f"{PAPERS}/{NAME}/experiments.yaml": {NAME: shared | {"series": series}},
        f"{PAPERS}/{NAME}/scales.yaml": {NAME: {NAME: {}}},
        f"{PAPERS}/{NAME}/artifacts.yaml": {
            "title": f"{', '.join(methods)} on {dataset}",
            "reference": "settings of a command line",
            "experiments": {NAME: {"name": dataset}},
            "figures": {"curves": {"title": "Accuracy", "experiment": NAME}},
            "tables": tables,
        },
        f"{PAPERS}/{NAME}/claims.yaml": {},
    }


def _with_clients(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the number of clients, and of those that take part in a round, unless
    they say."""
    if not isinstance(partition := settings["partition"], dict):
        return settings
    partition = {"clients": CLIENTS} | partition
    most = partition["clients"] if isinstance(partition["clients"], int | float) else PARTICIPANTS
    return {"clients_per_round": min(PARTICIPANTS, most)} | settings | {"partition": partition}


def _values(key: str, text: str) -> list:
    """Return the alternatives in a text: `0..4` five numbers, `a,b` two values, anything else one.
    Values are YAML's."""
    if span := re.fullmatch(r"(\d+)\.\.(\d+)", text):
        first, last = int(span[1]), int(span[2])
        if not first <= last < first + MOST:
            raise UserError(f"{key}: expected 1 to {MOST} numbers, the smaller first (got {text})")
        return list(range(first, last + 1))
    parts = [text] if text.startswith(("[", "{")) else text.split(",")
    try:
        with error_prefix(key):
            return [strict_yaml.load(part) for part in parts]
    except yaml.YAMLError:
        raise UserError(f"{key}: not a value of YAML (got {text!r})") from None


def _set(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set `a.b` in nested settings; a name in the place of `a` is `{"name": ...}`."""
    *path, last = key.split(".")
    for part in path:
        inner = settings.get(part, {})
        settings = settings.setdefault(part, {}) if isinstance(inner, dict) else settings
        if not isinstance(inner, dict):
            settings[part] = {"name": inner}
            settings = settings[part]
    if isinstance(value, str) and isinstance(settings.get(last), dict):
        settings[last]["name"] = value
    else:
        settings[last] = value


def run(options: Namespace, plan_project: Callable[[Namespace], Any]) -> int:
    """Train, draw and print what the command line says; the files are in the folder that it names
    last. `plan_project`: commands.Project."""
    methods = [word for word in options.words if "=" not in word]
    if not methods:
        raise UserError(
            f"run: name a method. Choose from {', '.join(registry.names('algorithms'))}"
        )
    files = settings_files(methods, options.data, [word for word in options.words if "=" in word])
    name = f"{'-'.join([options.data, *dict.fromkeys(methods)])}-{value_digest(files, 6)}"
    folder = options.out or options.results / "own" / name
    shared = {
        key: value
        for key, value in files[f"{PAPERS}/{NAME}/experiments.yaml"][NAME].items()
        if key != "series"
    }
    options.results = folder
    with tempfile.TemporaryDirectory() as trial:  # a mistake leaves nothing
        options.params = _write(files, Path(trial))
        try:
            plan_project(options).plan()
        except UserError as error:
            raise UserError(
                as_typed(str(error), [word for word in options.words if "=" in word])
            ) from None
    sys.stdout.write(
        yaml.safe_dump(shared, default_flow_style=True, sort_keys=False, width=math.inf)[1:-2]
        + "\n\n"
    )
    options.params = folder / "params.yaml"
    if options.params.exists() and not (folder / PAPERS / NAME).is_dir():
        raise UserError(
            f"{options.params}: not of a run of the command line, and would be replaced. Choose "
            f"another --out"
        )
    with single_process(folder / ".run.lock", wait=False):
        _write(files, folder)
        _make(plan_project(options), folder)
    return 0


def _write(files: Mapping[str, Any], folder: Path) -> Path:
    """Write settings files, and return the first."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / path) as temporary:
            temporary.write_text(
                yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8"
            )
    return folder / next(iter(files))


def as_typed(message: str, words: Sequence[str]) -> str:
    """Return an error in the files of settings with the `key=value` that it is about in place of
    file and key."""
    keys = {
        re.sub("^clients$", "partition.clients", word.partition("=")[0]): word for word in words
    }
    keys = {key.split(".")[0]: word for key, word in keys.items()} | keys
    lines = {}
    for line in message.split("\n"):
        line = re.sub(
            r"^/.*?\.yaml: (run: )?(series\.[^:]*: )?(scales\.run\.)?(algorithm \w+: )?", "", line
        )
        line = re.sub(
            r"^(unknown (\w+) )", r"\2: \1", re.sub(r"^(\w+) \w+: (?=\w+:)", r"\1.", line)
        )
        for key, word in sorted(keys.items(), key=lambda item: -len(item[0])):
            if re.match(rf"{re.escape(key)}[.:]", line):
                line = f"{word}: {line[len(key) + 1 :].lstrip()}"
                break
        lines[line] = None
    return "\n".join(lines)


def _make(project: Any, folder: Path) -> None:
    from fedrepro.experiments import plan
    from fedrepro.report import artifacts
    from fedrepro.report.figures import Curves
    from fedrepro.report.paper import read_papers
    from fedrepro.runs import gather, mlflow_mirror
    from fedrepro.training import runner

    [chosen], params = project.select([]), project.params
    if chosen.skipped:
        raise UserError(str(chosen.skipped))
    failures = Failures()
    runner.train(
        plan.unique_runs([chosen]),
        project.paths,
        mirror=params.mirror,
        device=params.device_choice,
        executor=params.executor,
        cores=params.cores_per_run,
        failures=failures,
    )
    failures.raise_all()
    gather.gather(plan.result_sources(chosen, "", params), folder / "data")
    spec = read_papers(params)[NAME]
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # what a PDF embeds
    evidence = artifacts.load_paper_data(spec, folder)
    artifacts.write_artifacts(spec, [*spec.figures, *spec.tables], folder)
    if params.mlflow_uri:
        outcome = mlflow_mirror.mirror(plan.planned_runs([chosen]), params.mlflow_uri, params.scale)
        sys.stdout.write(outcome.problem + "\n" if outcome.problem else "")
    for label, line in cast(Curves, spec.figures["curves"]).data(evidence).lines.items():
        sys.stdout.write(f"{_sparkline([one.mean for one in line.estimates.values()])}  {label}\n")
    for table in spec.tables.values():
        grid = table.build(evidence)
        rows = [grid.columns, *grid.text_rows()]
        widths = [max(len(str(row[place])) for row in rows) for place in range(len(rows[0]))]
        sys.stdout.write(f"\n{table.title}\n")
        sys.stdout.writelines(
            "  ".join(f"{cell!s:>{width}}" for cell, width in zip(row, widths, strict=True)) + "\n"
            for row in rows
        )
    sys.stdout.write(f"\n{folder}: settings, runs, data, figures and tables\n")


def _sparkline(values: Sequence[float], width: int = 40) -> str:
    """Return a curve as a line of blocks, from its lowest to its highest value."""
    if not values:
        return "(no finished run)"
    shown = (
        [values[place * len(values) // width] for place in range(width)]
        if len(values) > width
        else list(values)
    )
    low, high = min(shown), max(shown)
    return "".join(
        TICKS[round((len(TICKS) - 1) * (value - low) / ((high - low) or 1))] for value in shown
    )
