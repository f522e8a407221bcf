"""Tables, figures and the two documents, from made results: the numbers in them, and that they are
fit to be read."""

import json
import re
import shutil
from pathlib import Path

import pytest

from fedrepro.config.types import parse
from fedrepro.core.errors import UserError
from fedrepro.report import artifacts
from fedrepro.report import paper as spec
from fedrepro.report.documents import build as page
from fedrepro.report.documents import pdf as typeset
from fedrepro.report.documents.content import PaperContent
from fedrepro.report.figures import _layout, curves
from fedrepro.report.inputs.gathered import Results, load
from fedrepro.report.inputs.panel import PaperData
from fedrepro.report.paper import Paper
from fedrepro.report.verdicts import paper_curves, summary
from support.checkout import ROOT
from support.paper import FIRST, MIRROR, PAPER, SECOND, read
from support.results import arrives, ends, made, rows, store

SHOWN = ["one", "rounds", "apart", "verdicts"]


@pytest.fixture(scope="module")
def paper(tmp_path_factory) -> Paper:
    return read(tmp_path_factory.mktemp("spec"), PAPER)


@pytest.fixture(scope="module")
def reports(paper, tmp_path_factory) -> Path:
    """A scale's folder with everything in it."""
    folder = tmp_path_factory.mktemp("reports") / "paper"
    store(FIRST, folder / "p" / "data", "first")
    store(SECOND, folder / "p" / "data", "second")
    artifacts.write_artifacts(paper, SHOWN, folder / "p")
    page.write_documents({"p": paper}, folder, {"p": {"second": 1234.5}})
    return folder


# ---- tables


def test_rounds_to_target_by_hand(reports):
    first, second, third = rows(reports / "p" / "tables" / "rounds.csv")
    assert (first["panel"], first["series"], first["target_percent"]) == ("first", "FedMMD", "90")
    half = "12.706205"  # of t, times sqrt 2 / sqrt 2
    # 4 and 6
    assert [first[f"rounds{end}"] for end in ("", "_half_width", "_n")] == ["5", half, "2"]
    # five values of 95 %
    assert [first[f"rounds_mean_of_5{end}"] for end in ("", "_half_width")] == ["9", half]
    # 60 % and 40 %
    assert [first[f"saved_vs_fedavg_percent{end}"] for end in ("", "_half_width")] == [
        "50",
        "127.062047",
    ]
    # 1.5 down and 0.5 up
    assert (first["final_accuracy_percent"], first["mb_per_round"]) == ("95", "2")
    assert (second["series"], second["rounds"], second["rounds_half_width"]) == (
        "FedAvg",
        "10",
        "0",
    )
    assert (second["saved_vs_fedavg_percent"], second["saved_vs_fedavg_percent_n"]) == ("", "")
    assert (first["papers_rounds"], second["papers_rounds"]) == ("", "4")
    assert (third["rounds"], third["rounds_n"]) == ("8", "1")
    assert third["saved_vs_fedavg_percent"] == ""  # not from the seed that happened to survive


ROUNDS = {
    "title": "t",
    "kind": "rounds_to_target",
    "panels": ["e"],
    "baseline": "FedAvg",
    "smooth": 5,
}
DISTANCE = {"title": "t", "kind": "curve_distance", "panels": ["e"]}


def evidence(found: Results, curves: dict | None = None, **shown) -> PaperData:
    """These results as experiment e."""
    usual = {"e": {"target": {"paper": 0.9, "small": 0.9}} | shown}
    paper = {
        "title": "p",
        "reference": "r",
        "curves_from": "read from its PDF",
        "experiments": usual,
    }
    paper |= {room: {} for room in ("figures", "tables", "claims")}
    return spec.paper_data(parse(Paper, paper, "test"), {"e": found}, curves or {})


def build(found, table=ROUNDS, curves=None, **shown) -> list[dict]:
    """Rows as they are read."""
    grid = spec.parse_artifact("tables", table, "test").build(evidence(found, curves, **shown))
    return [dict(zip(grid.columns, row, strict=True)) for row in grid.text_rows()]


def notes(found, table=ROUNDS) -> str:
    return spec.parse_artifact("tables", table, "test").notes(evidence(found))


def test_rounds_that_only_some_seeds_reach():
    row, baseline = build(
        made(
            {"FedMMD": {0: arrives(4), 1: arrives(None)}, "FedAvg": {0: arrives(8), 1: arrives(8)}}
        )
    )
    assert (row["Rounds"], row["Saved vs FedAvg (%)"]) == (
        "4.0 (1 of 2 seeds reaches the target)",
        "-",
    )
    row, baseline = build(made({"FedMMD": {0: arrives(4)}, "FedAvg": {0: arrives(None)}}))
    assert (row["Rounds"], row["Saved vs FedAvg (%)"], baseline["Rounds"]) == ("4", "-", "never")


@pytest.mark.parametrize("label", ["FedMMD", "FedAvg"])
def test_no_saving_where_a_run_of_either_series_is_lost(label):
    lost = {(label, 1): "diverged at round 3"}
    found = made(
        {"FedMMD": {0: arrives(4), 1: arrives(4)}, "FedAvg": {0: arrives(8), 1: arrives(8)}},
        lost=lost,
    )
    row, _ = build(found)
    assert row[
        "Saved vs FedAvg (%)"
    ] == "-" and f"e, {label}: seed 1 diverged at round 3." in notes(found)


def test_final_accuracy_is_the_mean_of_five_rounds():
    curve = [0.1, 0.2, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert build(made({"FedAvg": {0: curve}}))[0]["Final accuracy (%)"] == "70.00"
    row = build(made({"FedAvg": {0: ends(0.7), 1: ends(0.8), 2: ends(0.9)}}))[0]
    assert row["Final accuracy (%)"] == "80.00 ± 24.84"  # 4.303 x 10 / sqrt 3


def test_the_papers_rounds_only_where_they_may_be_compared():
    curves, figure = {"c": [(1, 0.5), (2, 0.95)]}, {"reported": {"FedAvg": "c"}}
    for compare, expected in (("full", "2"), ("direction", None)):
        found = build(made({"FedAvg": {0: arrives(4)}}, compare), curves=curves, **figure)
        assert found[0].get("Paper's rounds") == expected
    assert build(made({"FedAvg": {0: arrives(4)}}, "none")) == []
    assert "No target at this scale: e." in notes(made({"FedAvg": {0: arrives(4)}}, "none"))


def test_distances():
    table = DISTANCE
    curves = {"c": [(1, 0.5), (2, 0.5), (3, 1.0)]}
    series = {
        "near": {0: [0, 0.5, 0.6], 1: [0, 0.5, 0.5]},
        "far": {0: [0, 0.9, 0.9]},
        "gone": {0: [0, 0.1, 0.2]},
    }
    reported = {"reported": dict.fromkeys(series, "c")}
    found = made(series, lost={("gone", 0): "diverged at round 2"})
    near, far, gone = build(found, table, curves, **reported)
    assert near["Distance (points)"] == "3.54 ± 44.92"  # 10 / sqrt 2 and 0: 12.706 x 5 / sqrt 2
    assert far["Distance (points)"] == "40.00" and far["Paper's curve"] == "c"
    assert (
        near["Rounds compared"] == "2"
        and gone["Rounds compared"] == "none"
        and gone["Distance (points)"] == "-"
    )
    constant = {"near": 0.6, "far": 0.9, "gone": 0.5}
    series = {
        label: {0: [0, value, value], 1: [0, value, value]} for label, value in constant.items()
    }
    assert best(
        made(series, lost={("gone", 0): "diverged at round 2"}), table, curves, **reported
    ) == ["near"]
    assert best(made(series), table, curves, **reported) == ["gone"]
    assert build(made({}, skipped="why"), table, curves) == []


def best(found, table, curves, **shown) -> list[str]:
    """The series whose number is bold."""
    grid = spec.parse_artifact("tables", table, "test").build(evidence(found, curves, **shown))
    return [grid.rows[i]["Series"] for i, _ in sorted(grid.best_cells)]


def test_distances_over_the_first_rounds():
    table, found = DISTANCE | {"rounds": 2}, made({"FedAvg": {0: [0, 0.5, 0.5, 0.0]}})
    curves, figure = {"c": [(1, 0.5), (2, 0.6), (3, 1.0)]}, {"reported": {"FedAvg": "c"}}
    assert build(found, table, curves, **figure)[0]["Distance (points)"] == "7.07"
    row = build(found, table | {"smooth": 5}, curves, **figure)[0]
    assert row["Distance (points)"] == "-"  # no round in common
    uneven = made({"FedAvg": {0: [0, 0.5, 0.5], 1: [0, 0.5]}})
    assert build(uneven, table, curves, **figure)[0]["Rounds compared"] == "1 or 2"
    series = {"a": {0: [0, 0.5]}, "b": {0: [0, 0.5]}}
    both = dict.fromkeys((("a", 0), ("b", 0)), "diverged at round 1")
    # where nobody arrived
    assert best(made(series, lost=both), table, curves, reported={"a": "c", "b": "c"}) == []


def test_verdict_files(reports):
    saves, far = summary.read_verdicts(reports / "p")
    # 60 % and 40 %
    assert (saves.key, saves.verdict, saves.reported) == ("saves", "open", "50.0 %")
    assert saves.ours == "50.0 ± 127.1 % (n = 2)" and saves.why.endswith(f"; on {MIRROR}")
    assert (far.verdict, far.why, far.ours) == ("not tested", "left for the next scale", "-")
    text = (reports / "p" / "tables" / "verdicts.tex").read_text()
    assert r"FedMMD saves 50 \% $<$of all$>$ & 50.0 \% & 50.0 $\pm$ 127.1 \% (n = 2) & open" in text


# ---- figures


def figure(**changes) -> curves.Curves:
    return curves.Curves(**{"title": "F", "kind": "curves", "experiment": "e"} | changes)


POINTS = {"c": [(1, 0.5), (2, 0.95), (99, 0.99)], "d": [(1, 0.4), (2, 0.9)]}


def picture_of(found, **changes):
    _layout.set_print_style()
    return _layout.compose(figure(**{"target": {"paper": 0.9}} | changes), evidence(found, POINTS))


def caption(found, **changes) -> str:
    return figure(**changes).caption(evidence(found, POINTS))


def drawn(picture) -> dict:
    lines = {line.get_label(): line for line in picture.axes[0].lines}
    return {label: line for label, line in lines.items() if not label.startswith("_")}


def legend(picture) -> list[str]:
    found = picture.legends or [picture.axes[0].get_legend()]
    return [text.get_text() for text in found[0].get_texts()]


def test_what_was_not_run_is_not_drawn_and_what_is_no_more_defined_goes(paper, reports, tmp_path):
    folder = shutil.copytree(reports / "p", tmp_path / "p")
    assert artifacts.available_artifacts(paper, artifacts.load_paper_data(paper, folder)) == [
        "one",
        "rounds",
        "apart",
        "verdicts",
    ]
    other, theirs = folder / "figures" / "two.png", folder / "figures" / "notes.md"
    other.touch(), theirs.touch()
    expected = [name for key in SHOWN for name in artifacts.artifact_files(paper, key)]
    expected += [
        f"data/{source}.{ending}" for source in paper.sources() for ending in ("csv", "json")
    ]
    artifacts.remove_unexpected(expected, folder)
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there == {*expected, "index.html", "curves.js", "figures/notes.md"}


def test_a_curve_is_the_mean_in_percent():
    near = [0.6, 0.6, 0.6], [0.601, 0.601, 0.601]  # most bands are narrow
    picture = picture_of(
        made({"FedMMD": {0: [0.1, 0.5, 0.9, *near[0]], 1: [0.1, 0.7, 0.5, *near[1]]}})
    )
    assert drawn(picture)["FedMMD"].get_ydata().tolist() == pytest.approx(
        [10, 60, 70, 60.05, 60.05, 60.05]
    )
    band = picture.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    # 70 ± 12.706 x 20 and more, as far as it is possible
    assert (band.min(), band.max()) == (0, 100)


def test_in_place_of_bands_that_would_fill_the_axis_are_the_seeds():
    found = made({"FedMMD": {0: [0.1, 0.5, 0.9], 1: [0.1, 0.7, 0.5]}})
    axes = picture_of(found).axes[0]
    seeds = [line.get_ydata().tolist() for line in axes.lines if line.get_alpha() == 0.4]
    assert (
        seeds == [pytest.approx([10, 50, 90]), pytest.approx([10, 70, 50])] and not axes.collections
    )
    assert (
        "Thin lines: the single seeds. The intervals would fill this axis: half of one is"
        in caption(found)
    )


def test_a_frame_is_an_inset_of_the_whole():
    found = made({"FedMMD": {0: [0.1, 0.9, 0.95]}})
    picture = picture_of(found, shown={"paper": (0.9, 1.0)})
    [inset] = picture.axes[0].child_axes
    assert picture.axes[0].get_ylim()[0] < 11 and inset.get_ylim() == pytest.approx((90, 100.1))
    assert [line.get_label() for line in inset.lines] == [
        "FedMMD"
    ] and "Close up: 90 to 100 %." in caption(found, shown={"paper": (0.9, 1.0)})


def test_what_is_said_of_a_scale_holds_for_one_that_is_like_it():
    """The nearest that something is said of has the say: its own, then the one that it is like."""
    found = Results({"scale": "mine", "scale_like": ["most", "small"]}, [])
    assert (
        found.at_scale({"small": 1, "most": 2}) == 2
        and found.at_scale({"small": 1, "mine": 3}) == 3
    )
    assert found.at_scale({"paper": 1}) is None and found.at_scale({"paper": 1}, 4) == 4


def test_a_smooth_line_lies_over_the_single_rounds():
    near = [0.6] * 5, [0.601] * 5  # most bands are narrow
    found = made({"FedMMD": {0: [0.1, 0.2, 0.4, 0.9, *near[0]], 1: [0.1, 0.4, 0.6, 0.5, *near[1]]}})
    picture = picture_of(found, smooth={"paper": 2}, reported={"FedMMD": "c"})
    line = drawn(picture)["FedMMD"].get_xydata().ravel().tolist()
    assert line[:4] == pytest.approx([2, 40, 3, 60])  # round 0 is in no mean
    [faint] = [line for line in picture.axes[0].lines if line.get_alpha() == 0.25]
    assert faint.get_ydata().tolist()[:4] == pytest.approx([10, 30, 50, 70])
    [theirs] = [
        line
        for line in picture.axes[0].lines
        if line.get_linestyle() == "--" and len(line.get_xdata())
    ]
    # of 50 and 95 %, as ours are means
    assert theirs.get_xydata().ravel().tolist() == pytest.approx([2, 72.5])
    assert drawn(picture)["target"].get_ydata() == pytest.approx([90, 90])
    # 60 ± 12.706 x 10 / 2
    assert picture.axes[0].collections[0].get_paths()[0].vertices[:, 1].max() == 100
    words = (
        "Lines and bands show means over the last 2 rounds, faint lines single rounds. Thin "
        "and dashed: the paper's"
    )
    assert words in caption(found, smooth={"paper": 2}, reported={"FedMMD": "c"})
    plain = picture_of(found, smooth={"small": 2})
    assert len(drawn(plain)["FedMMD"].get_xdata()) == 9 and "faint" not in caption(
        found, smooth={"small": 2}
    )


def test_the_papers_curves_only_where_they_may_be_compared():
    series, reported = {"FedMMD": {0: arrives(3)}}, {"FedMMD": "c"}
    assert legend(picture_of(made(series), reported=reported)) == [
        "FedMMD",
        "in the paper",
        "target",
    ]
    dashed = [
        line
        for line in picture_of(made(series), reported=reported).axes[0].lines
        if line.get_linestyle() == "--"
    ]
    assert dashed[0].get_xydata().tolist() == [[1, 50], [2, 95]]  # up to our last round
    for compare, beside in (("direction", {"in the paper"}), ("none", set())):
        picture = picture_of(made(series, compare), reported=reported)
        assert set(legend(picture)) - {"target"} == {"FedMMD"} | beside
        diamonds = [
            line
            for line in picture.axes[0].lines
            if line.get_marker() == "D" and list(line.get_xdata()) == [1]
        ]
        # where its curve ends
        assert [line.get_ydata().tolist() for line in diamonds] == [[pytest.approx(99)]] * len(
            beside
        )
        assert (
            picture.get_supxlabel() == {"direction": "scale small", "none": "scale quick"}[compare]
        )


# ---- documents


def test_metrics_are_final_means_in_the_measure_that_is_shown(reports):
    assert json.loads((reports / "metrics.json").read_text()) == {
        "p": {
            "first": {"FedAvg": 0.95, "FedMMD": 0.95, "L2": 0.95},
            "verdicts": {"open": 1, "not tested": 1},
        }
    }


def stand_in(folder: Path, name: str, script: str) -> Path:
    """A program of its own in `bin`."""
    program = folder / "bin" / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_typesetting_with_a_stand_in(tmp_path, monkeypatch):
    """Without pdflatex a message says so; a failure is told by LaTeX's own words."""
    source = tmp_path / "report.tex"
    source.write_text("")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert not typeset.is_available()
    with pytest.raises(UserError, match="pdflatex "):
        typeset.typeset(source)
    program = stand_in(
        tmp_path, "pdflatex", "for end in pdf aux log out; do echo pass >> report.$end; done"
    )
    typeset.typeset(source)
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "report.tex", "report.pdf"}
    # the second knows the references
    assert (tmp_path / "report.pdf").read_text() == "pass\npass\n"
    monkeypatch.setenv("TEXMFHOME", "here")  # what LaTeX is told of its folders reaches it
    program.write_text("#!/bin/sh\necho $TEXMFHOME $SOURCE_DATE_EPOCH > report.pdf\n")
    typeset.typeset(source)
    assert (tmp_path / "report.pdf").read_text() == "here 0\n"
    program.write_text("#!/bin/sh\necho '! Undefined control sequence.'\nexit 1\n")
    with pytest.raises(UserError, match=r"report.tex: .*Undefined control sequence.*report\.log$"):
        typeset.typeset(source)


@pytest.mark.parametrize(
    ("version", "enough"), [("3.0.0", True), ("10.1", True), ("2.8e", False), (None, False)]
)
def test_the_report_needs_the_third_siunitx(version, enough, tmp_path, monkeypatch):
    """An old LaTeX has the second, and the smallest has none."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    stand_in(tmp_path, "pdflatex", "exit 0")
    package = tmp_path / "siunitx.sty"
    package.write_text(
        f"% siunitx 9\n\\ProvidesExplPackage {{siunitx}} {{2021-05-17}} {{{version}}}\n  {{A "
        f"package}}\n"
    )
    stand_in(tmp_path, "kpsewhich", f"echo {package}" if version else "exit 1")
    assert typeset.is_available() == enough
    if not enough:
        with pytest.raises(UserError, match=r"report\.tex: .*siunitx\.sty"):
            typeset.typeset(tmp_path / "report.tex")


# ---- what the artifacts consist of


def changed(*path, value) -> dict:
    import copy

    values = copy.deepcopy(PAPER)
    place = values
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return values


LEAD = {"kind": "difference", "series": "FedMMD", "baseline": "FedAvg", "last": 1}
MORE = {
    "text": "t",
    "source": "s",
    "experiment": "first",
    "reported": "larger",
    "quantity": LEAD | {"than": "third"},
}
ENDS = {"text": "t", "source": "s", "experiment": "first", "reported": 0.9}
ENDS |= {"quantity": {"kind": "value", "series": "L2", "last": 3}}
MORE_APART = MORE | {"artifact": "one", "quantity": LEAD | {"than": "second"}}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            changed("figures", "one", "experiment", value="third"),
            "figures.one: unknown experiment 'third'",
        ),
        (changed("figures", "one", "kind", value="pie"), "figures.one.kind: unknown figure 'pie'"),
        (changed("figures", "one", "metric", value="loss"), "figures.one: metric: unknown key"),
        (
            changed("figures", "one", "measure", value="loss"),
            "figures.one: measure: unknown measure 'loss'",
        ),
        (
            changed("figures", "one", "measure", value="test_macro_f1"),
            "unknown measure of experiment 'first' 'test_macro_f1'",
        ),
        (
            changed("figures", "One", value={"title": "t", "experiment": "first"}),
            "figures: a name consists of a to z",
        ),
        (
            changed("figures", "verdicts", value={"title": "t", "experiment": "first"}),
            "verdicts: already names something else",
        ),
        (changed("experiments", "first", "reported", value={"FedX": "c:FedAvg"}), "series 'FedX'"),
        (changed("experiments", "first", "reported", value={"L2": "c:L2"}), "unknown curve 'c:L2'"),
        (
            changed("experiments", "first", "target", value={"papr": 0.9}),
            "experiments.first.target: unknown scale 'papr'",
        ),
        (
            changed("experiments", "first", "target", value={"paper": 90}),
            "first.target: test accuracy is between 0 and 1 (got 90)",
        ),
        (
            changed("experiments", "first", "name", value=""),
            "experiments.first: name: expected a text. Leave the key out to show",
        ),
        (
            changed("experiments", "third", value={}),
            "experiments.third: unknown experiment 'third'",
        ),
        (
            changed("claims", "saves", "scales", value={"tiny": {"target": 0.9}}),
            "saves.scales: unknown scale 'tiny'",
        ),
        (
            changed("claims", "saves", "scales", value={"quick": {"targets": 0.9}}),
            "saves.scales.quick: targets: unknown",
        ),
        (
            changed("claims", "saves", "scales", value={"quick": {"baseline": "L2"}}),
            "saves: scales: only the target and",
        ),
        (changed("claims", "saves", "scales", value={"quick": 0.9}), "saves: scales.quick: "),
        (changed("claims", "saves", "scales", value=[0.9]), "saves: scales: "),
        (
            changed("claims", "saves", "experiment", value="six"),
            "saves.quantity: unknown experiment 'six'",
        ),
        (
            changed("claims", "saves", "reported", value="never"),
            "reported: expected a number for a quantity of kind rounds_to",
        ),
        (changed("claims", "saves", "reported", value=float("inf")), "saves: reported"),
        (
            changed("claims", "saves", "reported", value=20),
            "reported: a number of kind rounds_to is between -inf and 1 (got 20)",
        ),
        (
            changed("claims", "saves", value=ENDS | {"reported": 88}),
            "a number of kind value is between 0 and 1 (got 88)",
        ),
        (
            changed("claims", "saves", value=ENDS | {"reported": -0.9}),
            "a number of kind value is between 0 and 1 (got -0.9)",
        ),
        (
            changed("claims", "saves", value=MORE | {"reported": "smaller"}),
            "expected 'larger' for a quantity of kind difference",
        ),
        (
            changed("claims", "saves", "quantity", "target", value=80),
            "saves.quantity.target: test accuracy is between 0 and 1 (got 80)",
        ),
        (
            changed("claims", "saves", "scales", value={"quick": {"target": 80}}),
            "scales.quick.target: test accuracy is between 0",
        ),
        (
            changed("claims", "saves", "quantity", "baseline", value="FedX"),
            "saves.quantity: unknown series 'FedX'",
        ),
        (
            changed("claims", "saves", "quantity", "kind", value="reduce"),
            "saves.quantity.kind: unknown quantity 'reduce'",
        ),
        (
            changed("claims", "saves", "quantity", value={"kind": "value", "series": "L2"}),
            "needs last or round (one of them)",
        ),
        (changed("claims", "saves", value=MORE), "saves.quantity.than: unknown experiment 'third'"),
        (
            changed("claims", "saves", value=MORE_APART),
            "saves: artifact: one has to show first and second",
        ),
        (changed("claims", "saves", "tolerance", value=-1), "saves: tolerance: "),
        (changed("claims", "saves", "tolerence", value=1), "tolerence: unknown key"),
        (
            changed("tables", "rounds", "panels", value=["first", "six"]),
            "tables.rounds.panels: unknown experiment 'six'",
        ),
        (
            changed("tables", "rounds", "panels", value=["first", "first"]),
            "first: give panels of one experiment a name each",
        ),
        (changed("tables", "rounds", "baseline", value=None), "tables.rounds: baseline"),
        (changed("tables", "rounds", "baseline", value="FedX"), "unknown series 'FedX'"),
        (
            changed("tables", "rounds", "savings", value={"L2": {"six": 0.4}}),
            "rounds.savings: unknown panel of this table 'six'",
        ),
        (
            changed("tables", "rounds", "savings", value={"FedX": {"first": 0.4}}),
            "tables.rounds.savings: unknown series 'FedX'",
        ),
        (
            changed("tables", "rounds", "savings_from", value="its text"),
            "rounds.savings_from: savings and savings_from need",
        ),
        (changed("tables", "rounds", "kind", value=None), "tables.rounds.kind: no table is named"),
        (
            changed("tables", "apart", "panels", value=["second"]),
            "unknown experiment with reported curves 'second'",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_mistakes_in_a_papers_file(values, words, tmp_path):
    with pytest.raises(UserError) as caught:
        read(tmp_path, values)
    assert "workflow/papers/p/" in str(caught.value) and words in str(caught.value)


ROUNDS = {"kind": "rounds_to", "target": 0.9}


@pytest.mark.parametrize(("cell", "reported", "told"), [
    (ROUNDS, 4, ""),
    (ROUNDS, 6, "4 rounds"),
    (ROUNDS | {"target": 0.97}, 4, "FedAvg does not reach 97 % within 6 rounds"),
    (ROUNDS | {"series": "FedMMD"}, 6, ""),  # is not plotted
    ({"kind": "value", "last": 2}, 0.88, ""),  # 80 and 96 %
    ({"kind": "value", "last": 2}, 0.9, "88.00 %"),
    ({"kind": "best", "target": 0.97}, "never", ""),
    ({"kind": "best", "target": 0.9}, "never", "96.00 %"),
    ({"kind": "best", "target": 0.96}, "never", "96.00 %"),
])  # fmt: skip
def test_a_claim_that_the_papers_own_curves_contradict(cell, reported, told, tmp_path):
    claim = PAPER["claims"]["far"] | {
        "experiment": "first",
        "quantity": {"series": "FedAvg"} | cell,
        "reported": reported,
    }
    paper = read(tmp_path, changed("claims", value={"far": claim | {"note": "as we see it"}}))
    assert (
        paper_curves.contradiction(paper.experiments, paper.claims["far"], spec.read_curves(paper))
        == told
    )
    store(FIRST, tmp_path / "p" / "data", "first")
    artifacts.write_artifacts(paper, [spec.VERDICTS], tmp_path / "p")
    note = f"by the paper's own plotted curves {told}; as we see it" if told else "as we see it"
    assert summary.read_verdicts(tmp_path / "p")[0].note == note


def test_no_artifact_has_the_name_of_a_rule(tmp_path):
    """It could not be asked for: the rule would be run."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in (ROOT / "Snakefile", *(ROOT / "workflow/rules").glob("*.smk"))
    ]
    written = {name for text in texts for name in re.findall(r"^rule (\w+):", text, re.MULTILINE)}
    # these three are among the Workflow's targets
    assert written | {"data", "train", "tune"} == set(spec.RULES)
    with pytest.raises(UserError, match="data: "):
        read(tmp_path, changed("figures", "data", value=PAPER["figures"]["one"]))


def test_names_on_the_command_line(paper):
    """Long ones always; an artifact's own name while only one paper has it."""
    keys = ("one", "two", "rounds", "apart", "verdicts")
    assert spec.targets({"p": paper}) == {key: ("p", key) for key in keys} | {
        f"p_{key}": ("p", key) for key in keys
    }
    both = spec.targets({"p": paper, "q": paper})
    assert both == {f"{name}_{key}": (name, key) for name in "pq" for key in keys}
    assert "one" not in spec.targets(
        {"p": paper, "one": Paper(title="", reference="", figures={}, tables={}, claims={})}
    )
    other = paper.model_copy(update={"figures": {"b_one": paper.figures["one"]}})
    with pytest.raises(UserError, match="'a_b_one' "):
        spec.targets({"a_b": paper, "a": other})


def test_the_committed_papers_can_be_read():
    from fedrepro.config.params import read_params

    params = read_params(ROOT / "params.yaml")
    for name in params.papers:
        found = spec.read_paper(name, params)
        assert found.claims and bool(spec.read_curves(found)) == bool(found.curves_from)
        named = {key: shown.name for key, shown in found.experiments.items()} | {
            key: item.name for key, item in (found.figures | found.tables).items() if item.name
        }
        panels = [
            ref.resolved(found.experiments).name or ref.key
            for table in found.tables.values()
            for ref in table.panels
        ]
        keys = [key for key in [*found.artifacts, *found.shown_experiments] if "_" in key]
        assert not [key for key in keys if not named.get(key)], "a reader meets keys"
        assert not [name for name in panels if "_" in name], "a reader meets keys"


MISSHAPEN = {
    "half a file": '{"a": [[1, 2], [0.1',
    "a list": "[1, 2]",
    "rounds without values": '{"a": [[1, 2], [0.1]]}',
    "one list": '{"a": [[1, 2]]}',
    "one without points": '{"a": [{}]}',
    "no lists": '{"a": [{}, {}]}',
    "a word": '{"a": [[1, 2], [0.1, "x"]]}',
    "no number": '{"a": [[1, 2], [0.1, NaN]]}',
    "a round that is no number": '{"a": [[1, "x"], [0.1, 0.2]]}',
    "yes and no": '{"a": [[1, 2], [true, 0.2]]}',
}


@pytest.mark.parametrize("text", [*MISSHAPEN.values(), None], ids=[*MISSHAPEN, "no file"])
def test_curves_of_a_wrong_shape_are_one_message(text, tmp_path):
    with pytest.raises(UserError, match=r"curves\.json: "):
        read(tmp_path, PAPER, curves=text)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '[{"verdict": 1}, 2]', '[{"verdict": 1}, {"key": 2}]', '{"scale": "paper"}'],
)
def test_damaged_gathered_results_are_one_message(text, tmp_path):
    (tmp_path / "tables").mkdir()
    for name in ("fig.json", "tables/verdicts.json"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "fig.csv").write_text("series,seed\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"fig\.json: damaged"):
        load(tmp_path, "fig")
    if text != "[]":
        with pytest.raises(UserError, match=r"verdicts\.json: damaged"):
            summary.read_verdicts(tmp_path)


def test_the_finding_of_a_combined_figure_names_the_panel(tmp_path):
    figures = {"fig1": {"title": "All", "kind": "panels", "rows": [["fig1a", "fig1b"]]}}
    figures |= {key: {"title": key, "experiment": "first"} for key in ("fig1a", "fig1b")}
    claims = {"saves": PAPER["claims"]["saves"] | {"artifact": "fig1a"}}
    given, folder = (
        read(tmp_path, PAPER | {"figures": figures, "claims": claims}),
        tmp_path / "paper" / "p",
    )
    store(FIRST, folder / "data", "first")
    store(SECOND, folder / "data", "second")
    artifacts.write_artifacts(given, ["fig1", "verdicts"], folder)
    [finding] = [
        entry.finding for entry in PaperContent("p", given, folder).figures if entry.key == "fig1"
    ]
    assert finding.startswith("Fig. 1a: FedMMD saves 50 % <of all>: here ")
