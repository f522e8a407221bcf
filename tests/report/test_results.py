"""Results as data frames, and the notebook that goes on from them, on the numbers that are
committed."""

import csv
import json
import math
import os
import re
import shutil
from pathlib import Path

import matplotlib
import nbformat
import numpy
import pandas
import pytest
import scipy.stats

import fedrepro
from fedrepro import results
from fedrepro.config.params import read_params
from fedrepro.core.errors import UserError
from fedrepro.core.metrics import MEASURES
from fedrepro.report import paper as spec
from fedrepro.report.documents import notebook
from fedrepro.report.verdicts.summary import VERDICT_FIELDS
from fedrepro.runs.paths import Paths
from support import committed
from support.checkout import ROOT

PAPER, SCALE, REPORTS = "fedmmd", "paper", ROOT / "reports"
OVER_PANELS = ("small", "fedmmd", "5-conv-over-panels")


@pytest.fixture(scope="module")
def gathered(tmp_path_factory) -> Path:
    """The folder of reports with the numbers of a paper, gathered from what is kept."""
    folder = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        committed.gathered(committed.reports(SCALE, Paths()), folder / SCALE, [PAPER])
    return folder


def test_curves_have_types_and_all_seeds(gathered):
    found = results.curves(PAPER, "fig4d_precision", SCALE, gathered)
    told = json.loads(
        (gathered / SCALE / PAPER / "data/fig4d_precision.json").read_text(encoding="utf-8")
    )
    assert list(found["series"].unique()) == list(told["series"]) and set(found["seed"]) == {
        0,
        1,
        2,
    }
    assert all(pandas.api.types.is_integer_dtype(found[name]) for name in ("seed", "round"))
    assert all(pandas.api.types.is_float_dtype(found[name]) for name in MEASURES if name in found)
    last = found.groupby(["series", "seed"]).tail(1)
    assert (
        len(last) == sum(len(series["runs"]) for series in told["series"].values())
        and last["test_accuracy"].between(0, 1).all()
    )


@pytest.mark.parametrize("name", ["None", "nan", "NA", "null", "007"])
def test_a_series_may_be_called_none(name, tmp_path):
    """As Psi-Net without groups is in Table 3; what was not measured is missing all the same."""
    (tmp_path / "paper/p/data").mkdir(parents=True)
    rows = f"{name},0,NA,nan,0,,nan\n{name},0,NA,nan,1,0.5,\n"
    (tmp_path / "paper/p/data/fig.csv").write_text(
        f"series,seed,run,block,round,test_accuracy,distance\n{rows}"
    )
    found = results.curves("p", "fig", reports=tmp_path)
    assert found.groupby("series").size().to_dict() == {name: 2} and found["block"].tolist() == [
        "nan",
        "nan",
    ]
    assert (
        found["test_accuracy"].isna().tolist() == [True, False] and found["distance"].dtype == float
    )


def test_targets_lead_to_experiments_and_to_the_papers_curves(gathered, monkeypatch):
    monkeypatch.chdir(ROOT)
    sources = results.targets().query("target == 'fedmmd_fig4d_readings'")["source"]
    assert list(sources) == ["fig4d_paper", "fig4d_code", "fig4d_rates"] and dir(results) == sorted(
        results.__all__
    )
    with pytest.raises(
        UserError,
        match="fig4d_readings of fedmmd shows several experiments: choose one of fig4d_paper",
    ):
        results.curves(PAPER, "fig4d_readings", SCALE, gathered)
    assert len(results.curves(PAPER, "fig4d_leads", SCALE, gathered)) == len(
        results.curves(PAPER, "fig4d", SCALE, gathered)
    )
    theirs = results.paper_curves(PAPER, "fig4d")
    assert theirs.groupby(["series", "curve"], sort=False)["value"].last().to_dict() == {
        ("FedMMD", "Fig. 4d: FedMMD"): 0.9875,
        ("FedAvg", "Fig. 4d: FedAvg"): 0.9786,
        ("L2 0.001", "Fig. 4d: L2 0.001"): 0.9655,
    }
    assert set(results.paper_curves(PAPER)["experiment"]) > {"fig4d", "fig5a"}
    with pytest.raises(UserError, match="unknown experiment 'fig9'"):
        results.paper_curves(PAPER, "fig9")
    with pytest.raises(UserError, match="fedmmd fig4d: scale small: "):
        results._gather(PAPER, "fig4d", "small", gathered / "absent")
    for paper, scale, words in (
        ("fedmm", "paper", "unknown paper 'fedmm'"),
        (PAPER, "tiny", "unknown scale 'tiny'"),
    ):
        with pytest.raises(UserError, match=words):
            results.verdicts(paper, scale)


def test_verdicts_follow_from_the_values_of_seeds():
    """Means and t intervals, computed by numpy and scipy from the rows of `claims.csv`, are those
    of the verdicts; no claim with a mean is left out. With the unit of the rows they are what is
    printed."""
    with (REPORTS / "claims.csv").open(encoding="utf-8", newline="") as file:
        rows = {
            (row["scale"], row["paper"], row["key"], row["seed"], row["panel"]): row
            for row in csv.DictReader(file)
        }
    samples: dict[tuple, dict[str, dict[str, float]]] = {}
    for (*claim, seed, panel), row in rows.items():
        samples.setdefault(tuple(claim), {}).setdefault(seed, {})[panel] = float(row["value"])
    files = {
        path.parts[-4:-2]: json.loads(path.read_text("utf-8"))
        for path in REPORTS.glob("*/*/tables/verdicts.json")
    }
    told = {
        (*place, one["key"]): one
        for place, found in files.items()
        for one in found
        if one["mean"] is not None
    }
    assert (
        samples.keys() == told.keys()
        and len(told) > 200
        and any(len(panels) > 2 for panels in samples[OVER_PANELS].values())
    )
    for claim, seeds in samples.items():
        means, one = (
            [float(numpy.mean([*panels.values()])) for panels in seeds.values()],
            told[claim],
        )
        [(unit, mean, error, n)] = {
            (row["unit"], row["mean"], row["standard_error"], row["n"])
            for key, row in rows.items()
            if key[:3] == claim
        }
        assert len(set(map(frozenset, seeds.values()))) == 1 and int(n) == one["seeds"] == len(
            means
        )
        # summed in another order
        assert float(mean) == one["mean"] == pytest.approx(numpy.mean(means), rel=1e-9, abs=1e-12)
        if len(means) > 1:
            own = scipy.stats.sem(means)
            assert float(error) == one["standard_error"] == pytest.approx(own, rel=1e-9, abs=1e-12)
            half = scipy.stats.t.ppf(0.975, len(means) - 1) * own
            assert one["half_width"] == pytest.approx(half, rel=1e-9, abs=1e-12)
        else:
            assert error == "" and one["half_width"] is None
        printed = re.search(
            r"([+-]?[\d.]+)(?: ± [\d.]+| \([^()]* to [^()]*\))? [%a-zA-Z]+ \((?:n = |1 seed)",
            one["ours"],
        )
        shown = (
            math.exp(float(mean))
            if unit == "log ratio"
            else (100 if unit == "fraction" else 1) * float(mean)
        )
        # as rounded
        assert printed and float(printed[1]) == pytest.approx(shown, rel=0.01, abs=0.051), claim


def test_the_values_of_seeds_are_one_file():
    """`claims.csv` of the first page holds what Python returns, over all papers and scales."""
    papers = list(read_params(ROOT / "params.yaml", {}).papers)
    written = pandas.read_csv(REPORTS / "claims.csv")
    found = results.claims(papers=papers, reports=REPORTS)
    pandas.testing.assert_frame_equal(written, found, check_exact=True)
    assert set(found["paper"]) == set(papers) and set(found["scale"]) == {"paper", "small"}
    small = found.query(f"scale == 'small' and paper == '{PAPER}'").reset_index(drop=True)
    pandas.testing.assert_frame_equal(results.claims("small", [PAPER], str(REPORTS)), small)
    for scales, named in ((["tiny"], None), ("small", [PAPER, "absent"])):
        with pytest.raises(
            UserError,
            match=r"claims: no verdicts of .*absent|claims: no verdicts of .*fedmmd.* at scale "
            r"tiny",
        ):
            results.claims(scales, named, REPORTS)


def test_runs_have_their_settings_beside_them(gathered):
    found = results.runs(PAPER, "fig4d_calibration", SCALE, gathered).set_index("series")
    assert (
        found["settings.lr"]["paper net, 0.03"] == 0.03
        and found["settings.model.arch"]["code net, 0.01"] == "code"
    )
    assert (found["status"] == "finished").all() and found["seed"].dtype == "int64"


def test_frames_have_numpys_types(gathered):
    """With NaN for what is missing, as matplotlib, torch and comparisons need."""
    frames = [
        results.runs(PAPER, "fig4d_calibration", SCALE, gathered),
        results.curves(PAPER, "fig4d", SCALE, gathered),
    ]
    frames += [
        results.verdicts(PAPER, SCALE, REPORTS),
        results.claims(papers=[PAPER], reports=REPORTS),
    ]
    for found in frames:
        assert not any(
            cell is None or cell is pandas.NA for row in found.to_numpy(object) for cell in row
        )
        numbers = found.select_dtypes("number")
        assert len(numbers.columns) and all(
            isinstance(kind, numpy.dtype) for kind in numbers.dtypes
        )
    told = frames[2].set_index("key")
    assert (
        told["mean"]["4d-reduction"] > 0.1 and told["p"].isna().any() and told["p"].dtype == float
    )


def test_a_figure_leaves_matplotlib_as_it_was(gathered, monkeypatch):
    monkeypatch.chdir(ROOT)
    with matplotlib.rc_context({"font.size": 17}):
        before = dict.copy(matplotlib.rcParams)
        drawing = results.plot(PAPER, "fig4d", SCALE, gathered)
        assert dict.copy(matplotlib.rcParams) == before
    assert {text.get_size() for text in drawing.axes[0].get_xticklabels()} == {7}


def test_an_experiment_without_runs_is_an_empty_frame(tmp_path):
    (tmp_path / "paper/p/data").mkdir(parents=True)
    (tmp_path / "paper/p/data/fig.json").write_text(json.dumps({"series": {}}))
    (tmp_path / "paper/p/data/fig.csv").write_text("series,seed,run,round\n")
    assert (
        results.curves("p", "fig", reports=tmp_path).empty
        and results.runs("p", "fig", reports=tmp_path).empty
    )


def test_verdicts_name_their_claims():
    found = results.verdicts(PAPER, SCALE, REPORTS)
    assert {"key", "claim", "verdict", "ours"} <= set(found) and found["key"].is_unique
    numbers = found.set_index("key")[
        ["mean", "half_width", "seeds", "p", "reported_number", "seeds_needed"]
    ]
    assert all(pandas.api.types.is_numeric_dtype(numbers[name]) for name in numbers)
    gain = numbers.loc["4d-reduction"]
    assert (
        f"{100 * gain['mean']:.1f} ± {100 * gain['half_width']:.1f} % (n = {gain['seeds']:.0f})"
    ) == found.set_index("key")["ours"]["4d-reduction"]


def test_a_paper_without_a_claim_has_the_columns_of_verdicts(tmp_path):
    folder = tmp_path / "quick" / "mine" / "tables"
    folder.mkdir(parents=True)
    (folder / "verdicts.json").write_text("[]\n", encoding="utf-8")
    found = results.verdicts("mine", "quick", tmp_path)
    assert found.empty and list(found) == [name for name in VERDICT_FIELDS if name != "samples"]


def test_the_package_offers_its_version_and_the_results():
    assert fedrepro.__version__ and fedrepro.results.verdicts
    with pytest.raises(AttributeError, match="module 'fedrepro' has no attribute 'result'"):
        _ = fedrepro.result


def test_results_are_gathered_again_after_a_run(monkeypatch, tmp_path):
    made, asked = tmp_path / "reports/quick/p/data/fig.json", []
    made.parent.mkdir(parents=True)
    made.write_text('{"series": {}}')
    monkeypatch.setattr(results, "repository_root", lambda: tmp_path)
    monkeypatch.setattr(results, "_gather", lambda *what: asked.append(what))
    results.runs("p", "fig", "quick")
    assert not asked
    (tmp_path / "results/runs/p/one").mkdir(parents=True)
    (tmp_path / "results/runs/p/one/record.json").touch()
    os.utime(made, (0, 0))
    results.runs("p", "fig", "quick")
    assert asked == [("p", "fig", "quick", made.parent)]


def test_what_a_clone_lacks_is_gathered_from_what_is_kept(gathered, tmp_path, monkeypatch):
    for name in ("params.yaml", "workflow/papers", "results/kept"):
        source, place = ROOT / name, tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, place) if source.is_dir() else shutil.copy(source, place)
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    pandas.testing.assert_frame_equal(
        results.curves(PAPER, "fig4d"), results.curves(PAPER, "fig4d", SCALE, gathered)
    )
    for given, words in (
        (("fedmm", "fig4d"), "unknown paper 'fedmm'"),
        ((PAPER, "fig4dd"), "unknown experiment 'fig4dd': nearest are"),
        ((PAPER, "fig4d-newcomer"), "unknown study 'newcomer'"),
        ((PAPER, "fig4d", "papr"), "papr"),
    ):
        with pytest.raises(UserError, match=words):
            results.curves(*given)


def test_what_is_not_there_is_told(gathered, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="nearest are fig4d"):
        results.curves(PAPER, "fig4dd", SCALE, gathered)
    with pytest.raises(UserError, match="no results yet; make them: snakemake"):
        results.runs(PAPER, "fig4d", "quick", tmp_path)
    with pytest.raises(UserError, match="verdicts.json: no such file"):
        results.verdicts(PAPER, "quick", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="not inside a fedrepro checkout: .* or pass reports="):
        results.curves(PAPER, "fig4d")


# ---- the notebook


@pytest.fixture
def copy(gathered, tmp_path, monkeypatch) -> Path:
    """The settings and the committed numbers, as the working folder."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "workflow/papers", tmp_path / "workflow/papers")
    shutil.copytree(
        gathered / SCALE / PAPER / "data", tmp_path / "reports" / SCALE / PAPER / "data"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings():
    return read_params(Path("params.yaml"), {"scale": SCALE})


def test_a_written_notebook_runs_where_it_lies(copy):
    path = notebook.write("fig4d_precision", settings())
    assert path == Path(f"reports/{SCALE}/notebooks/{PAPER}_fig4d_precision.ipynb")
    leak = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("'curves' in globals()")])
    notebook.execute(
        {path: nbformat.read(path, as_version=4), path.with_name("second.ipynb"): leak}
    )
    (second,) = nbformat.read(path.with_name("second.ipynb"), as_version=4).cells
    assert second.outputs[0].data["text/plain"] == "False" and second.execution_count == 1
    cells = nbformat.read(path, as_version=4).cells
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in shown) == 2
    assert not any(output["output_type"] == "error" for output in shown)
    text = "".join(output.get("data", {}).get("text/plain", "") for output in shown)
    assert "bfloat16" in text and "count" in text


def test_the_pipeline_leaves_what_was_worked_on(copy):
    path = notebook.write("fig5a", settings(), Path("mine/made.ipynb"))
    assert not notebook.has_user_changes(path) and not notebook.has_user_changes(
        Path("mine/none.ipynb")
    )
    found = nbformat.read(path, as_version=4)
    found.cells[1]["outputs"] = [nbformat.v4.new_output("stream", text="executed")]
    nbformat.write(found, path)
    assert not notebook.has_user_changes(path)
    found.cells.append(nbformat.v4.new_code_cell("curves.describe()"))
    nbformat.write(found, path)
    assert notebook.has_user_changes(path)
    path.write_text("{")
    with pytest.raises(UserError, match="cannot be read as a notebook"):
        notebook.has_user_changes(path)


def test_every_figure_of_every_paper_has_one(copy):
    params = settings()
    for paper in params.papers:
        specification = spec.read_paper(paper, params)
        for figure in specification.figures:
            written = notebook.compose(specification, paper, figure, SCALE)
            nbformat.validate(written)
            code = "\n".join(cell.source for cell in written.cells)
            for name in specification.figures[figure].sources(specification.figures):
                assert f"results.curves(paper, '{name}', scale)" in code


def test_a_cell_of_an_experiment_without_runs_says_so():
    known = {
        "curves": pandas.DataFrame({"series": [], "seed": [], "round": []}),
        "measure": "initial_accuracy",
    }
    *before, last = notebook.LAST.splitlines()
    exec("\n".join(before), known)
    assert eval(last, known) == "nothing was run"


def test_a_notebook_that_is_there_stays(copy):
    path = notebook.write("fig5c", settings(), Path("mine/own.ipynb"))
    path.write_text("worked on")
    with pytest.raises(UserError, match="already exists"):
        notebook.write("fig5c", settings(), path)
    assert path.read_text() == "worked on"
    with pytest.raises(UserError, match="unknown figure 'table1': nearest are "):
        notebook.write("table1", settings())
