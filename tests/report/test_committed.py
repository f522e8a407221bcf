"""The reports that are committed: each table, verdict and page follows from what is kept, by
today's code and without data."""

import math
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from fedrepro.core import provenance
from fedrepro.experiments import cost
from fedrepro.experiments.reports import Reports
from fedrepro.report import artifacts
from fedrepro.report.documents import build
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentView
from fedrepro.report.verdicts.decide import decide_all, make_records
from fedrepro.runs.paths import Paths
from support import committed
from support.checkout import ROOT
from support.results import unfinished
from support.tables import ARTICLE, compiled, needs_latex

ANEW = "make them anew: uv run dvc repro reports/dvc.yaml"
REDRAWN = (".pdf", ".png", ".tex")  # not committed


@pytest.fixture(scope="module", params=committed.SCALES)
def made(request, tmp_path_factory) -> tuple[Reports, Path]:
    """A scale's reports from what is kept, with the committed pictures; no data are there, and a
    mirror that has none."""
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
            artifacts.write_artifacts(
                spec, [key for key in keys if key not in spec.figures], folder / paper
            )
            for key in (key for key in keys if key in spec.figures):
                artifacts.write_figure_csv(
                    spec, key, artifacts.load_paper_data(spec, folder / paper), folder / paper
                )
        hours = cost.core_hours(reports.unfinished, paths)
        build.write_documents(reports.papers, folder, hours, reports.compared_scales)
        assert not paths.data.exists()
    return reports, folder


def files(folder: Path) -> set[str]:
    """What of a scale is committed."""
    there = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    ignored = {
        path for path in there if {"data", "notebooks"} & set(path.parts) or path.suffix in REDRAWN
    }
    return {str(path) for path in there - ignored}


@committed.needs_history
def test_reports_follow_from_what_is_kept(made):
    reports, folder = made
    there = ROOT / reports.folder
    assert files(folder) == files(there), ANEW
    for name in sorted(files(folder)):
        if not name.endswith(".svg"):
            assert (folder / name).read_text(encoding="utf-8") == (there / name).read_text(
                encoding="utf-8"
            ), f"{name}: {ANEW}"


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
    """One class has the notes, the other leaves them out. Nothing is wider than its column, nor set
    smaller than 7 pt."""
    if (
        "IEEE" in document
        and subprocess.run(["kpsewhich", "IEEEtran.cls"], capture_output=True).returncode
    ):
        pytest.skip("no IEEEtran.cls here: install texlive-publishers")
    reports, folder = made
    tables = [
        folder / paper / "tables" / f"{name}.tex"
        for paper, spec in reports.papers.items()
        for name in spec.tables
    ]
    tables = [path for path in tables if path.exists()]
    assert not [
        path
        for path in tables
        if re.search(r"resizebox|\\tiny|\\fontsize", path.read_text(encoding="utf-8"))
    ]
    numbers = [folder / paper / artifacts.NUMBERS_FILE for paper in reports.papers]
    inputs = [rf"\input{{{path.with_suffix('')}}}\clearpage" for path in (*numbers, *tables)]
    text = (ARTICLE % "\n\n".join([preamble, *inputs])).replace("[twocolumn]{article}", document)
    log = compiled(tmp_path, text, passes=1)
    assert "Overfull \\hbox" not in log


def test_a_series_that_is_not_finished_is_named_and_breaks_nothing(made):
    (reports, folder), label = made, "FedAvg"
    for name, paper in reports.papers.items():
        found = artifacts.load_paper_data(paper, folder / name)
        less = {name: unfinished(found.results[name], label) for name in paper.sources()}
        lacking = {
            name.partition("-")[0] for name, own in less.items() if label in own.unfinished_series
        }
        shown = replace(found, results=less)
        for table in paper.tables.values():
            table.build(shown)
            there = [
                panel
                for panel in table.available(shown)
                if label in panel.results.unfinished_series
            ]
            told = table.notes(shown).partition("Not finished: ")[2].partition(". ")[0]
            assert bool(there) == (label in told) and table.caption(shown)
        for key, figure in paper.figures.items():
            names = {name.partition("-")[0] for name in figure.sources(paper.figures)}
            told = figure.caption(shown)
            assert "Not shown" in told or bool(names & lacking) == (
                label in told.partition("Not finished")[2]
            ), key
        for verdict in decide_all(paper, shown):
            asked = verdict.claim.experiment in lacking and label in verdict.claim.quantity.labels
            assert not asked or verdict.status == "not tested" and label in verdict.why, verdict.key


def test_every_kept_result_names_the_commit_whose_code_it_is_of():
    commits = committed.kept_commits()
    assert commits and not [
        commit for commit in commits if commit.endswith((provenance.DIRTY, "unknown"))
    ]


# ---- the words of verdicts

UNITS = {"points": 0.01, "rounds": 1, "round": 1}
# that two intervals decide, or one that is not around zero
OTHER_WORDS = ("larger", "most", "never", "later", "no lower")


def corrected(records, headlines) -> dict[str, float]:
    """Holm's p of each record: in the order of p, times the number of tests left; a difference of
    the same runs counts once, and a headline without an answer as a test that is left."""
    found = {}
    for is_headline in (True, False):
        family = [
            one for one in records if one.p is not None and (one.key in headlines) is is_headline
        ]
        tests = sorted({(one.p, one.mean, one.seeds) for one in family})
        left = sum(one.p is None and is_headline and one.key in headlines for one in records)
        after = [
            min(1, max((len(tests) + left - i) * tests[i][0] for i in range(n + 1)))
            for n in range(len(tests))
        ]
        found |= {one.key: after[tests.index((one.p, one.mean, one.seeds))] for one in family}
    return found


def word(one, claim, holm: float | None, sized: bool, least: float | None) -> str:
    number = one.reported_number
    sign = math.copysign(1, number) if number else -1 if claim.reported == "lower" else 1
    low, high = sorted((sign * (one.mean - one.half_width), sign * (one.mean + one.half_width)))
    is_difference, stands = claim.quantity.contrast and number != 0, holm is None or holm <= 0.05
    inside = outside = narrow = False
    if sized and number is not None:
        allowed, unit = re.match(r"([\d.]+) (\w+)", one.tolerance).groups()
        allowed, gap = float(allowed) * UNITS[unit], abs(one.mean - number)
        chance = one.half_width if claim.reported_std else one.half_width * (one.seeds + 1) ** 0.5
        inside, outside, narrow = (
            gap + one.half_width <= allowed,
            gap > allowed + chance,
            allowed <= abs(number) / 2,
        )
    if is_difference and low > 0:
        as_large = (inside and narrow) or not sized or number is None
        return "supported" if as_large and stands else "open, leans for"
    if outside or (is_difference and least and high < least):
        return "contradicted"
    if is_difference and high < 0:
        return "contradicted" if stands else "open, leans against"
    return "supported" if inside and not is_difference else "open"


def smallest_lead(claim, spec, evidence, sized: bool) -> float | None:
    """0.04 in log odds at the level of the baseline, the mean over seeds and panels."""
    if (
        claim.least
        or not sized
        or claim.reported != "higher"
        or claim.quantity.kind != "difference"
    ):
        return claim.least
    others = {name: evidence.results[name] for name in claim.quantity.other_experiments}
    options = DisplayOptions(measure=claim.ref.resolved(spec.experiments).measure)
    view = ExperimentView(claim.experiment, options, evidence.results[claim.experiment], others)
    levels = [level for _, baseline in claim.quantity.panel_values(view) for level in baseline]
    level = sum(levels) / len(levels)
    return 0.04 * level * (1 - level)


def test_words_follow_from_the_numbers(made):
    """Work them out again by docs/verdicts.md, without `rules.py`."""
    reports, folder = made
    seen = Counter()
    for paper, spec in reports.papers.items():
        evidence = artifacts.load_paper_data(spec, folder / paper)
        records = make_records(spec, evidence)
        holm = corrected(records, spec.headlines)
        for one in records:
            claim, after = spec.claims[one.key], holm.get(one.key)
            assert one.p_holm == (None if after is None else pytest.approx(after)), one.key
            if one.verdict == "not tested" or claim.reported in OTHER_WORDS:
                continue
            if one.half_width is None:
                assert one.words == "open", one.key
                continue
            if one.p is not None:
                error = one.half_width / stats.t.ppf(0.975, one.seeds - 1)
                assert one.p == pytest.approx(
                    2 * stats.t.sf(abs(one.mean) / error, one.seeds - 1)
                ), one.key
            sized = evidence.results[claim.experiment].compare == "full"
            assert one.words == word(
                one, claim, after, sized, smallest_lead(claim, spec, evidence, sized)
            ), (one.key, one.why)
            seen[one.words] += 1
    assert len(seen) >= 4 and sum(seen.values()) > 20
