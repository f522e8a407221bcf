"""What a paper's artifacts consist of: the models behind `workflow/experiments/<paper>.yaml`."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny, model_validator

from fedrepro import provenance, registry
from fedrepro.config import Frozen, NonNegative, Params, merge, parse, read_yaml
from fedrepro.errors import UserError
from fedrepro.metrics import Curve
from fedrepro.report import cells
from fedrepro.report.cells.base import Cell
from fedrepro.report.evidence import Evidence, Measured, Ref, Shown, source
from fedrepro.report.figures.base import Figure
from fedrepro.report.known import Known
from fedrepro.report.loading import Results
from fedrepro.report.tables.base import Table

FOLDER = Path("workflow/experiments")
VERDICTS = "verdicts"  # the table that every paper has
ROOMS = {"figures": ("Figure", "curves"), "tables": ("Table", None)}  # kinds in a folder: their class, and the usual one


class Claim(Frozen):
    """A published statement on an experiment, in one measure, with the cell that tests it."""

    text: str
    source: str
    experiment: str
    measure: Measured | None = None  # else the experiment's own
    cell: SerializeAsAny[Cell]
    reported: float | str
    tolerance: NonNegative = 0
    scale_targets: dict[str, NonNegative] = {}  # another target where a smaller scale cannot reach the paper's
    note: str = ""

    @model_validator(mode="after")
    def _fits(self) -> "Claim":
        word = self.cell.word
        if (self.reported != word) if word else isinstance(self.reported, str):
            expected = f"'{word}'" if word else "a number"
            raise ValueError(f"reported: {expected} goes with a cell of kind {self.cell.kind} (got {self.reported!r})")
        if self.scale_targets and self.cell.at() is None:
            raise ValueError(f"scale_targets: a cell of kind {self.cell.kind} has no target")
        return self

    @property
    def ref(self) -> Ref:
        return Ref(experiment=self.experiment, measure=self.measure)

    @property
    def source_name(self) -> str:
        """The gathered results that it is held against."""
        return source(self.experiment, self.cell.study)

    def check(self, known: Known) -> None:
        known.at("scale_targets").names("scale", self.scale_targets, known.scales)
        self.cell.check(known, self.ref)


def _text(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch("[a-z0-9_]+", value):
        raise ValueError("a name consists of a to z, 0 to 9 and _")
    return value


Key = Annotated[str, BeforeValidator(_text)]  # it becomes a file, a target on the command line and an address on the page


class Paper(Frozen):
    """All of a paper."""

    title: str
    reference: str
    curves: str | None = None
    experiments: dict[str, Shown] = {}
    figures: dict[Key, SerializeAsAny[Figure]]
    tables: dict[Key, SerializeAsAny[Table]]
    claims: dict[str, Claim]

    @model_validator(mode="after")
    def _names_once(self) -> "Paper":
        keys = [*self.figures, *self.tables, VERDICTS, "all"]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise ValueError(f"{', '.join(twice)}: already names something else; choose another name")
        return self

    @property
    def artifacts(self) -> list[str]:
        """Figures, tables and the verdicts."""
        return [*self.figures, *self.tables, VERDICTS]

    def sources(self, keys: Iterable[str] | None = None) -> list[str]:
        """The gathered results behind some artifacts (None: all, and the documents): an experiment's, or
        `<experiment>-<study>`."""
        found = self.shown_experiments if keys is None else []
        for key in self.artifacts if keys is None else keys:
            found += (
                [claim.source_name for claim in self.claims.values()] if key == VERDICTS else self[key].sources(self.figures)
            )
        return list(dict.fromkeys(found))

    def __getitem__(self, key: str) -> Figure | Table:
        return self.figures[key] if key in self.figures else self.tables[key]

    @property
    def shown_experiments(self) -> list[str]:
        """Those that any artifact shows, as the documents list them."""
        drawn = [name for figure in self.figures.values() for name in figure.experiments(self.figures)]
        drawn += [name for table in self.tables.values() for name in table.experiments]
        return list(dict.fromkeys([*drawn, *(claim.experiment for claim in self.claims.values())]))


def read(paper: str, params: Params, folder: Path = FOLDER) -> Paper:
    """A paper's artifacts; every kind, series, measure, scale and curve that they name exists. Raises UserError."""
    path = folder / f"{paper}.yaml"
    values = dict(read_yaml(path))
    for room in ROOMS:
        values[room] = {key: of_kind(room, given, f"{path}: {room}.{key}") for key, given in _listed(values, room, path)}
    claims = {key: claim(given, f"{path}: claims.{key}") for key, given in _listed(values, "claims", path)}
    spec = parse(Paper, values | {"claims": claims}, str(path))
    known = Known(
        str(path), "", params.papers[paper], params.scales, list(read_curves(spec, folder)), spec.experiments, spec.figures
    )
    for name in spec.experiments:
        known.at("experiments", name).ref(Ref(experiment=name))
    for room in (*ROOMS, "claims"):
        for key, item in getattr(spec, room).items():
            item.check(known.at(room, key))
    return spec


def _listed(values: dict, room: str, path: Path) -> Iterable[tuple[str, Any]]:
    given = values.get(room) or {}
    if not isinstance(given, dict):
        raise UserError(f"{path}: {room}: expected names with their settings")
    return given.items()


def of_kind(room: str, values: Any, where: str) -> Figure | Table:
    """A figure or a table by its `kind`. Raises UserError that names valid kinds and keys."""
    if not isinstance(values, dict):
        return values
    name, usual = ROOMS[room]
    kind = values.get("kind", usual)
    try:
        model = getattr(registry.module(f"report.{room}", kind), name)
    except UserError as error:
        raise UserError(f"{where}.kind: {error}") from None
    return parse(model, merge({"kind": kind}, values), where)


def claim(values: Any, where: str) -> Claim:
    """A claim with its cell. Raises UserError."""
    if isinstance(values, dict) and "cell" in values:
        values = values | {"cell": cells.read(values["cell"], f"{where}.cell")}
    return parse(Claim, values, where)


def read_curves(spec: Paper, folder: Path = FOLDER) -> dict[str, Curve]:
    """The paper's digitised curves by key: (round, value in 0..1)."""
    if spec.curves is None:
        return {}
    stored = json.loads(_curves_text(spec, folder))
    return {key: list(zip(*pair, strict=True)) for key, pair in stored.items()}


def _curves_text(spec: Paper, folder: Path) -> str:
    return (folder / spec.curves).read_text(encoding="utf-8") if spec.curves else ""


def evidence(spec: Paper, results: Mapping[str, Results], curves: Mapping[str, Curve]) -> Evidence:
    """What the paper's artifacts are made from; `results` by experiment, and by `<experiment>-<study>`."""
    return Evidence(spec.experiments, results, curves, spec.figures)


def identity(spec: Paper, keys: Iterable[str] | None = None, folder: Path = FOLDER) -> str:
    """Digest of all that the experiments file and the digitised curves say of some artifacts (None: of the paper)."""
    parts: list[Frozen] = [spec]
    if keys is not None:
        named = {name.partition("-")[0] for name in spec.sources(keys)}
        shown = [spec.experiments[name] for name in sorted(named) if name in spec.experiments]
        claims = list(spec.claims.values()) if VERDICTS in keys else []
        drawn = [part for key in keys if key != VERDICTS for part in spec[key].parts(spec.figures)]
        parts = [*drawn, *shown, *claims]
    return provenance.digest([*(part.model_dump_json() for part in parts), _curves_text(spec, folder)])


def targets(specs: Mapping[str, Paper]) -> dict[str, tuple[str, str]]:
    """Name on the command line -> paper and artifact: `<paper>_<artifact>`, and the artifact's own name while only one paper
    has it. Raises UserError where two long names meet."""
    found: dict[str, tuple[str, str]] = {}
    plain = [key for spec in specs.values() for key in spec.artifacts]
    for paper, spec in specs.items():
        for key in spec.artifacts:
            name = f"{paper}_{key}"
            if name in found or name in specs:
                raise UserError(
                    f"{FOLDER / paper}.yaml: '{name}' already names something else; choose another name for '{key}'"
                )
            found[name] = (paper, key)
    once = {key: (paper, key) for paper, spec in specs.items() for key in spec.artifacts if plain.count(key) == 1}
    return {key: what for key, what in once.items() if key not in specs and key not in found} | found
