"""The results of a scale as a Provenance Run RO-Crate: an archive with workflow, settings, runs and artifacts, and metadata on
which was made from which (https://w3id.org/ro/wfrun/provenance/0.5)."""

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
from fedrepro.runs import records
from fedrepro.runs.gather import ResultSources

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
STEPS = {  # script -> description
    "train": "Train one run",
    "study": "Evaluate finished runs",
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
    ".js": "text/javascript",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".py": "text/x-python",
    ".tex": "application/x-tex",
    ".ipynb": "application/x-ipynb+json",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
}
LONGEST = 300  # characters of a text: names of data and hardware come from files that anybody may have written


def write(
    papers: Mapping[str, Paper],
    gathered: Mapping[str, Iterable[ResultSources]],
    shown: Mapping[str, Iterable[str]],
    reports: Path,
    out: Path,
) -> None:
    """Write the crate as the zip file `out`. The working folder must be the top folder of the repository.

    Args:
        papers: name -> paper.
        gathered: paper -> the runs and studies behind each of its gathered results.
        shown: paper -> its artifacts that show something.
        reports: reports/<scale>.
        out: the zip file.
    """
    crate = Crate(f"fedrepro, scale {reports.name}")
    for paper, specification in papers.items():
        crate.add_paper(specification, gathered[paper], shown[paper], reports / paper)
    pages = sorted([*reports.rglob("index.html"), *reports.rglob("curves.js")])
    scripts = [crate.file(path) for path in sorted((reports.parent / "vega").glob("*"))]  # that draw the curves
    documents = [
        path for name in DOCUMENTS if (path := reports / name).exists() and not _is_older(path, reports / "report.tex")
    ]
    crate.add_action("page", f"Documents of scale {reports.name}", scripts, dict.fromkeys([*documents, *pages]))
    crate.close()
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(out) as temporary:
        crate.crate.write_zip(temporary)


class Crate:
    """A crate under construction. Each file is added once, and each execution of a step is an action."""

    def __init__(self, name: str) -> None:
        self.crate: Any = ROCrate(version="1.1")  # its methods are annotated with tuples that they return for several entities
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
        self._add_code()

    def _entity(self, key: str, kind: str, **properties: Any) -> Entity:
        short = {name: _short(value) for name, value in properties.items()}
        return self.crate.add(ContextEntity(self.crate, key, properties={"@type": kind, **short}))

    def _add_code(self) -> None:
        """Add the workflow, its files and its settings."""
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
        """Return the entity of a file, which is added under its path in the repository."""
        if path not in self.files:
            properties: dict[str, Any] = {"name": _short(path.name)}
            if path in TOOLS.values():
                properties |= {"@type": ["File", "SoftwareSourceCode"], "version": self.version}
            properties["encodingFormat"] = KINDS.get(path.suffix, "text/plain")
            self.files[path] = self.crate.add_file(path, path.as_posix(), properties=properties)
        return self.files[path]

    def add_action(self, step: str, name: str, used: Iterable[Entity], made: Iterable[Path], **more: Any) -> Entity:
        """Add an execution of a step, with the entities that it used and the files that it made."""
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
        """Add a paper's runs, studies and artifacts, without the experiments that were not run."""
        finished = {sources.note["experiment"]: sources for sources in gathered if sources.series}
        for sources in finished.values():
            for run in _run_folders(sources):
                self.add_run(run)
        for name, sources in finished.items():
            used = [self.file(path) for path in _unique(_stored_file(run) for run in _run_folders(sources))]
            if sources.tables is not None:
                tables = [path for paths in sources.tables.values() for path in paths]
                made = _unique(_stored_file(path) for path in tables)
                self.add_action("study", f"{name}: study", used, made)
                used = [self.file(path) for path in made]
            data = [folder / "data" / f"{name}.{ending}" for ending in ("csv", "json")]
            self.add_action("artifacts", f"{name}: gathered", used, data)
        for key in shown:
            used = [self.file(folder / "data" / f"{name}.csv") for name in specification.sources([key]) if name in finished]
            files = [folder / name for name in artifacts.artifact_files(specification, key)]
            self.add_action("artifacts", key, used, files)

    def add_run(self, folder: Path) -> None:
        """Add the training of a run, unless it was added before, with its settings and its duration."""
        if folder in self.runs:
            return
        self.runs.add(folder)
        record = records.load(folder)
        environment = record["environment"]
        description = f"{record['dataset']}; code {record['code']}, commit {environment['commit']}, {environment['hardware']}"
        key = provenance.value_digest([record["dataset"], record["data"]], 12)  # different data sets are different entities
        data = self._entity(f"#data-{key}", "CreativeWork", name=record["dataset"], identifier=record["data"])
        used = [self.settings, data]
        more: dict[str, Any] = {"description": description}
        if "seconds" in record:
            more["resourceUsage"] = self._entity(
                f"#seconds-{folder.name}",
                "PropertyValue",
                name=f"time of training, {record['timed_rounds']} rounds",
                propertyID="https://schema.org/totalTime",
                unitCode="http://qudt.org/vocab/unit/SEC",
                value=str(record["seconds"]),
            )
        self.add_action("train", folder.name, used, [_stored_file(folder)], **more)

    def close(self) -> None:
        """Add the kept files, if any run of them is shown, and the run of the whole workflow, with its steps."""
        done = {step: actions for step, actions in self.actions.items() if actions}
        controls = []
        for position, (step, actions) in enumerate(done.items(), 1):
            tool = self.file(TOOLS[step])
            properties = {"name": STEPS[step], "position": str(position), "workExample": tool}
            how_to = self._entity(f"#step-{step}", "HowToStep", **properties)
            self.workflow.append_to("step", how_to)
            self.workflow.append_to("hasPart", tool)
            for action in actions:
                named = {"name": f"orchestrated {action.id[1:]}", "instrument": how_to, "object": action}
                controls.append(self._entity(f"#control-{action.id[1:]}", "ControlAction", **named))
        self._add_parameter("settings", "input", [self.settings])
        self._add_parameter("artifacts", "output", list(self.made.values()))
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

    def _add_parameter(self, name: str, direction: str, files: list[Entity]) -> None:
        parameter = self.crate.add_formal_parameter(name, "File", f"#{name}", properties={"workExample": _one_or_all(files)})
        self.workflow[direction] = parameter
        for file in files:
            file["exampleOfWork"] = parameter


def _one_or_all(entities: list[Entity]) -> Entity | list[Entity] | None:
    """Return a value for JSON-LD, in which a single entity is not a list."""
    return entities[0] if len(entities) == 1 else entities or None


def _stored_file(path: Path) -> Path:
    """Return the file with the record of a run's folder or of a study; of what is kept, the paper's file."""
    kept = next((folder for folder in path.parents if folder.suffix == records.KEPT), None)
    return kept or (path if path.suffix == ".json" else path / records.RECORD)


def _unique(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(paths))


def _run_folders(sources: ResultSources) -> list[Path]:
    return [folder for folders in sources.series.values() for folder in folders]


def _is_older(path: Path, source: Path) -> bool:
    """Return whether a PDF was made before the document that it shows."""
    return path.suffix == ".pdf" and source.exists() and path.stat().st_mtime < source.stat().st_mtime


def _sources(folder: Path | str) -> list[Path]:
    """Return the files below a folder, without links, which may lead anywhere."""
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file() and not path.is_symlink()]
    return [path for path in files if "__pycache__" not in path.parts]


def _short(value: Any) -> Any:
    """Return a text on one line and of bounded length; other values unchanged."""
    return " ".join(value.split())[:LONGEST] if isinstance(value, str) else value
