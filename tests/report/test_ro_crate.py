"""The research object of a scale: what is in it, and that a chain leads from each figure to the runs and their data."""

import json
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from fedrepro.experiments.plan import plan_experiments
from fedrepro.report import artifacts
from fedrepro.report.documents import ro_crate
from fedrepro.report.verdicts.summary import VERDICTS
from fedrepro.runs import records
from fedrepro.runs.gather import gather
from fedrepro.runs.paths import Paths
from support import committed
from support.checkout import ROOT
from support.experiments import finish, params

PAPER = "fedmmd"


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """The crate of the committed results at scale paper."""
    with pytest.MonkeyPatch.context() as patch:
        copy = tmp_path_factory.mktemp("crate")
        for name in ("Snakefile", "README.md", "LICENSE", "pyproject.toml", "params.yaml"):
            shutil.copy(ROOT / name, copy)
        for name in ("src", "workflow", "results/kept", f"reports/paper/{PAPER}"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        patch.chdir(copy)
        reports, out = committed.reports("paper", Paths()), copy / "crate.zip"
        specification, given, folder = reports.papers[PAPER], reports.sources(PAPER), reports.folder / PAPER
        for one in given:
            gather(one, folder / "data")
        artifacts.write_artifacts(specification, [*specification.tables, VERDICTS], folder)
        for picture in (folder / "figures").glob("*.svg"):  # the others are not committed, and slow to draw
            picture.with_suffix(".pdf").write_bytes(b"%PDF-1.7\n")
            picture.with_suffix(".png").write_bytes(b"\x89PNG\n")
        ro_crate.write({PAPER: specification}, {PAPER: given}, reports.shown, reports.folder, out)
    return out


@pytest.fixture(scope="module")
def entities(written) -> dict[str, dict]:
    with zipfile.ZipFile(written) as archive:
        graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
    return {entity["@id"]: entity for entity in graph}


def refs(value) -> list[str]:
    return [item["@id"] for item in (value if isinstance(value, list) else [value])]


def test_every_file_that_it_names_is_in_it(written, entities):
    with zipfile.ZipFile(written) as archive:
        there = set(archive.namelist())
    named = {key for key, entity in entities.items() if "File" in entity["@type"]}
    assert named and named | {"ro-crate-metadata.json"} == there
    page = f"reports/paper/{PAPER}/index.html"
    shown = re.findall(r'<img[^>]* src="([^":]+)"', (ROOT / page).read_text(encoding="utf-8"))
    assert shown and all(f"reports/paper/{PAPER}/{name}" in named for name in shown)
    assert "params.yaml" in named and not any("__pycache__" in name for name in named)


def test_every_reference_leads_to_an_entity(entities):
    for entity in entities.values():
        for key, value in entity.items():
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, dict) and key != "conformsTo":
                    assert item["@id"] in entities or item["@id"].startswith("https://"), (entity["@id"], key)


def test_a_figure_leads_to_its_runs_and_their_data(written, entities):
    made_by = {
        result: entity
        for entity in entities.values()
        if entity["@type"] == "CreateAction" and entity["@id"] != "#run"
        for result in refs(entity["result"])
    }
    drawn = made_by[f"reports/paper/{PAPER}/figures/fig4d.png"]
    [numbers] = refs(drawn["object"])
    assert refs(made_by[numbers]["object"]) == [f"results/kept/{PAPER}.jsonl"]
    trained = {entity["name"]: entity for entity in entities.values() if entity["@id"].startswith("#train-")}
    kept = records.load_kept(ROOT / f"results/kept/{PAPER}.jsonl")
    with zipfile.ZipFile(written) as archive:
        gathered = json.loads(archive.read(f"reports/paper/{PAPER}/data/fig4d.json"))["series"].values()
    for run in (run["run"] for series in gathered for run in series["runs"]):
        _, data = refs(trained[run]["object"])
        assert (f"results/kept/{PAPER}.jsonl", refs(trained[run]["result"])) == (
            f"results/kept/{PAPER}.jsonl",
            refs(made_by[numbers]["object"]),
        )
        assert kept[run]["data"] == entities[data]["identifier"]


def test_it_says_that_it_is_a_provenance_run_crate(entities):
    assert "https://w3id.org/ro/wfrun/provenance/0.5" in refs(entities["./"]["conformsTo"])
    workflow = entities[entities["./"]["mainEntity"]["@id"]]
    assert {"ComputationalWorkflow", "HowTo"} <= set(workflow["@type"])
    for step in refs(workflow["step"]):
        assert entities[step]["workExample"]["@id"] in refs(workflow["hasPart"])
    controls = [entities[key] for key in refs(entities["#organized"]["object"])]
    actions = {key for key, entity in entities.items() if entity["@type"] == "CreateAction"} - {"#run"}
    assert {control["object"]["@id"] for control in controls} == actions


HOSTILE = """"quoted' </script><script>alert(1)</script> ../../outside\n\\ #step-train {"@id": "./"} """ + "x" * 5000
FILES = ("Snakefile", "README.md", "LICENSE", "pyproject.toml", "params.yaml", *map(str, ro_crate.TOOLS.values()))
NAMES = ("a b#c%20.py", "\"'<script>.py", "two\nlines.py", "é?.py")


def test_names_and_texts_that_are_meant_to_do_harm_stay_texts(tmp_path, monkeypatch, paths):
    """Of files, of data, of hardware: each thing has one identifier of its own, and no file lies outside of the archive."""
    monkeypatch.chdir(tmp_path)
    for name in (*FILES, *(f"src/{name}" for name in NAMES)):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    Path("secret").write_text("secret")
    Path("src/link.py").symlink_to(tmp_path / "secret")
    Path("src/folder").symlink_to(tmp_path / "results")
    run = plan_experiments(params(), paths)["p"]["one"].runs[0]
    written = ro_crate.Crate("fedrepro, scale quick")
    for data in (HOSTILE, HOSTILE + "y"):
        other = replace(run, data=data)
        folder = Path("results/runs/p") / f"digits-fedavg-s0-{records.run_hash(other.config_record())}"
        other = finish(replace(other, folder=folder), dataset=HOSTILE, hardware=HOSTILE)
        written.add_run(other.folder)
    written.close()
    written.crate.write_zip("crate.zip")
    with zipfile.ZipFile("crate.zip") as archive:
        names = archive.namelist()
        graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
        assert b"secret" not in [archive.read(name) for name in names]
    assert {f"src/{name}" for name in NAMES} < set(names) and len(names) == len(set(names)) == 1 + len(FILES) + 4 + 2
    assert not any(Path(name).is_absolute() or ".." in Path(name).parts for name in names)
    ids = [entity["@id"] for entity in graph]
    assert len(ids) == len(set(ids)) and all(re.fullmatch(r"[-\w#%/.:~]+", found) for found in ids)
    assert sum(found.startswith("#data-") for found in ids) == 2
    texts = [value for entity in graph for key, value in entity.items() if isinstance(value, str) and key != "@id"]
    assert max(map(len, texts)) <= ro_crate.LONGEST and not any("\n" in text for text in texts)
