"""The reports that are committed: each table and verdict follows from the numbers committed beside it, by today's code."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fedrepro.config.params import read_params
from fedrepro.core import provenance
from fedrepro.experiments import partition_jobs, plan, study_plan
from fedrepro.report import artifacts
from fedrepro.report import paper as spec
from fedrepro.report.documents import build
from fedrepro.runs import gather, kept
from fedrepro.runs.paths import Paths
from support.results import unfinished

ROOT = Path(__file__).parents[2]
ANEW = "make them anew: uv run snakemake --config scale={scale} only_finished=true"
COMMITTED = sorted(path.parent for scale in ("small", "paper") for path in ROOT.glob(f"reports/{scale}/*/data"))


@pytest.fixture(params=COMMITTED, ids=lambda folder: "/".join(folder.parts[-2:]))
def committed(request, monkeypatch) -> tuple[Path, spec.Paper]:
    """A paper's reports at one scale, and what they consist of."""
    monkeypatch.chdir(ROOT)
    return request.param, spec.read(request.param.name, read_params())


def stored(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_numbers_follow_from_what_is_kept_without_any_data(committed, tmp_path, monkeypatch):
    """And whatever mirror is set."""
    folder, paper = committed
    monkeypatch.setenv("FEDREPRO_DATA_MIRROR", str(tmp_path / "absent"))
    params = read_params(overrides={"scale": folder.parent.name, "only_finished": True})
    paths = Paths(data=tmp_path / "data")
    group = plan.plan(params, paths)[folder.name]
    for source in paper.sources():
        name, _, study = source.partition("-")
        if study:
            given = study_plan.gathering(study_plan.plan(group[name], params, paths)[study], params)
        else:
            given = plan.gathering(group[name], params)
        gather.gather(given, tmp_path / "made")
    made, anew = stored(tmp_path / "made"), ANEW.format(scale=folder.parent.name)
    assert sorted(made) == sorted(stored(folder / "data")), anew
    for name, text in made.items():
        assert (folder / "data" / name).read_text(encoding="utf-8") == text, f"{name}: {anew}"
    assert not paths.data.exists()


def test_tables_and_verdicts_follow_from_their_numbers(committed, tmp_path):
    folder, paper = committed
    shutil.copytree(folder / "data", tmp_path / "data")
    artifacts.make(paper, [*paper.tables, "verdicts"], tmp_path)
    made, anew = stored(tmp_path / "tables"), ANEW.format(scale=folder.parent.name)
    assert sorted(made) == sorted(stored(folder / "tables")), anew
    for name, text in made.items():
        assert (folder / "tables" / name).read_text(encoding="utf-8") == text, f"{name}: {anew}"


def test_captions_follow_from_their_numbers(committed):
    folder, paper = committed
    found = artifacts.of(paper, folder)
    for key, figure in paper.figures.items():
        assert (folder / "figures" / f"{key}.txt").read_text(encoding="utf-8") == figure.caption(found) + "\n", key


def test_every_artifact_is_there_and_no_other(committed):
    folder, paper = committed
    expected = {name for key in paper.artifacts for name in artifacts.files(paper, key)}
    expected |= {f"data/{source}.{end}" for source in paper.sources() for end in ("csv", "json")}
    expected |= {"index.html"}
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    maps = {name for name in there if name.startswith("partitions/")}  # those that could be drawn
    there -= maps
    shown = (folder / "index.html").read_text(encoding="utf-8")
    assert [name for name in maps if f'"{name}"' not in shown] == []
    assert there == expected, ANEW.format(scale=folder.parent.name)


@pytest.mark.parametrize("scale", sorted({folder.parent.name for folder in COMMITTED}))
def test_pages_and_documents_follow_from_what_lies_beside_them(scale, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    params, folder, copy = (
        read_params(overrides={"scale": scale, "only_finished": True}),
        Path("reports", scale),
        tmp_path / scale,
    )
    shutil.copytree(folder, copy)
    planned = plan.plan(params, Paths())
    assert [paper for paper in planned if not (folder / paper).is_dir()] == [], ANEW.format(scale=scale)
    maps = {paper: list(partition_jobs.shown(group, Paths(), copy / paper)) for paper, group in planned.items()}
    build.compose(spec.read_all(params), copy, maps)
    for made in [*copy.rglob("index.html"), *(copy / name for name in ("report.tex", "metrics.json", "curves.csv"))]:
        name = made.relative_to(copy)
        assert made.read_text(encoding="utf-8") == (folder / name).read_text(encoding="utf-8"), (
            f"{name}: {ANEW.format(scale=scale)}"
        )


@pytest.mark.parametrize("label", ["FedAvg", "FedMMD", "Psi-Net"])
def test_a_series_that_is_not_finished_is_named_and_breaks_nothing(committed, label):
    folder, paper = committed
    found = artifacts.of(paper, folder)
    less = {name: unfinished(found.results[name], label) for name in paper.sources()}
    lacking = {name.partition("-")[0] for name, own in less.items() if label in own.missing}
    shown = replace(found, results=less)
    for table in paper.tables.values():
        table.build(shown)
        there = [panel for panel in table.shown(shown) if label in panel.results.missing]
        told = table.notes(shown).partition("Not finished: ")[2].partition(". ")[0]
        assert bool(there) == (label in told) and table.caption(shown)
    for key, figure in paper.figures.items():
        names = {name.partition("-")[0] for name in figure.sources(paper.figures)}
        told = figure.caption(shown)
        assert "Not shown" in told or bool(names & lacking) == (label in told.partition("Not finished")[2]), key
    for verdict in artifacts.decide_all(paper, shown):
        asked = verdict.claim.experiment in lacking and label in verdict.claim.cell.labels
        assert not asked or verdict.status == "not run" and label in verdict.why, verdict.key


def test_only_papers_lie_there():
    assert COMMITTED and {folder.name for folder in COMMITTED} <= set(read_params(ROOT / "params.yaml").papers)


def test_every_kept_result_names_the_commit_whose_code_it_is_of():
    environments = json.loads((ROOT / "results/kept" / kept.ENVIRONMENTS).read_text(encoding="utf-8"))
    commits = [environment["commit"] for environment in environments.values()]
    assert commits and not [commit for commit in commits if commit.endswith((provenance.DIRTY, "unknown"))]
