"""The model of a paper: its figures, tables and claims, as `artifacts.yaml` and `claims.yaml` in
its folder declare them."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat, PrivateAttr, SerializeAsAny, TypeAdapter, model_validator

from fedrepro.config import registry, strict_yaml
from fedrepro.config.json_schema import NAMES, Schema, any_choice, object_schema, without_titles
from fedrepro.config.params import Params
from fedrepro.config.types import Frozen, Key, parse
from fedrepro.core import provenance
from fedrepro.core.errors import UserError, error_prefix, for_each, unknown_name_message
from fedrepro.core.files import read_file
from fedrepro.data import datasets
from fedrepro.report import palette
from fedrepro.report.figures.base import ALL_SCALES, Figure
from fedrepro.report.inputs.gathered import Results, changed_settings
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentRef, PaperData, calibrated_curves
from fedrepro.report.inputs.references import ReferenceChecker
from fedrepro.report.palette import SeriesStyle
from fedrepro.report.statistics import Curve
from fedrepro.report.tables.base import Table
from fedrepro.report.verdicts.claim import Claim, parse_claims
from fedrepro.report.verdicts.protocol import Protocol
from fedrepro.report.verdicts.summary import VERDICTS

# in the paper's folder
ARTIFACTS, CLAIMS, PROTOCOLS, DIGITISED = (
    "artifacts.yaml",
    "claims.yaml",
    "protocols.yaml",
    "curves.json",
)
# key in artifacts.yaml, also the package of the kinds -> the default
ARTIFACT_KINDS = {"figures": "curves", "tables": None}
# rules of the workflow, whose names no paper or artifact may have
RULES = ("all", "data", "fetch", "mirror", "notebooks", "page", "pdf", "prepare", "train", "tune")
CURVES = TypeAdapter(dict[str, tuple[list[int], list[FiniteFloat]]])


class Elsewhere(Frozen):
    """What else tests a headline: for its row on the first page."""

    claims: tuple[str, ...] = ()  # of the paper, that ask the same of other runs
    arena: tuple[str, ...] = ()  # of the paper `arena`
    differ: str = ""  # why these answer otherwise than the headline


class Paper(Frozen):
    """A paper with its artifacts and claims."""

    title: str
    reference: str
    curves_from: str = ""  # for captions: the origin of curves.json; empty if there is no such file
    # for the first page: what each claim asks of its series; empty if they ask different things
    question: str = ""
    elsewhere: dict[str, Elsewhere] = {}  # headline -> what else tests it
    proposed: tuple[str, ...] = ()  # the series of its own methods, which figures emphasise
    experiments: dict[str, DisplayOptions] = {}
    figures: dict[Key, SerializeAsAny[Figure]]
    tables: dict[Key, SerializeAsAny[Table]]
    claims: dict[str, Claim]
    # of claims that are decided by runs made for them, by the claim's key
    protocols: dict[str, Protocol] = {}
    _folder: Path = PrivateAttr(Path())
    _series: dict[str, palette.Series] = PrivateAttr({})  # of each experiment
    _scale_changes: dict[str, list[tuple[str, str, str]]] = PrivateAttr({})
    _sizes: dict[tuple[str, str], str] = PrivateAttr({})

    @model_validator(mode="after")
    def _check_names(self) -> "Paper":
        keys = [*self.figures, *self.tables, VERDICTS, "numbers", *RULES]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise ValueError(
                f"{', '.join(twice)}: already names something else; choose another name"
            )
        return self

    @functools.cached_property
    def styles(self) -> dict[str, dict[str, SeriesStyle]]:
        """The style of each series, by experiment and label."""
        return palette.assign_styles(self._series, self.proposed)

    @property
    def headlines(self) -> list[str]:
        """The claims of the abstract that have a protocol: a family of tests of their own."""
        return [key for key, protocol in self.protocols.items() if protocol.sentence]

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def is_tuned(self) -> bool:
        """Whether trials choose values of some series, which the intervals do not cover."""
        choices = (choice for series in self._series.values() for choice in series.values())
        return any(isinstance(choice, Mapping) and "tune" in choice for choice in choices)

    @property
    def artifacts(self) -> list[str]:
        """The names of all figures and tables, and of the table of verdicts."""
        return [*self.figures, *self.tables, VERDICTS]

    def scale_changes(self, experiment: str) -> list[tuple[str, str, str]]:
        """Return the settings that the scale changes: name, value in the paper (empty: the
        default), value at the scale."""
        return self._scale_changes.get(experiment, [])

    def size(self, experiment: str, scale: str) -> str:
        """Return rounds, images and classes of an experiment at a scale, e.g. "100 of 500 rounds,
        10,000 images"."""
        return self._sizes[experiment, scale]

    def artifact_of(self, claim: Claim) -> str:
        """Return the figure or table that a claim is shown with; empty if it names one that does
        not show its results."""
        shown = [*self.figures, *self.tables]
        candidates = [key for key in shown if not claim.artifact or claim.artifact == key]
        return next(
            (
                key
                for key in candidates
                if set(claim.shown_sources) <= set(self[key].sources(self.figures))
            ),
            "",
        )

    def calibrations_of(self, claim: Claim) -> dict[str, str]:
        """Return series -> a sentence on the settings that were chosen by its curve in the paper,
        for the series of a claim."""
        reported, calibrated = (
            claim.ref.resolved(self.experiments).reported,
            calibrated_curves(self.experiments),
        )
        sentences = {}
        for label in claim.quantity.labels:
            choices = calibrated.get(reported.get(label, ""), [])
            if choices:
                sentences[label] = "; ".join(
                    f"its curve in the paper was used to choose {choice}" for choice in choices
                )
        return sentences

    def sources(self, keys: Iterable[str] | None = None) -> list[str]:
        """Return the gathered results behind some artifacts, or behind all artifacts and documents
        (None).

        Each is the name of an experiment, or `<experiment>-<study>`.
        """
        names = self.shown_experiments if keys is None else []
        for key in self.artifacts if keys is None else keys:
            if key == VERDICTS:
                names += [name for claim in self.claims.values() for name in claim.sources]
            else:
                names += self[key].sources(self.figures)
        return list(dict.fromkeys(names))

    def __getitem__(self, key: str) -> Figure | Table:
        return self.figures[key] if key in self.figures else self.tables[key]

    @property
    def shown_experiments(self) -> list[str]:
        """The experiments that any artifact shows, in the order of the documents."""
        drawn = [
            name
            for key in (*self.figures, *self.tables)
            for name in self[key].experiments(self.figures)
        ]
        return list(dict.fromkeys([*drawn, *(claim.experiment for claim in self.claims.values())]))


def read_paper(paper: str, params: Params) -> Paper:
    """Return a paper. Raise UserError if it names a kind, series, measure, scale or curve that does
    not exist."""
    folder, experiments = (
        params.paper_settings[paper].folder,
        params.paper_settings[paper].experiments,
    )
    path = folder / ARTIFACTS
    values = strict_yaml.read(path)
    declared = [
        (group, *item)
        for group in ARTIFACT_KINDS
        for item in _declarations(values, group, path).items()
    ]
    parsed = for_each(
        declared, lambda one: parse_artifact(one[0], one[2], f"{path}: {one[0]}.{one[1]}")
    )
    for group in ARTIFACT_KINDS:
        values[group] = {
            key: item for (of, key, _), item in zip(declared, parsed, strict=True) if of == group
        }
    claims = parse_claims(strict_yaml.read(folder / CLAIMS), str(folder / CLAIMS))
    protocols = strict_yaml.read(folder / PROTOCOLS) if (folder / PROTOCOLS).exists() else {}
    for key in protocols:
        if key not in claims:
            raise UserError(f"{folder / PROTOCOLS}: {unknown_name_message('claim', key, claims)}")
    protocols = {
        key: parse(Protocol, item, f"{folder / PROTOCOLS}: {key}")
        for key, item in protocols.items()
    }
    spec = parse(Paper, values | {"claims": claims, "protocols": protocols}, str(path))
    spec._folder = folder
    series = {
        name: experiments[name].get("series", {})
        for name in [*spec.experiments, *experiments]
        if name in experiments
    }
    spec._series = series
    for name, settings in experiments.items():
        spec._scale_changes[name] = changed_settings(settings, params.overlay(paper, name) or {})
        for scale in params.scales:
            spec._sizes[name, scale] = _size(settings, params.overlay(paper, name, scale) or {})
    checker = ReferenceChecker(
        str(path),
        "",
        experiments,
        params.scales,
        list(read_curves(spec)),
        spec.experiments,
        spec.figures,
    )
    labels = dict.fromkeys(label for choices in series.values() for label in choices)
    checker.at("proposed").check_names("series", spec.proposed, labels)
    scales = (ALL_SCALES, *checker.scales)
    checker.at("elsewhere").check_names("headline", spec.elsewhere, spec.headlines)
    for key, other in spec.elsewhere.items():
        checker.at("elsewhere", key).check_names("claim", other.claims, spec.claims)
    checks = [
        functools.partial(_check_experiment, checker.at("experiments", name), name)
        for name in spec.experiments
    ]
    for group in ARTIFACT_KINDS:
        checks += [
            functools.partial(item.check, checker.at(group, key))
            for key, item in getattr(spec, group).items()
        ]
    for key, figure in spec.figures.items():
        remarks = checker.at("figures", key, "remarks")
        checks.append(functools.partial(remarks.check_names, "scale", figure.remarks, scales))
    for_each(checks, lambda check: check())
    for_each(
        spec.claims,
        lambda key: _check_claim(replace(checker, file=str(folder / CLAIMS), key=key), spec, key),
    )
    if not spec.figures and not spec.tables:
        raise UserError(f"{path}: figures, tables: expected at least one figure or table")
    return spec


def _size(settings: Mapping[str, Any], overlay: Mapping[str, Any]) -> str:
    whole, images = settings.get("rounds"), overlay.get("train_images")
    here = overlay.get("rounds", whole)
    rounds = f"{here} of {whole}" if whole and here < whole else here
    numbers = [
        len(datasets.classes(data))
        for data in (overlay.get("dataset"), settings.get("dataset"))
        if isinstance(data, str)
    ]
    classes = f", {numbers[0]} of {numbers[1]} classes" if len({*numbers}) > 1 else ""
    return f"{rounds} rounds" + (f", {images:,} images" if images else "") + classes


def _check_claim(checker: ReferenceChecker, spec: Paper, key: str) -> None:
    claim = spec.claims[key]
    claim.check(checker)
    if not spec.artifact_of(claim):
        needed = " and ".join(claim.shown_sources)
        checker.fail(f"artifact: {claim.artifact or 'any figure or table'} has to show {needed}")


def _check_experiment(checker: ReferenceChecker, name: str) -> None:
    shown = checker.display_options[name]
    checker.check_ref(ExperimentRef(experiment=name))
    if "name" in shown.model_fields_set and not shown.name.strip():
        checker.fail("name: expected a text. Leave the key out to show the experiment's own name.")
    _check_calibration(checker, shown)


def _check_calibration(checker: ReferenceChecker, shown: DisplayOptions) -> None:
    """Require `calibrated_on` if several series are compared with one curve of the paper, as in the
    choice of a setting."""
    curves = list(shown.reported.values())
    several = sorted({curve for curve in curves if curves.count(curve) > 1})
    if several and shown.calibrated_on is None:
        checker.fail(
            f"calibrated_on: say which settings were chosen by the paper's {', '.join(several)}; "
            f"false: none"
        )


def _declarations(values: dict, group: str, path: Path) -> dict[str, Any]:
    declared = {} if values.get(group) is None else values[group]
    if not isinstance(declared, dict):
        raise UserError(f"{path}: {group}: expected names with their settings")
    return declared


def parse_artifact(group: str, values: Any, where: str) -> Figure | Table:
    """Return the figure or table that the settings `values` describe. `group` is figures or tables;
    `where` opens the message of a UserError."""
    if not isinstance(values, dict):
        return values
    kind = values.get("kind", ARTIFACT_KINDS[group])
    with error_prefix(f"{where}.kind"):
        model = registry.find(f"report.{group}", kind)
    return parse(model, {"kind": kind} | values, where)


def read_papers(params: Params) -> dict[str, Paper]:
    """Return all papers by name. Raises UserError."""
    return {paper: read_paper(paper, params) for paper in params.papers}


def read_curves(spec: Paper) -> dict[str, Curve]:
    """Return key -> digitised curve of the paper, as pairs of round and value in 0..1. Raises
    UserError."""
    if not spec.curves_from:
        if (spec._folder / DIGITISED).exists():
            raise UserError(
                f"{spec._folder / ARTIFACTS}: curves_from: missing. Say where the curves of "
                f"{DIGITISED} were read"
            )
        return {}
    try:
        stored = CURVES.validate_json(_curves_text(spec), strict=True)
        curves: dict[str, Curve] = {
            key: list(zip(rounds, values, strict=True)) for key, (rounds, values) in stored.items()
        }
    except ValueError:
        raise UserError(
            f"{spec._folder / DIGITISED}: expected key -> [rounds, values], as many rounds "
            f"(integers) as values (numbers)"
        ) from None
    if hidden := next(filter(None, map(strict_yaml.hidden_letter, curves)), ""):
        raise UserError(f"{spec._folder / DIGITISED}: {hidden}")
    return curves


def _curves_text(spec: Paper) -> str:
    if not spec.curves_from:
        return ""
    path = spec._folder / DIGITISED
    try:
        return read_file(path, "choose another file", strict_yaml.MAX_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path}: cannot be read as text") from None


def paper_data(
    spec: Paper, results: Mapping[str, Results], curves: Mapping[str, Curve]
) -> PaperData:
    """Return what a paper's artifacts are made from. `results`: experiment, or
    `<experiment>-<study>` -> gathered results."""
    ends: dict[str, dict[str, float]] = {}
    savings: dict[str, dict[str, float]] = {}
    for table in spec.tables.values():
        for ref in table.panels:
            if (
                ref.resolved(spec.experiments).measure
                == spec.experiments.get(ref.experiment, DisplayOptions()).measure
            ):
                ends.setdefault(ref.experiment, {}).update(table.paper_ends(ref))
                savings.setdefault(ref.experiment, {}).update(table.paper_savings(ref))
    return PaperData(
        spec.experiments,
        results,
        curves,
        spec.figures,
        spec.styles,
        spec.curves_from,
        ends,
        savings,
        spec._sizes,
    )


def spec_digest(spec: Paper) -> str:
    """Return a digest of a paper's artifacts and claims, the settings that scales change, its
    series' styles and its curves."""
    parts = [
        spec.model_dump_json(),
        repr(spec._scale_changes),
        repr(spec.styles),
        _curves_text(spec),
    ]
    return provenance.value_digest(parts)


def targets(specs: Mapping[str, Paper]) -> dict[str, tuple[str, str]]:
    """Return target on the command line -> paper and artifact. An artifact has the target
    `<paper>_<artifact>`, and also its own name if no other paper has an artifact of that name.
    Raise UserError if two artifacts have the same target."""
    long: dict[str, tuple[str, str]] = {}
    keys = [key for spec in specs.values() for key in spec.artifacts]
    for paper, spec in specs.items():
        if paper in RULES:
            raise UserError(
                f"params.yaml: papers: '{paper}' already names something else; choose another name"
            )
        for key in spec.artifacts:
            name = f"{paper}_{key}"
            if name in long or name in specs:
                raise UserError(
                    f"{spec._folder / ARTIFACTS}: '{name}' already names something else; choose "
                    f"another name for '{key}'"
                )
            long[name] = (paper, key)
    short = {key: (paper, key) for paper, key in long.values() if keys.count(key) == 1}
    return {
        key: artifact for key, artifact in short.items() if key not in specs and key not in long
    } | long


# class -> the package of its kinds
KINDS = {"Figure": "figures", "Table": "tables", "Quantity": "quantities"}


def artifacts_schema() -> Schema:
    """Return the JSON schema of artifacts.yaml."""
    schema = Paper.model_json_schema()
    # in claims.yaml, whose schema refers to this one
    del schema["properties"]["claims"], schema["properties"]["protocols"]
    schema["required"].remove("claims")
    defs = schema["$defs"]
    del defs["Protocol"]
    for name, package in KINDS.items():
        kinds = [_kind_schema(package, kind) for kind in registry.names(f"report.{package}")]
        for kind in kinds:
            defs |= kind.pop("$defs", {})
        defs[name] = {"anyOf": kinds}
    defs["QuantityPart"] = any_choice(
        quantity["properties"] for quantity in defs["Quantity"]["anyOf"]
    )
    claim, part = defs["Claim"]["properties"], {"$ref": "#/$defs/QuantityPart"}
    claim["scales"]["additionalProperties"] = part  # e.g. the target at another scale
    # the defaults of a group, or a claim beside them
    defs["ClaimPart"] = object_schema(claim | {"quantity": part})
    for group in ARTIFACT_KINDS:
        schema["properties"][group]["propertyNames"] = NAMES
    return without_titles(schema)


def _kind_schema(package: str, kind: str) -> Schema:
    """Return the schema of one kind; the key `kind` is required except for the default kind."""
    schema = registry.find(f"report.{package}", kind).model_json_schema()
    schema["properties"]["kind"] = {"const": kind}
    if package in ARTIFACT_KINDS and ARTIFACT_KINDS[package] == kind:
        schema["required"].remove("kind")
    return schema
