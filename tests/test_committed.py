"""The reports that are committed: each table and verdict follows from the numbers committed beside it, by today's code."""

from pathlib import Path

import pytest

from fedrepro.config import read_params
from fedrepro.report import artifacts, spec

ROOT = Path(__file__).parents[1]
PAPER = "fedmmd_fedfusion"
ANEW = "make them anew: uv run snakemake --config scale={scale} only_finished=true"


@pytest.fixture(params=["small", "paper"])
def scale(request) -> str:
    return request.param


@pytest.fixture
def paper(monkeypatch) -> spec.Paper:
    monkeypatch.chdir(ROOT)
    return spec.read(PAPER, read_params(ROOT / "params.yaml"))


def test_tables_and_verdicts_follow_from_their_numbers(paper, scale, tmp_path):
    folder = ROOT / "reports" / scale
    artifacts.write_tables(paper, paper.tables, folder / "data" / PAPER, tmp_path)
    artifacts.write_verdicts(paper, PAPER, folder / "data" / PAPER, tmp_path)
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    stored = {path.name: path.read_text(encoding="utf-8") for path in (folder / "tables").iterdir()}
    assert sorted(made) == sorted(stored), ANEW.format(scale=scale)
    for name, text in made.items():
        assert stored[name] == text, f"{name}: {ANEW.format(scale=scale)}"


def test_every_figure_is_there_and_no_other(paper, scale):
    folder = ROOT / "reports" / scale / "figures"
    drawn = {path.name for path in folder.iterdir() if path.suffix != ".csv"}
    assert drawn == {f"{key}{end}" for key in paper.figures for end in (".pdf", ".png", ".txt")}, ANEW.format(scale=scale)
