"""What a paper's artifacts consist of: the models behind `workflow/experiments/<paper>.yaml`."""

import json
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from fedrepro.config import Count, Fraction, Frozen, NonNegative, Params, parse, read_yaml
from fedrepro.errors import UserError
from fedrepro.metrics import Curve

FOLDER = Path("workflow/experiments")


class Figure(Frozen):
    """One panel: an experiment's curves, the paper's behind them. `target` is drawn as a line, by scale."""

    title: str
    experiment: str
    metric: Literal["test_accuracy", "personal_accuracy", "initial_accuracy"] = "test_accuracy"
    target: dict[str, Fraction] = {}
    shown: dict[str, tuple[Fraction, Fraction]] = {}  # the part of the vertical axis that is drawn, by scale; else all
    reported: dict[str, str] = {}  # series -> key in the file of digitised curves


class Table(Frozen):
    """One table over the experiments of some figures."""

    title: str
    kind: Literal["rounds_to_target", "curve_distance"]
    figures: tuple[str, ...]
    baseline: str | None = None
    smooth: Count = 1
    rounds: Count | None = None  # only these many from the start

    @model_validator(mode="after")
    def _complete(self) -> "Table":
        if self.kind == "rounds_to_target" and self.baseline is None:
            raise ValueError("a table of kind rounds_to_target needs baseline")
        return self


class Cell(Frozen):
    """A number computed from one or two series of an experiment, seed by seed.

    rounds_to: rounds until `series` reaches `target`. reduction: 1 - rounds(series) / rounds(baseline).
    difference: series - baseline, mean of the `last` rounds or the value at `round`. never: `series` does not reach `target`
    (within `round` rounds, where given).
    """

    kind: Literal["rounds_to", "reduction", "difference", "never"]
    series: str
    baseline: str | None = None
    target: Fraction | None = None
    smooth: Count = 1
    last: Count | None = None
    round: Count | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Cell":
        needed = {"rounds_to": ["target"], "never": ["target"], "reduction": ["baseline", "target"], "difference": ["baseline"]}
        missing = [key for key in needed[self.kind] if getattr(self, key) is None]
        if self.kind == "difference" and (self.last is None) == (self.round is None):
            missing.append("last or round (one of them)")
        if missing:
            raise ValueError(f"a cell of kind {self.kind} needs {', '.join(missing)}")
        return self


class Claim(Frozen):
    """A published statement with the cell that tests it."""

    text: str
    source: str
    figure: str
    cell: Cell
    reported: float | Literal["never"]
    tolerance: NonNegative = 0
    scale_targets: dict[str, Fraction] = {}  # another target where a smaller scale cannot reach the paper's
    note: str = ""

    @model_validator(mode="after")
    def _fits(self) -> "Claim":
        if (self.reported == "never") != (self.cell.kind == "never"):
            raise ValueError("reported: 'never' goes with a cell of kind never, a number with any other")
        return self


class Paper(Frozen):
    """All of a paper."""

    title: str
    reference: str
    curves: str | None = None
    figures: dict[str, Figure]
    tables: dict[str, Table]
    claims: dict[str, Claim]

    @model_validator(mode="after")
    def _figures_exist(self) -> "Paper":
        wanted = [(f"claims.{key}", claim.figure) for key, claim in self.claims.items()]
        wanted += [(f"tables.{key}", figure) for key, table in self.tables.items() for figure in table.figures]
        for where, figure in wanted:
            if figure not in self.figures:
                raise ValueError(f"{where}: unknown figure '{figure}': choose from {', '.join(self.figures)}")
        return self


def read(paper: str, params: Params, folder: Path = FOLDER) -> Paper:
    """A paper's artifacts; every series that they name exists in params.yaml. Raises UserError."""
    path = folder / f"{paper}.yaml"
    spec = parse(Paper, read_yaml(path), str(path))
    _check_names(spec, params, folder, path)
    for key, figure in spec.figures.items():
        if figure.experiment not in params.papers[paper]:
            valid = ", ".join(params.papers[paper])
            raise UserError(f"{path}: figures.{key}: unknown experiment '{figure.experiment}': choose from {valid}")
        known = params.papers[paper][figure.experiment].get("series", {})
        named = [*figure.reported]
        for claim in spec.claims.values():
            if claim.figure == key:
                named += [name for name in (claim.cell.series, claim.cell.baseline) if name]
        named += [table.baseline for table in spec.tables.values() if table.baseline and key in table.figures]
        for name in named:
            if name not in known:
                raise UserError(f"{path}: figure {key}: unknown series '{name}': choose from {', '.join(known)}")
    return spec


def _check_names(spec: Paper, params: Params, folder: Path, path: Path) -> None:
    """Scales and digitised curves that the artifacts name exist, so that nobody learns of a misspelt one after hours."""
    curves, scales = list(read_curves(spec, folder)), list(params.scales)
    named = [(f"figures.{key}.target", name, "scale", scales) for key, item in spec.figures.items() for name in item.target]
    named += [(f"figures.{key}.shown", name, "scale", scales) for key, item in spec.figures.items() for name in item.shown]
    named += [(f"claims.{k}.scale_targets", name, "scale", scales) for k, c in spec.claims.items() for name in c.scale_targets]
    named += [(f"figures.{k}.reported", name, "curve", curves) for k, f in spec.figures.items() for name in f.reported.values()]
    compared = {key: figure for key, figure in spec.figures.items() if figure.reported}
    distances = [(key, table) for key, table in spec.tables.items() if table.kind == "curve_distance"]
    wanted = "figure with reported curves"
    named += [(f"tables.{key}.figures", name, wanted, list(compared)) for key, table in distances for name in table.figures]
    for where, name, kind, valid in named:
        if name not in valid:
            raise UserError(f"{path}: {where}: unknown {kind} '{name}': choose from {', '.join(valid) or 'nothing: no curves'}")


def read_curves(spec: Paper, folder: Path = FOLDER) -> dict[str, Curve]:
    """The paper's digitised curves by key: (round, value in 0..1)."""
    if spec.curves is None:
        return {}
    stored = json.loads((folder / spec.curves).read_text(encoding="utf-8"))
    return {key: list(zip(*pair, strict=True)) for key, pair in stored.items()}


def owners(specs: dict[str, Paper]) -> dict[str, str]:
    """Figure or table -> its paper. They are targets on the command line, so a name may stand for one thing only."""
    found: dict[str, str] = {}
    for paper, spec in specs.items():
        for key in (*spec.figures, *spec.tables):
            other = next((name for name in specs if name == key), found.get(key, paper))
            if other != paper or list((*spec.figures, *spec.tables)).count(key) > 1:
                raise UserError(f"{FOLDER / paper}.yaml: '{key}' already names something else; choose another name")
            found[key] = paper
    return found
