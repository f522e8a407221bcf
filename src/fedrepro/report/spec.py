"""What a paper's artifacts consist of: the models behind `workflow/experiments/<paper>.yaml`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator, Tag, model_validator

from fedrepro import provenance
from fedrepro.config import Count, Fraction, Frozen, NonNegative, Params, parse, read_yaml
from fedrepro.errors import UserError
from fedrepro.metrics import Curve

FOLDER = Path("workflow/experiments")
METRICS = {
    "test_accuracy": "test accuracy (%)",
    "personal_accuracy": "own-test accuracy after local training (%)",
    "initial_accuracy": "own-test accuracy before local training (%)",
}
# What a paper's table prints of a series: {figure: accuracy, 0..1}, or [rounds, ...], one number for each target
Printed = Annotated[
    Annotated[dict[str, Fraction], Tag("accuracies")] | Annotated[tuple[Count, ...], Tag("rounds")],
    Discriminator(lambda given: "accuracies" if isinstance(given, dict) else "rounds"),
]
# Kind of table -> what it needs and what it may have, beside title, kind and figures
TAKES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "rounds_to_target": (("baseline",), ("smooth", "targets", "reported")),
    "curve_distance": ((), ("smooth", "rounds")),
    "convergence": (("last",), ("reported",)),
    "communication": (("baseline",), ("smooth", "targets")),
}


class Figure(Frozen):
    """One panel: an experiment's curves, the paper's behind them. `target` is drawn as a line, by scale.

    Of kind `newcomers`: a bar per series, the epochs that the experiment's new clients need to the target in params.yaml.
    """

    title: str
    experiment: str
    kind: Literal["curves", "newcomers"] = "curves"
    bars: dict[str, tuple[NonNegative, NonNegative, NonNegative]] = {}  # series -> the paper's mean, lowest and highest epochs
    metric: Literal["test_accuracy", "personal_accuracy", "initial_accuracy"] = "test_accuracy"
    target: dict[str, Fraction] = {}
    shown: dict[str, tuple[Fraction, Fraction]] = {}  # the part of the vertical axis that is drawn, by scale; else all
    reported: dict[str, str] = {}  # series -> key in the file of digitised curves

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "Figure":
        foreign = {"curves": ("bars",), "newcomers": ("metric", "target", "shown", "reported")}[self.kind]
        if extra := [key for key in foreign if key in self.model_fields_set]:
            raise ValueError(f"a figure of kind {self.kind} has no {', '.join(extra)}")
        return self

    @property
    def source(self) -> str:
        """The gathered results that are drawn."""
        return self.experiment if self.kind == "curves" else f"{self.experiment}-newcomers"

    @property
    def sources(self) -> list[str]:
        """The gathered results that the documents read for this figure."""
        return list(dict.fromkeys((self.experiment, self.source)))


class Table(Frozen):
    """One table over the experiments of some figures, each in its figure's metric.

    rounds_to_target: rounds until each target, and the saving against `baseline`. curve_distance: from the paper's curves.
    convergence: series by figures, mean of the `last` rounds. communication: bytes that a participant receives and sends in a
    round, how many more than with `baseline`, and bytes until each target.
    """

    title: str
    kind: Literal["rounds_to_target", "curve_distance", "convergence", "communication"]
    figures: tuple[str, ...]
    baseline: str | None = None
    smooth: Count = 1
    rounds: Count | None = None  # only these many from the start
    last: Count | None = None
    targets: dict[str, tuple[Fraction, ...]] = {}  # by scale; where a scale is not named, the figure's own
    reported: dict[str, Printed] = {}  # by series; rounds belong to the targets of the scale that is compared in full

    @model_validator(mode="after")
    def _complete(self) -> "Table":
        needed, allowed = TAKES[self.kind]
        if missing := [key for key in needed if getattr(self, key) is None]:
            raise ValueError(f"a table of kind {self.kind} needs {', '.join(missing)}")
        if unused := sorted(self.model_fields_set - {"title", "kind", "figures", *needed, *allowed}):
            raise ValueError(f"a table of kind {self.kind} has no use for {', '.join(unused)}")
        return self

    @model_validator(mode="after")
    def _printed(self) -> "Table":
        by_figure = self.kind == "convergence"
        if any(isinstance(values, dict) != by_figure for values in self.reported.values()):
            shape = "{figure: accuracy}" if by_figure else "[rounds, ...], one number for each target,"
            raise ValueError(f"reported: a table of kind {self.kind} takes {shape} for each series")
        if self.reported and not by_figure and len(self.figures) != 1:
            raise ValueError("reported: numbers of rounds need a table of one figure")
        return self

    def at(self, figure: Figure, scale: str) -> tuple[float, ...]:
        """Targets at a scale, 0..1: the table's, else the figure's; none where neither has any."""
        own = (figure.target[scale],) if scale in figure.target else ()
        return self.targets.get(scale, own)

    def printed(self, figure: str) -> list[str]:
        """The series of which it reports something that belongs to a figure."""
        return [label for label, values in self.reported.items() if not isinstance(values, dict) or figure in values]


class Cell(Frozen):
    """A number computed from one or two series of an experiment, seed by seed.

    rounds_to: rounds until `series` reaches `target`. reduction: 1 - rounds(series) / rounds(baseline).
    accuracy: mean of the `last` rounds or the value at `round`. difference: series - baseline, the same of both.
    never: `series` does not reach `target` (within `round` rounds, where given). epochs: mean over a run's new clients of the
    epochs that each needs. epochs_saved: 1 - epochs(series) / epochs(baseline).
    """

    kind: Literal["rounds_to", "reduction", "accuracy", "difference", "never", "epochs", "epochs_saved"]
    series: str
    baseline: str | None = None
    target: Fraction | None = None
    smooth: Count = 1
    last: Count | None = None
    round: Count | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Cell":
        needed = {"rounds_to": ["target"], "never": ["target"], "reduction": ["baseline", "target"], "difference": ["baseline"]}
        needed |= {"accuracy": [], "epochs": [], "epochs_saved": ["baseline"]}
        missing = [key for key in needed[self.kind] if getattr(self, key) is None]
        if self.kind in ("accuracy", "difference") and (self.last is None) == (self.round is None):
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
        for key, claim in self.claims.items():
            kind = self.figures[claim.figure].kind
            if (kind == "newcomers") != claim.cell.kind.startswith("epochs"):
                raise ValueError(f"claims.{key}: a cell of kind {claim.cell.kind} does not go with a figure of kind {kind}")
        for key, table in self.tables.items():
            if drawn := [name for name in table.figures if self.figures[name].kind == "newcomers"]:
                raise ValueError(f"tables.{key}: {', '.join(drawn)}: a table takes figures of kind curves")
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
        named = [*figure.reported, *figure.bars]
        asked = params.papers[paper][figure.experiment].get("studies", {})
        if figure.kind == "newcomers" and not asked.get("newcomers"):
            raise UserError(f"{path}: figures.{key}: experiment '{figure.experiment}' has no newcomers in params.yaml")
        for claim in spec.claims.values():
            if claim.figure == key:
                named += [name for name in (claim.cell.series, claim.cell.baseline) if name]
        for table in (table for table in spec.tables.values() if key in table.figures):
            named += ([table.baseline] if table.baseline else []) + table.printed(key)
        for name in named:
            if name not in known:
                raise UserError(f"{path}: figure {key}: unknown series '{name}': choose from {', '.join(known)}")
    _check_tables(spec, params.papers[paper], [name for name, scale in params.scales.items() if scale.compare == "full"], path)
    return spec


def _check_tables(spec: Paper, experiments: dict, scales: list[str], path: Path) -> None:
    """As many reported rounds as targets at `scales`, which show them; bytes of one participant need one number of them."""
    for key, table in spec.tables.items():
        for label, values in table.reported.items() if table.kind == "rounds_to_target" else ():
            counts = {len(table.at(spec.figures[table.figures[0]], scale)) for scale in scales}
            if counts - {len(values)}:
                where = f"{path}: tables.{key}.reported.{label}"
                raise UserError(f"{where}: needs one number for each target at scale {', '.join(scales)}")
        for figure in table.figures if table.kind == "communication" else ():
            series = experiments[spec.figures[figure].experiment].get("series", {})
            if own := [name for name, choice in series.items() if "clients_per_round" in choice.get("with", {})]:
                raise UserError(f"{path}: tables.{key}: figure {figure}: {', '.join(own)} has its own clients_per_round")


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
    for key, table in spec.tables.items():
        named += [(f"tables.{key}.targets", name, "scale", scales) for name in table.targets]
        cited = {name for values in table.reported.values() if isinstance(values, dict) for name in values}
        named += [(f"tables.{key}.reported", name, "figure of this table", list(table.figures)) for name in sorted(cited)]
    for where, name, kind, valid in named:
        if name not in valid:
            raise UserError(f"{path}: {where}: unknown {kind} '{name}': choose from {', '.join(valid) or 'nothing: no curves'}")


def read_curves(spec: Paper, folder: Path = FOLDER) -> dict[str, Curve]:
    """The paper's digitised curves by key: (round, value in 0..1)."""
    if spec.curves is None:
        return {}
    stored = json.loads(_curves_text(spec, folder))
    return {key: list(zip(*pair, strict=True)) for key, pair in stored.items()}


def _curves_text(spec: Paper, folder: Path) -> str:
    return (folder / spec.curves).read_text(encoding="utf-8") if spec.curves else ""


def identity(spec: Paper, keys: Iterable[str] | None = None, folder: Path = FOLDER) -> str:
    """Digest of all that the experiments file and the digitised curves say of some figures and tables (None: of the paper)."""
    parts: list[Frozen] = [spec]
    if keys is not None:
        tables = [spec.tables[key] for key in keys if key in spec.tables]
        drawn = {key for table in tables for key in table.figures} | set(keys)
        parts = [*tables, *(figure for key, figure in spec.figures.items() if key in drawn)]
    return provenance.digest([*(part.model_dump_json() for part in parts), _curves_text(spec, folder)])


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
