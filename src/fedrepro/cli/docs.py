"""The page docs/configuration.md: every setting with its default and description, and every name
that may be chosen; the JSON schemas of the settings' files; what a verdict means; and what of each
paper is registered."""

import functools
import importlib
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from fedrepro.config import registry
from fedrepro.config.json_schema import experiments_schema, settings_schema
from fedrepro.config.params import (
    Experiment,
    Params,
    PixelScaling,
    Proxy,
    Scale,
    Tuning,
    Validation,
    read_params,
)
from fedrepro.config.types import Frozen
from fedrepro.core.files import atomic_write
from fedrepro.experiments import registered
from fedrepro.report import paper as spec
from fedrepro.report.documents import findings
from fedrepro.report.inference import replication_tolerance
from fedrepro.report.paper import Paper, artifacts_schema
from fedrepro.report.verdicts import registration
from fedrepro.report.verdicts.protocol import Protocol
from fedrepro.report.verdicts.rules import RULES
from fedrepro.report.verdicts.summary import Record
from fedrepro.runs.records import KEPT, load_kept

PAGE, ARTIFACTS, PROTOCOLS, VERDICTS = (
    Path(f"docs/{name}.md") for name in ("configuration", "artifacts", "protocols", "verdicts")
)
README, SCHEMAS = Path("README.md"), Path("workflow/schemas")
RESULTS, END = "<!-- results, by `uv run fedrepro docs` -->", "<!-- end of results -->"
INTRO = """<!-- written by `fedrepro docs` from the settings' models; do not edit -->
# Configuration

A misspelt key or an impossible value ends a command before it begins, with file, key and the valid
values.
"""
ARTIFACTS_INTRO = """<!-- written by `fedrepro docs` from the settings' models; do not edit -->
# Figures, tables and claims

What `artifacts.yaml` (experiments as shown, figures, tables), `claims.yaml` and `protocols.yaml` of
a paper may hold. A `kind` is followed by its keys, those without a default in bold, and by an
example from one of the papers.
"""
PROTOCOLS_INTRO = """<!-- written by `fedrepro docs` from protocols.yaml; do not edit -->
# Protocols

What is tested of each abstract, written before its runs. `protocols.yaml` in a paper's folder says
how each sentence is read, what of the paper's set-up is kept and what is reduced, and why; the
claim and its experiment hold what is computed. One t interval (95 %) over seeds decides, with
Holm's correction (5 %) over the headlines of a paper, answered or not: supported or contradicted
if it still excludes zero; contradicted also if it is not all on the claimed side of zero and lies
below the smallest lead that counts; else open, also if a seed misses the target. The correction
makes a word rarer; it was set on 2026-11-29, before any result of a headline was read.
Power: of *supported*, if the effect is the planned one, half of it, or the planned one at the first
step of the correction. Core hours are of an AMD EPYC (Zen 4).
"""
ANSWERS_INTRO = """## Answers

Of the protocols whose runs are finished. Power: as planned, and with the standard deviation that
was found in place of the planned one. Core hours: as planned, and of the training of all runs that
the claim needs, some of which may serve another claim too.
"""
VERDICTS_PAGE = """<!-- written by `fedrepro docs` from report/verdicts/rules.py; do not edit -->
# Verdicts

A claim is a sentence of a paper that states a number or a direction, or a question of our own, with
the quantity of our runs that it is compared with. Its verdict is one of four words. It follows from
the 95 % interval of the mean over n seeds (Student's t; `±` is half of it); differences and savings
are paired by seed. At scale `small` only directions are judged.

{rules}
- *Holm's correction* (5 %) is over one paper's claims at one scale: the headlines, which are the
  claims of its abstract with a [protocol](protocols.md), are one family, its other claims on
  differences another. A headline that is not answered yet counts as one with p = 1: answers that
  come later take no word back. Claims on the same difference of the same runs count once. If a
  claim needs two differences, its p is the larger one. Equal differences in all seeds have no p.
- *The smallest lead that counts* is half of the reported number for a headline, and 0.04 in log
  odds for a lead without a number at scale `paper`: 1 point at an accuracy of 50 %, 0.36 at 90 %,
  0.04 at 99 %.
- *Tolerance.* A claim states its tolerance, with the reason. Where the paper gives a standard
  deviation s over m runs, it is the one that an exact replication with our n seeds meets in 95 % of
  cases: the 95 % quantile of |D| + t S / √n, with D ~ N(0, s² (1/m + 1/n)) and S our standard
  deviation if the true one is s. For m = 5 that is {three:.2f} s with three seeds and {five:.2f} s
  with five.
- *Further away than tolerance and chance explain*: by more than the tolerance and half of the 95 %
  interval of one more run of ours, √(n + 1) times `±`, since the paper's number is a single run; by
  more than the tolerance and `±` where it has a standard deviation. It needs no correction: a
  paper's own number is seldom so far away by chance.
- *Panels.* In a claim over several panels a seed counts once, with its mean over the panels; seeds
  that a panel lacks are left out.
- *More seeds.* If a reported difference is open, the page says how many seeds would detect one of
  that size in 80 % of tries, given the standard deviation of our seeds; with few seeds this is a
  rough estimate.
- *Registration* is computed. `registered.json` in a paper's folder holds every claim with its rule
  and the settings of its runs, written out; a run names the commit that trained it. If the claim
  stood, word for word, in the commit of every run that decides it, the verdict says "registered in"
  the first such commit; else after how many of its runs it was listed.
- *Intervals* cover what a seed draws: partition, initial weights, batches. They do not cover which
  images a scale uses, the same for all seeds, nor the choice of tuned values. If the paper's own
  plotted curves contradict its text, the verdict notes it.
- *Files.* Verdicts are on the pages of `reports/`, in
  `reports/<scale>/<paper>/tables/verdicts.json`, and in Python (`fedrepro.results.verdicts`); how a
  claim is written is in [CONTRIBUTING](../CONTRIBUTING.md#a-paper).
"""
MODELS: tuple[tuple[str, type[Frozen]], ...] = (
    ("params.yaml", Params),
    ("A scale", Scale),
    ("An experiment", Experiment),
    ("`proxy` of an experiment", Proxy),
    ("`pixel_scaling` of an experiment", PixelScaling),
    ("`validation` of an experiment", Validation),
    ("`tuning` of an experiment", Tuning),
)
KINDS = {
    "algorithms": "Methods, in `series`",
    "datasets": "`dataset`",
    "partitions": "`partition`",
    "models": "`model`",
    "schedules": "`schedule`",
    "tasks": "`task`",
    "studies": "`studies`",
}


def texts(root: Path = Path()) -> dict[Path, str]:
    """Return the generated files of the repository `root`: the page, the JSON schemas, and each
    paper's registered.json."""
    schemas = {
        "params": settings_schema,
        "experiments": experiments_schema,
        "artifacts": artifacts_schema,
    }
    schemas["protocols"] = TypeAdapter(dict[str, Protocol]).json_schema
    files = {
        SCHEMAS / f"{name}.schema.json": json.dumps(schema(), indent=1) + "\n"
        for name, schema in schemas.items()
    }
    params = read_params(root / "params.yaml")
    papers = {path.relative_to(root): text for path, text in registered.texts(params).items()}
    entries = {path.parent.name: registration.from_text(text) for path, text in papers.items()}
    named = spec.read_papers(params)
    specs = list(named.values())
    records = findings.collect_records(root / "reports", named, _compared_scales(params))
    pages = {
        PAGE: page(),
        ARTIFACTS: artifacts(specs),
        VERDICTS: verdicts(),
        PROTOCOLS: f"{protocols(specs)}\n{answers(named, records, entries, root / 'results/kept')}",
    }
    readme = (root / README).read_text(encoding="utf-8") if (root / README).exists() else ""
    return pages | files | papers | {README: with_results(readme, root, params, specs)}


def write(root: Path = Path()) -> list[Path]:
    """Write the generated files that are out of date in the repository `root`, and return them."""
    written = []
    for path, text in texts(root=root).items():
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text:
            with atomic_write(root / path) as temporary:
                temporary.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def with_results(readme: str, root: Path, params: Params, specs: Sequence[Paper]) -> str:
    """Return the README with its table of results, between two comments, from the verdicts in
    reports/."""
    scales = _compared_scales(params)
    papers = dict(zip(params.papers, specs, strict=True))
    records = findings.collect_records(root / "reports", papers, scales)
    rows = findings.answer_headlines(records, papers, scales)
    said = (
        f"{findings.coverage(records, scales)} "
        f"{findings.count_answers(rows)}\n\n{findings.readme_table(rows, scales)}"
    )
    begin, _, rest = readme.partition(f"{RESULTS}\n")
    return f"{begin}{RESULTS}\n{said}{END}{rest.partition(END)[2]}" if rest else readme


def _compared_scales(params: Params) -> list[str]:
    """Return the scales that are compared with the papers, the papers' own first."""
    compared = [name for name, scale in params.scales.items() if scale.compare != "none"]
    return sorted(compared, key=lambda name: params.scales[name].compare != "full")


def page() -> str:
    """Return the text of the page."""
    settings = [f"## {title}\n\n{_settings(model)}" for title, model in MODELS]
    choices = [f"## {title}\n\n{_choices(kind)}" for kind, title in KINDS.items()]
    return "\n".join([INTRO, *settings, *choices])


def verdicts() -> str:
    """Return the page of what a verdict means."""
    rules = _table(
        ("verdict", "of a claim"), [(f"*{status}*", rule) for status, rule in RULES.items()]
    )
    return VERDICTS_PAGE.format(
        rules=rules, three=replication_tolerance(5, 3), five=replication_tolerance(5, 5)
    )


def artifacts(papers: Sequence[Paper]) -> str:
    """Return the page of figures, tables, quantities, claims and protocols, with the shortest
    example of each in the papers."""
    claims = [claim for paper in papers for claim in paper.claims.values()]
    groups: dict[str, list[Frozen]] = {
        "Figures": [one for paper in papers for one in paper.figures.values()],
        "Tables": [one for paper in papers for one in paper.tables.values()],
        "Quantities": [claim.quantity for claim in claims],
    }
    singles: dict[str, list[Frozen]] = {
        "An experiment, as it is shown": [
            one for paper in papers for one in paper.experiments.values()
        ],
        "A claim": list(claims),
        "A protocol": [one for paper in papers for one in paper.protocols.values()],
    }
    parts = [ARTIFACTS_INTRO]
    for title, used in groups.items():
        parts.append(f"## {title}\n")
        for kind in registry.names(f"report.{title.lower()}"):
            model = registry.find(f"report.{title.lower()}", kind)
            parts.append(
                f"### `{kind}`\n\n{_described(model, [one for one in used if type(one) is model])}"
            )
    parts += [f"## {title}\n\n{_described(type(used[0]), used)}" for title, used in singles.items()]
    return "\n".join(parts)


def _described(model: type[Frozen], used: Iterable[Frozen]) -> str:
    """Return what a model is, its keys with their defaults, and the shortest one that is used."""
    fields = {key: field for key, field in model.model_fields.items() if key != "kind"}
    keys = [f"**`{key}`**" if field.is_required() else f"`{key}`" for key, field in fields.items()]
    text = f"{' '.join((inspect.getdoc(model) or '').split())}\n\nKeys: {', '.join(keys)}.\n"
    dumped = [one.model_dump(mode="json", exclude_unset=True) for one in used]
    examples = [
        yaml.safe_dump(one, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
        for one in dumped
    ]
    return text + (
        f"\n```yaml\n{min(examples, key=lambda one: (len(one), one))}```\n" if examples else ""
    )


def protocols(papers: Iterable[Paper]) -> str:
    """Return the page of protocols: a table of them, and the time that they take."""
    rows, hours = [], 0.0
    for paper in papers:
        tests = len(paper.headlines)
        for key, one in paper.protocols.items():
            power = [one.power(), one.power(0.5), one.power(tests=tests)]
            shown = " / ".join("-" if value is None else f"{value:.2f}" for value in power)
            claim = paper.claims[key]
            sentence = f'"{one.sentence}"' if one.sentence else "explanation"
            rows.append(
                (
                    f"{claim.text} (`{key}`)",
                    sentence,
                    f"`{claim.experiment}`",
                    str(one.seeds),
                    shown,
                    f"{one.core_hours:g}",
                )
            )
            hours += one.core_hours
    head = ("claim", "abstract", "experiment", "seeds", "power", "core hours")
    return f"{PROTOCOLS_INTRO}\n{_table(head, rows)}\nAll together: {hours:.1f} core hours.\n"


def answers(
    papers: Mapping[str, Paper],
    records: Iterable[Record],
    entries: Mapping[str, Mapping[str, registration.Entry]],
    kept: Path,
) -> str:
    """Return the table of the protocols that were run: the answer, when it was registered, and
    power and core hours as planned and as found.

    Args:
        papers: specifications by name.
        records: of their claims.
        entries: of each paper's registered.json.
        kept: folder of the kept runs.
    """
    kept_runs = functools.cache(lambda paper: load_kept(kept / f"{paper}{KEPT}"))
    rows = []
    for record in records:
        one = papers[record.paper].protocols.get(record.key)
        if one is None or not record.tested:
            continue
        found = None
        if one.sd and record.standard_error and record.seeds:
            # the protocol's is in points or percent
            sd = 100 * record.standard_error * record.seeds**0.5
            found = one.model_copy(update={"sd": sd, "seeds": record.seeds}).power()
        power = ["-" if value is None else f"{value:.2f}" for value in (one.power(), found)]
        runs = kept_runs(record.paper).values()
        hours = registered.core_hours(entries[record.paper][f"{record.scale}.{record.key}"], runs)
        rows.append(
            (
                f"`{record.key}`",
                f"{record.words}: {record.ours}",
                record.registered,
                " / ".join(power),
                f"{one.core_hours:g} / {hours:.1f}",
            )
        )
    head = ("claim", "answer", "registered", "power", "core hours")
    return f"{ANSWERS_INTRO}\n{_table(head, rows)}"


def _settings(model: type[Frozen]) -> str:
    """Return a Markdown table with a row for each field of a model."""
    schema = model.model_json_schema()
    # anyOf: a plain name, or a mapping
    schema = schema if "properties" in schema else schema["anyOf"][-1]
    required = schema.get("required", ())
    rows = []
    for key, field in schema["properties"].items():
        default = "required" if key in required else _code(field.get("default"))
        rows.append((f"`{key}`", _values(field), default, field.get("description", "")))
    return _table(("key", "values", "default", "meaning"), rows)


def _values(field: dict[str, Any]) -> str:
    """Return the valid values of a field in words, from its JSON schema."""
    if "anyOf" in field:
        return " or ".join(_values(one) for one in field["anyOf"])
    if "enum" in field:
        return ", ".join(_code(value) for value in field["enum"])
    if "const" in field:
        return _code(field["const"])
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2].lower()
    if field.get("type") == "array":
        return f"list of {_values(field.get('items', {}))}"
    bounds = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    limits = [f"{words} {field[key]}" for key, words in bounds.items() if key in field]
    return " ".join([field.get("type", "mapping"), *limits])


def _choices(kind: str) -> str:
    """Return a Markdown table with a row for each name of a kind, with its options and their
    defaults."""
    rows = []
    for name in registry.names(kind):
        found = registry.find(kind, name)
        owner = (
            found
            if kind in registry.TABLES
            else importlib.import_module(registry.module_path(kind, name))
        )
        docstring = " ".join((getattr(found, "about", None) or inspect.getdoc(owner) or "").split())
        summary = re.split(r"(?<=\.)\s+(?=[A-Z`])", docstring)[0]
        model = registry.options_model(kind, name)
        fields = model.model_json_schema().get("properties", {})
        required = {key for key, field in model.model_fields.items() if field.is_required()}
        options = [
            f"`{key}`{' (required)' if key in required else _default(field)}"
            for key, field in fields.items()
        ]
        rows.append((f"`{name}`", summary, ", ".join(options)))
    return _table(("name", "what it is", "options and their defaults"), rows)


def _default(field: dict[str, Any]) -> str:
    return f" {json.dumps(field['default'], ensure_ascii=False)}" if "default" in field else ""


def _code(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{text}`" if text else "empty"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    text = ""
    for line in (head, ("---",) * len(head), *rows):
        cells = " | ".join(cell.replace("|", r"\|") for cell in line)
        text += f"| {cells} |\n"
    return text
