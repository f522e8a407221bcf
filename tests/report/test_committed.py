"""The reports that are committed: each table, verdict and page follows from what is kept, by today's code and without data."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fedrepro.core import provenance
from fedrepro.experiments import cost
from fedrepro.experiments.reports import Reports
from fedrepro.report import artifacts
from fedrepro.report.documents import build
from fedrepro.report.verdicts.decide import decide_all
from fedrepro.runs.paths import Paths
from support import committed
from support.checkout import ROOT
from support.results import unfinished
from support.tables import ARTICLE, compiled, needs_latex

ANEW = "make them anew: uv run dvc repro reports/dvc.yaml"
REDRAWN = (".pdf", ".png", ".tex")  # not committed


@pytest.fixture(scope="module", params=committed.SCALES)
def made(request, tmp_path_factory) -> tuple[Reports, Path]:
    """A scale's reports from what is kept, with the committed pictures; no data are there, and a mirror that has none."""
    own, scale = tmp_path_factory.mktemp("made"), request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("FEDREPRO_DATA_MIRROR", str(own / "absent"))
        paths = Paths(data=own / "data")
        reports, folder = committed.reports(scale, paths), own / "reports" / scale
        (own / "docs").symlink_to(ROOT / "docs")  # pages link it
        committed.gathered(reports, folder, reports.papers)
        for paper, spec in reports.papers.items():
            shutil.copytree(reports.folder / paper / "figures", folder / paper / "figures")
            keys = reports.artifact_keys(paper)
            artifacts.write_artifacts(spec, [key for key in keys if key not in spec.figures], folder / paper)
            for key in (key for key in keys if key in spec.figures):
                artifacts.write_figure_csv(spec, key, artifacts.load_paper_data(spec, folder / paper), folder / paper)
        hours = cost.core_hours(reports.unfinished, paths)
        build.write_documents(reports.papers, folder, hours, reports.compared_scales)
        assert not paths.data.exists()
    return reports, folder


def files(folder: Path) -> set[str]:
    """What of a scale is committed."""
    there = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    ignored = {path for path in there if {"data", "notebooks"} & set(path.parts) or path.suffix in REDRAWN}
    return {str(path) for path in there - ignored}


@committed.needs_history
def test_reports_follow_from_what_is_kept(made):
    reports, folder = made
    there = ROOT / reports.folder
    assert files(folder) == files(there), ANEW
    for name in sorted(files(folder)):
        if not name.endswith(".svg"):
            assert (folder / name).read_text(encoding="utf-8") == (there / name).read_text(encoding="utf-8"), f"{name}: {ANEW}"


def test_every_artifact_is_there_and_no_other(made):
    reports, _ = made
    for paper, spec in reports.papers.items():
        folder = ROOT / reports.folder / paper
        expected = {
            name
            for key in reports.artifact_keys(paper)
            for name in artifacts.artifact_files(spec, key)
            if not name.endswith(REDRAWN)
        }
        assert files(folder) == {*expected, "index.html", "curves.js"}, ANEW


@needs_latex
@pytest.mark.parametrize(("document", "preamble"), [
    ("[twocolumn]{article}", ""),
    ("{IEEEtran}", r"\newcommand{\fedreprobare}{}"),
], ids=["article", "IEEEtran"])  # fmt: skip
def test_all_tables_fit_documents_of_two_columns(made, document, preamble, tmp_path):
    """One class has the notes, the other leaves them out. Nothing is wider than its column, nor set smaller than 7 pt."""
    if "IEEE" in document and subprocess.run(["kpsewhich", "IEEEtran.cls"], capture_output=True).returncode:
        pytest.skip("no IEEEtran.cls here: install texlive-publishers")
    reports, folder = made
    tables = [folder / paper / "tables" / f"{name}.tex" for paper, spec in reports.papers.items() for name in spec.tables]
    tables = [path for path in tables if path.exists()]
    assert not [path for path in tables if re.search(r"resizebox|\\tiny|\\fontsize", path.read_text(encoding="utf-8"))]
    numbers = [folder / paper / artifacts.NUMBERS_FILE for paper in reports.papers]
    inputs = [rf"\input{{{path.with_suffix('')}}}\clearpage" for path in (*numbers, *tables)]
    text = (ARTICLE % "\n\n".join([preamble, *inputs])).replace("[twocolumn]{article}", document)
    log = compiled(tmp_path, text, passes=1)
    assert "Overfull \\hbox" not in log


@pytest.mark.parametrize("label", ["FedAvg", "FedMMD", "Psi-Net"])
def test_a_series_that_is_not_finished_is_named_and_breaks_nothing(made, label):
    reports, folder = made
    for name, paper in reports.papers.items():
        found = artifacts.load_paper_data(paper, folder / name)
        less = {name: unfinished(found.results[name], label) for name in paper.sources()}
        lacking = {name.partition("-")[0] for name, own in less.items() if label in own.unfinished_series}
        shown = replace(found, results=less)
        for table in paper.tables.values():
            table.build(shown)
            there = [panel for panel in table.available_panels(shown) if label in panel.results.unfinished_series]
            told = table.notes(shown).partition("Not finished: ")[2].partition(". ")[0]
            assert bool(there) == (label in told) and table.caption(shown)
        for key, figure in paper.figures.items():
            names = {name.partition("-")[0] for name in figure.sources(paper.figures)}
            told = figure.caption(shown)
            assert "Not shown" in told or bool(names & lacking) == (label in told.partition("Not finished")[2]), key
        for verdict in decide_all(paper, shown):
            asked = verdict.claim.experiment in lacking and label in verdict.claim.quantity.labels
            assert not asked or verdict.status == "not tested" and label in verdict.why, verdict.key


def test_every_kept_result_names_the_commit_whose_code_it_is_of():
    commits = committed.kept_commits()
    assert commits and not [commit for commit in commits if commit.endswith((provenance.DIRTY, "unknown"))]
