"""A scale's results as a Provenance Run RO-Crate: one archive with workflow, settings, runs and artifacts, that says which came
from which (https://w3id.org/ro/wfrun/provenance/0.5)."""

import importlib.metadata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rocrate.model import ContextEntity, SoftwareApplication
from rocrate.model.entity import Entity
from rocrate.rocrate import ROCrate

from fedrepro import __version__
from fedrepro.core import provenance
from fedrepro.core.files import atomic_write
from fedrepro.report import artifacts
from fedrepro.report.paper import Paper
from fedrepro.runs import integrity
from fedrepro.runs.gather import ResultSources
from fedrepro.runs.kept import METRICS, RUNS, STUDIES, is_kept
from fedrepro.runs.run import RESULT_FILES

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
STEPS = {  # script -> what it does
    "train": "Train one run",
    "study": "Ask something of finished runs",
    "artifacts": "Gather results, make figures, tables and verdicts",
    "page": "Write the documents of a scale",
}
TOOLS = {step: Path(f"workflow/scripts/{step}.py") for step in STEPS}
BIOSCHEMAS = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
DONE = "http://schema.org/CompletedActionStatus"
DOCUMENTS = ("index.html", "report.tex", "report.pdf", "metrics.json")
KINDS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".py": "text/x-python",
    ".tex": "application/x-tex",
    ".ipynb": "application/x-ipynb+json",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
}
LONGEST = 300  # letters of a text: names of data and hardware come from files that anybody may have written


def write(
    papers: Mapping[str, Paper],
    gathered: Mapping[str, Iterable[ResultSources]],
    shown: Mapping[str, Iterable[str]],
    reports: Path,
    out: Path,
) -> None:
    """Write `out`, a zip, from the repository's top folder. `reports` is reports/<scale>; `gathered` and `shown`, what was
    gathered for a paper there and which artifacts it has."""
    crate = Crate(f"fedrepro, scale {reports.name}")
    for paper, specification in papers.items():
        crate.add_paper(specification, gathered[paper], shown[paper], reports / paper)
    pages = sorted(reports.rglob("index.html"))
    documents = [reports / name for name in DOCUMENTS if (reports / name).exists()]
    crate.act("page", f"Documents of scale {reports.name}", [], dict.fromkeys([*documents, *pages]))
    crate.close()
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(out) as temporary:
        crate.crate.write_zip(temporary)


class Crate:
    """The archive while it grows: files once each, one action for each thing that was done."""

    def __init__(self, name: str) -> None:
        self.crate = ROCrate(version="1.1")
        self.crate.metadata.extra_terms["resourceUsage"] = "https://w3id.org/ro/terms/workflow-run#resourceUsage"
        self.files: dict[Path, Entity] = {}
        self.runs: set[Path] = set()
        self.actions: dict[str, list[Entity]] = {step: [] for step in STEPS}
        self.made: dict[Path, Entity] = {}
        self.version = __version__
        root = self.crate.root_dataset
        root["name"] = name
        root["description"] = "Tables and figures of federated-learning papers, reproduced, with the runs behind them"
        self.license = self._entity("https://spdx.org/licenses/MIT", "CreativeWork", name="MIT License")
        root["license"] = self.license
        root["author"] = self._entity("#authors", "Organization", name="the fedrepro authors")
        root["conformsTo"] = [self._entity(key, "CreativeWork", name=text, version=key[-3:]) for key, text in PROFILES.items()]
        self._code()

    def _entity(self, key: str, kind: str, **properties: Any) -> Entity:
        own = {name: _short(value) for name, value in properties.items()}
        return self.crate.add(ContextEntity(self.crate, key, properties={"@type": kind, **own}))

    def _code(self) -> None:
        """The workflow, the files that it consists of, and its settings."""
        self.workflow = self.crate.add_workflow(
            "Snakefile",
            "Snakefile",
            main=True,
            lang="snakemake",
            lang_version=importlib.metadata.version("snakemake"),
            properties={
                "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
                "name": "fedrepro",
                "version": self.version,
                "license": self.license,
                "encodingFormat": "text/plain",
                "conformsTo": self._entity(BIOSCHEMAS, "CreativeWork", name="ComputationalWorkflow profile", version="1.0"),
            },
        )
        self.file(Path("README.md"))["about"] = self.crate.root_dataset
        for path in (Path("LICENSE"), Path("pyproject.toml"), *_sources("workflow"), *_sources("src")):
            self.file(path)
        self.settings = self.file(Path("params.yaml"))

    def file(self, path: Path) -> Entity:
        """A file of the archive, under its path in the repository."""
        if path not in self.files:
            properties: dict[str, Any] = {"name": _short(path.name)}
            if path in TOOLS.values():
                properties |= {"@type": ["File", "SoftwareSourceCode"], "version": self.version}
            properties["encodingFormat"] = KINDS.get(path.suffix, "text/plain")
            self.files[path] = self.crate.add_file(path, path.as_posix(), properties=properties)
        return self.files[path]

    def act(self, step: str, name: str, used: Iterable[Entity], made: Iterable[Path], **more: Any) -> Entity:
        """Something that a step did."""
        results = [self.file(path) for path in made]
        self.made |= dict(zip(made, results, strict=True)) if step in ("artifacts", "page") else {}
        properties = {
            "name": name,
            "description": STEPS[step],
            "actionStatus": DONE,
            **{name: _short(value) for name, value in more.items()},
        }
        key = f"#{step}-{len(self.actions[step]) + 1}"
        action = self.crate.add_action(
            self.file(TOOLS[step]), key, object=_one_or_all(list(used)), result=_one_or_all(results), properties=properties
        )
        self.actions[step].append(action)
        return action

    def add_paper(self, specification: Paper, gathered: Iterable[ResultSources], shown: Iterable[str], folder: Path) -> None:
        """A paper's runs, studies and artifacts. What was not run is left out."""
        there = {given.note["experiment"]: given for given in gathered if given.series}
        for given in there.values():
            for run in _folders(given):
                self.add_run(run)
        for name, given in there.items():
            used = [self.file(path) for path in _once(_file(run, "metrics.csv") for run in _folders(given))]
            if given.tables is not None:
                made = _once(_file(path.parent, path.name) for paths in given.tables.values() for path in paths)
                self.act("study", f"{name}: study", used, made)
                used = [self.file(path) for path in made]
            self.act("artifacts", f"{name}: gathered", used, [folder / "data" / f"{name}.{end}" for end in ("csv", "json")])
        for key in shown:
            used = [self.file(folder / "data" / f"{name}.csv") for name in specification.sources([key]) if name in there]
            self.act("artifacts", key, used, [folder / name for name in artifacts.artifact_files(specification, key)])

    def add_run(self, folder: Path) -> None:
        """One training, once, with the settings that it had and the time that it took."""
        if folder in self.runs:
            return
        self.runs.add(folder)
        record = integrity.load_record(folder)
        environment = record["environment"]
        told = f"{record['dataset']}; code {record['code']}, commit {environment['commit']}, {environment['hardware']}"
        key = provenance.value_digest([record["dataset"], record["data"]], 12)  # two data sets are never one entity
        data = self._entity(f"#data-{key}", "CreativeWork", name=record["dataset"], identifier=record["data"])
        files = [] if is_kept(folder) else [name for name in RESULT_FILES if name != "config.json" and (folder / name).exists()]
        used = [self.file(_file(folder, "config.json")), data]
        more: dict[str, Any] = {"description": told}
        if "seconds" in record:
            more["resourceUsage"] = self._entity(
                f"#seconds-{folder.name}",
                "PropertyValue",
                name=f"time of training, {record['timed_rounds']} rounds",
                propertyID="https://schema.org/totalTime",
                unitCode="http://qudt.org/vocab/unit/SEC",
                value=str(record["seconds"]),
            )
        self.act("train", folder.name, used, [folder / name for name in files] or [_file(folder, "metrics.csv")], **more)

    def close(self) -> None:
        """The run of the whole workflow, with its steps."""
        done = {step: actions for step, actions in self.actions.items() if actions}
        controls = []
        for position, (step, actions) in enumerate(done.items(), 1):
            tool = self.file(TOOLS[step])
            properties = {"name": STEPS[step], "position": str(position), "workExample": tool}
            how = self._entity(f"#step-{step}", "HowToStep", **properties)
            self.workflow.append_to("step", how)
            self.workflow.append_to("hasPart", tool)
            for action in actions:
                named = {"name": f"orchestrated {action.id[1:]}", "instrument": how, "object": action}
                controls.append(self._entity(f"#control-{action.id[1:]}", "ControlAction", **named))
        self._parameter("settings", "input", [self.settings])
        self._parameter("artifacts", "output", list(self.made.values()))
        whole = {"name": f"Run of {self.crate.name}", "actionStatus": DONE}
        whole |= {"description": "All steps of this scale", "object": self.settings, "result": list(self.made.values())}
        run = self.crate.add_action(self.workflow, "#run", properties=whole)
        engine = importlib.metadata.version("snakemake")
        about = {"name": "Snakemake", "softwareVersion": engine, "url": "https://snakemake.github.io"}
        snakemake = self.crate.add(SoftwareApplication(self.crate, f"https://pypi.org/project/snakemake/{engine}/", about))
        organized = {"name": f"Snakemake {engine}", "instrument": snakemake, "object": controls, "result": run}
        self._entity("#organized", "OrganizeAction", **organized)
        mentioned = [run, *(action for actions in done.values() for action in actions)]
        self.crate.root_dataset["mentions"] = mentioned

    def _parameter(self, name: str, way: str, files: list[Entity]) -> None:
        parameter = self.crate.add_formal_parameter(name, "File", f"#{name}", properties={"workExample": _one_or_all(files)})
        self.workflow[way] = parameter
        for file in files:
            file["exampleOfWork"] = parameter


def _one_or_all(entities: list[Entity]) -> Entity | list[Entity] | None:
    """As JSON-LD likes them: one stands alone."""
    return entities[0] if len(entities) == 1 else entities or None


def _file(folder: Path, name: str) -> Path:
    """A file in a run's folder; of a kept run the paper's file that holds what it would."""
    if not is_kept(folder):
        return folder / name
    return folder.parent / {"config.json": RUNS, "metrics.csv": METRICS}.get(name, STUDIES)


def _once(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(paths))


def _folders(given: ResultSources) -> list[Path]:
    return [folder for folders in given.series.values() for folder in folders]


def _sources(folder: str) -> list[Path]:
    """The files below a folder; a link may lead to anything."""
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file() and not path.is_symlink()]
    return [path for path in files if "__pycache__" not in path.parts]


def _short(value: Any) -> Any:
    """A text on one line and of bounded length; anything else as it is."""
    return " ".join(value.split())[:LONGEST] if isinstance(value, str) else value
