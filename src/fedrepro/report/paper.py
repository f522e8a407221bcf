"""What a paper's artifacts consist of: the models behind `artifacts.yaml` and `claims.yaml` in its folder."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat, PrivateAttr, SerializeAsAny, TypeAdapter, model_validator

from fedrepro.config import registry, strict_yaml
from fedrepro.config.json_schema import NAMES, Schema, any_choice, without_titles
from fedrepro.config.params import Params
from fedrepro.config.types import Frozen, Key, parse
from fedrepro.core import provenance
from fedrepro.core.errors import UserError, error_prefix
from fedrepro.report import palette
from fedrepro.report.figures.base import ALL_SCALES, Figure
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentRef, PaperData, calibrated_curves
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.palette import SeriesStyle
from fedrepro.report.settings_table import changed_settings
from fedrepro.report.statistics import Curve
from fedrepro.report.tables.base import Table
from fedrepro.report.verdicts.claim import Claim, parse_claim
from fedrepro.report.verdicts.summary import VERDICTS

ARTIFACTS, CLAIMS, DIGITISED = "artifacts.yaml", "claims.yaml", "curves.json"  # in the paper's folder
ARTIFACT_KINDS = {
    "figures": ("Figure", "curves"),
    "tables": ("Table", None),
}  # kinds in a folder: their class, and the usual one
# of the workflow: a paper or an artifact of such a name could not be asked for
RULES = ("all", "crate", "data", "fetch", "mirror", "notebook", "page", "pdf", "prepare", "train")


CURVES = TypeAdapter(dict[str, tuple[list[int], list[FiniteFloat]]])


class Paper(Frozen):
    """All of a paper."""

    title: str
    reference: str
    curves_from: str = ""  # where the curves in curves.json were read, as captions say it; empty where there are none
    proposed: tuple[str, ...] = ()  # the series that it stands up for; figures emphasise them
    experiments: dict[str, DisplayOptions] = {}
    figures: dict[Key, SerializeAsAny[Figure]]
    tables: dict[Key, SerializeAsAny[Table]]
    claims: dict[str, Claim]
    _folder: Path = PrivateAttr(Path())
    _looks: dict[str, dict[str, SeriesStyle]] = PrivateAttr({})  # of each experiment's series
    _changes: dict[str, list[tuple[str, str, str]]] = PrivateAttr({})  # setting, in the paper, here, of each experiment

    @model_validator(mode="after")
    def _names_once(self) -> "Paper":
        keys = [*self.figures, *self.tables, VERDICTS, "numbers", *RULES]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise ValueError(f"{', '.join(twice)}: already names something else; choose another name")
        return self

    @property
    def artifacts(self) -> list[str]:
        """Figures, tables and the verdicts."""
        return [*self.figures, *self.tables, VERDICTS]

    def changes(self, experiment: str) -> list[tuple[str, str, str]]:
        """What the scale changes of an experiment: setting, its value in the paper (empty: the default), its value here."""
        return self._changes.get(experiment, [])

    def artifact_of(self, claim: Claim) -> str:
        """The figure or table beside which a claim stands; empty where the one that it names does not show its results."""
        named = [claim.artifact] if claim.artifact else [*self.figures, *self.tables]
        shows = [key for key in named if key in self.artifacts and key != VERDICTS]
        return next((key for key in shows if set(claim.shown_sources) <= set(self[key].sources(self.figures))), "")

    def calibrations_of(self, claim: Claim) -> dict[str, str]:
        """Series of a claim -> what was chosen by what the paper reports of it."""
        reported, found = claim.ref.resolved(self.experiments).reported, calibrated_curves(self.experiments)
        told = {curve: [f"its curve in the paper was used to choose {what}" for what in used] for curve, used in found.items()}
        return {label: "; ".join(told[reported[label]]) for label in claim.quantity.labels if reported.get(label) in told}

    def sources(self, keys: Iterable[str] | None = None) -> list[str]:
        """The gathered results behind some artifacts (None: all, and the documents): an experiment's, or
        `<experiment>-<study>`."""
        found = self.shown_experiments if keys is None else []
        for key in self.artifacts if keys is None else keys:
            found += (
                [name for claim in self.claims.values() for name in claim.sources]
                if key == VERDICTS
                else self[key].sources(self.figures)
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


def read_paper(paper: str, params: Params) -> Paper:
    """A paper's artifacts; every kind, series, measure, scale and curve that they name exists. Raises UserError."""
    folder, experiments = params.paper_settings[paper].folder, params.paper_settings[paper].experiments
    path = folder / ARTIFACTS
    values, claims = strict_yaml.read(path), strict_yaml.read(folder / CLAIMS)
    for room in ARTIFACT_KINDS:
        values[room] = {key: parse_artifact(room, given, f"{path}: {room}.{key}") for key, given in _listed(values, room, path)}
    claims = {key: parse_claim(given, f"{folder / CLAIMS}: {key}") for key, given in claims.items()}
    spec = parse(Paper, values | {"claims": claims}, str(path))
    spec._folder = folder
    series = {name: experiments[name].get("series", {}) for name in [*spec.experiments, *experiments] if name in experiments}
    spec._looks.update(palette.assign_styles(series, spec.proposed))
    changed = {name: changed_settings(given, params.overlay(paper, name) or {}) for name, given in experiments.items()}
    spec._changes.update(changed)
    checker = ReferenceChecker(
        str(path), "", experiments, params.scales, list(read_curves(spec)), spec.experiments, spec.figures
    )
    checker.at("proposed").check_names(
        "series", spec.proposed, dict.fromkeys(label for own in series.values() for label in own)
    )
    for name, shown in spec.experiments.items():
        checker.at("experiments", name).check_ref(ExperimentRef(experiment=name))
        if "name" in shown.model_fields_set and not shown.name.strip():
            checker.at("experiments", name).fail("name: expected a text; leave the key out to show the experiment's own name")
        _check_chosen(checker.at("experiments", name), spec.experiments[name])
    for room in ARTIFACT_KINDS:
        for key, item in getattr(spec, room).items():
            item.check(checker.at(room, key))
    for key, figure in spec.figures.items():
        checker.at("figures", key, "remarks").check_names("scale", figure.remarks, (ALL_SCALES, *checker.scales))
    for key, item in spec.claims.items():
        claimed = replace(checker, file=str(folder / CLAIMS), key=key)
        item.check(claimed)
        if not spec.artifact_of(item):
            needed = " and ".join(item.shown_sources)
            claimed.fail(f"artifact: {item.artifact or 'any figure or table'} has to show {needed}")
    if not spec.figures and not spec.tables:
        raise UserError(f"{path}: figures, tables: expected at least one figure or table")
    return spec


def _check_chosen(checker: ReferenceChecker, shown: DisplayOptions) -> None:
    """Settings that are tried beside each other against one curve of the paper are a calibration until it is denied."""
    curves = list(shown.reported.values())
    if shown.calibrated_on is None and (several := sorted({curve for curve in curves if curves.count(curve) > 1})):
        checker.fail(f"chose: say which settings were chosen by the paper's {', '.join(several)}; false: none")


def _listed(values: dict, room: str, path: Path) -> Iterable[tuple[str, Any]]:
    given = values.get(room) or {}
    if not isinstance(given, dict):
        raise UserError(f"{path}: {room}: expected names with their settings")
    return given.items()


def parse_artifact(room: str, values: Any, where: str) -> Figure | Table:
    """A figure or a table by its `kind`. Raises UserError that names valid kinds and keys."""
    if not isinstance(values, dict):
        return values
    name, usual = ARTIFACT_KINDS[room]
    kind = values.get("kind", usual)
    with error_prefix(f"{where}.kind"):
        model = getattr(registry.find(f"report.{room}", kind), name)
    return parse(model, {"kind": kind} | values, where)


def read_papers(params: Params) -> dict[str, Paper]:
    """Every paper's artifacts, by its name. Raises UserError."""
    return {paper: read_paper(paper, params) for paper in params.papers}


def read_curves(spec: Paper) -> dict[str, Curve]:
    """The paper's digitised curves by key: (round, value in 0..1). Raises UserError."""
    if not spec.curves_from:
        return {}
    try:
        stored = CURVES.validate_json(_curves_text(spec), strict=True)
        return {key: list(zip(rounds, values, strict=True)) for key, (rounds, values) in stored.items()}
    except ValueError:
        raise UserError(
            f"{spec._folder / DIGITISED}: expected key -> [rounds, values], whole numbers and numbers, as many of each"
        ) from None


def _curves_text(spec: Paper) -> str:
    if not spec.curves_from:
        return ""
    path = spec._folder / DIGITISED
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path}: cannot be read as text") from None


def paper_data(spec: Paper, results: Mapping[str, Results], curves: Mapping[str, Curve]) -> PaperData:
    """What the paper's artifacts are made from; `results` by experiment, and by `<experiment>-<study>`."""
    return PaperData(spec.experiments, results, curves, spec.figures, spec._looks, spec.curves_from)


def spec_digest(spec: Paper) -> str:
    """Digest of all that a paper's files say of its artifacts and claims, with the looks of series and the curves."""
    return provenance.value_digest([spec.model_dump_json(), repr(spec._looks), _curves_text(spec)])


def targets(specs: Mapping[str, Paper]) -> dict[str, tuple[str, str]]:
    """Name on the command line -> paper and artifact: `<paper>_<artifact>`, and the artifact's own name while only one paper
    has it. Raises UserError where two long names meet."""
    found: dict[str, tuple[str, str]] = {}
    plain = [key for spec in specs.values() for key in spec.artifacts]
    for paper, spec in specs.items():
        if paper in RULES:
            raise UserError(f"params.yaml: papers: '{paper}' already names something else; choose another name")
        for key in spec.artifacts:
            name = f"{paper}_{key}"
            if name in found or name in specs:
                raise UserError(
                    f"{spec._folder / ARTIFACTS}: '{name}' already names something else; choose another name for '{key}'"
                )
            found[name] = (paper, key)
    once = {key: (paper, key) for paper, spec in specs.items() for key in spec.artifacts if plain.count(key) == 1}
    return {key: what for key, what in once.items() if key not in specs and key not in found} | found


KINDS = {"Figure": "figures", "Table": "tables", "Quantity": "quantities"}  # class of all kinds -> their folder


def of_artifacts() -> Schema:
    described = Paper.model_json_schema()
    del described["properties"]["claims"]  # in claims.yaml, whose schema refers to this one
    described["required"].remove("claims")
    defs = described["$defs"]
    for name, room in KINDS.items():
        found = [_kind(room, kind, name) for kind in registry.names(f"report.{room}")]
        for own in found:
            defs |= own.pop("$defs", {})
        defs[name] = {"anyOf": found}
    laid_over = any_choice(own["properties"] for own in defs["Quantity"]["anyOf"])  # a cell's target or round at another scale
    defs["Claim"]["properties"]["scales"]["additionalProperties"] = laid_over
    for room in ARTIFACT_KINDS:
        described["properties"][room]["propertyNames"] = NAMES
    return without_titles(described)


def _kind(room: str, kind: str, name: str) -> Schema:
    """One kind's settings; only the usual one need not be named."""
    own = getattr(registry.find(f"report.{room}", kind), name).model_json_schema()
    own["properties"]["kind"] = {"const": kind}
    if room in ARTIFACT_KINDS and ARTIFACT_KINDS[room][1] == kind:
        own["required"].remove("kind")
    return own
