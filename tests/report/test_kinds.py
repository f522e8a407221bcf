"""Kinds of figures, and measures in other units, drawn from small synthetic results."""

import functools
import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.markers import MarkerStyle
from matplotlib.text import Text

from fedrepro.config import registry
from fedrepro.core.errors import UserError
from fedrepro.report import artifacts, quantities
from fedrepro.report import paper as spec
from fedrepro.report.figures import _layout, _partition_heatmap
from fedrepro.report.figures._style import UNFINISHED_SUFFIX, category_colours
from fedrepro.report.figures.bars import ticks_fit
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentRef, ExperimentView
from fedrepro.report.palette import SeriesStyle
from fedrepro.report.reasons import ReasonKind
from fedrepro.report.verdicts import claim as claims
from fedrepro.report.verdicts.decide import decide
from fedrepro.runs.reasons import to_note
from support import settings
from support.kinds import BETAS, FIGURES, FINAL, PAPER
from support.results import arrives, ends, made, record, rows, store, unfinished, waits

LAYERS = ("conv1", "conv2", "conv3", "fc1", "fc2")
ASKED = {"studies": {"tsne": {"images": 4}, "preferences": {"batches": 1}}}
SERIES = {"FedMMD": {0: arrives(4), 1: arrives(6)}, "FedAvg": {0: arrives(10), 1: arrives(8)}}


def read(folder, figures: dict | None = None) -> spec.Paper:
    settings.place_paper(folder, PAPER | {"figures": FIGURES | (figures or {})})
    series = {"series": {label: {} for label in SERIES}}
    sweep = {
        "local_epochs": 1,
        "series": {label: {"beta": beta} for label, beta in BETAS.items()} | {"FedAvg": {}},
    }
    experiments = {
        "first": series | ASKED,
        "second": series,
        "third": series | ASKED,
        "sweep": sweep,
    }
    experiments["zero"] = {"series": {"FedMAX": {"beta": 10}, "FedMAX 0": {"beta": 0}}}
    scale = {"seeds": [0], "compare": "full", "note": "n"}
    values = {
        "scale": "paper",
        "scales": {"paper": scale, "small": scale},
        "papers": {"p": experiments},
    }
    return spec.read_paper("p", settings.params(values, folder))


def curves(compare: str = "full") -> Results:
    found = made(SERIES, compare)
    for series, epochs in zip(found.note["series"].values(), (1, 5), strict=True):
        series["config"] = {"local_epochs": epochs}
    return Results(
        found.note,
        [row | {"test_loss": str(2.3 * (1 - float(row["test_accuracy"])))} for row in found.rows],
    )


def tuned() -> Results:
    """Curves of series that were chosen among three trials, of which one diverged."""
    found = curves()
    for series in found.note["series"].values():
        series["tuned"] = {"by": "validation_accuracy", "score": 0.8, "scores": [0.5, 0.8, None]}
    return found


def swept() -> Results:
    found = made(
        {
            label: {0: ends(0.8 - 0.02 * n), 1: ends(0.82 - 0.02 * n)}
            for n, label in enumerate((*BETAS, "FedAvg"))
        }
    )
    for place, (label, series) in enumerate(found.note["series"].items()):
        algorithm = (
            {"name": "fedmax", "beta": BETAS[label]} if label in BETAS else {"name": "fedavg"}
        )
        series |= {
            "algorithm": algorithm,
            "config": {"algorithm": algorithm, "local_epochs": 1 + place},
        }
    return found


def studied(rows: list[dict], labels=tuple(SERIES), seeds=(0, 1)) -> Results:
    """The results of a study: the same rows for each series and seed."""
    note = made({}).note | {"study": "s", "settings": {}}
    algorithms = {"FedMMD": "fedmmd", "FedAvg": "fedavg"}
    note["series"] = {
        label: {
            "algorithm": {"name": algorithms[label]},
            "runs": [record(label, s, [0.1], None, "MNIST (official release)") for s in seeds],
        }
        for label in labels
    }
    shift = {label: place for place, label in enumerate(labels)}
    found = [
        {"series": label, "seed": str(seed), "run": "r"}
        | {key: _moved(key, value, shift[label], seed) for key, value in row.items()}
        for label in labels
        for seed in seeds
        for row in rows
    ]
    return Results(note, found)


def _moved(key: str, value, shift: int, seed: int) -> str:
    return (
        str(value * (1 + 0.3 * shift + 0.1 * seed))
        if key == "variance" and value != ""
        else str(value)
    )


def points() -> list[dict]:
    draw = random.Random(0)
    near = {1: 2.0, 10: 1.0, 100: 0.3}
    return [
        {
            "round": round,
            "x": kind % 4 + draw.gauss(0, wide),
            "y": kind // 4 + draw.gauss(0, wide),
            "class": kind,
            "client": client,
            "accuracy": round / 200,
        }
        for round, wide in near.items()
        for kind in range(10)
        for client in range(4)
    ]


def neurons() -> list[dict]:
    draw = random.Random(1)
    return [
        {
            "client": client,
            "block": layer,
            "unit": neuron,
            "round": 1,
            "class": draw.randrange(10),
            "variance": (n + 1) * (0.5 + draw.random()),
        }
        for client in range(3)
        for n, layer in enumerate(LAYERS)
        for neuron in range(8 * (n + 1))
    ]


@pytest.fixture(scope="module")
def paper(tmp_path_factory) -> spec.Paper:
    return read(tmp_path_factory.mktemp("spec"))


@pytest.fixture(scope="module")
def results() -> dict[str, Results]:
    gone = made({}, skipped="left for the next scale")
    layers = studied(neurons())
    return {
        "first": curves(), "second": gone, "third": tuned(), "sweep": swept(),
        "first-tsne": studied(points()), "first-preferences": layers, "third-preferences": layers,
    }  # fmt: skip


@pytest.fixture(scope="module")
def evidence(paper, results):
    _layout.set_print_style()
    return spec.paper_data(paper, results, {})


def pictured(paper, evidence, key):
    picture = _layout.compose(paper.figures[key], evidence)
    picture.canvas.draw()
    return picture


@pytest.fixture(scope="module")
def pictures(paper, evidence):
    """Each figure as it is drawn from `evidence`, once for all tests."""
    return functools.cache(functools.partial(pictured, paper, evidence))


def test_every_kind_makes_its_files(paper, results, tmp_path):
    """From its sources alone, as of a target of its own."""
    for name, found in results.items():
        store(found, tmp_path / "data", name)
    shown = [
        key
        for key in artifacts.available_artifacts(paper, artifacts.load_paper_data(paper, tmp_path))
        if key in paper.figures
    ]
    assert set(paper.figures) - set(shown) == {"absent"}
    for key in shown:
        alone = tmp_path / key
        for name in paper.figures[key].sources(paper.figures):
            store(results[name], alone / "data", name)
        (alone / "figures").mkdir()
        found = artifacts.load_paper_data(paper, alone)
        artifacts.write_figure_csv(paper, key, found, alone)
        assert _layout.compose(paper.figures[key], found).axes
        text = paper.figures[key].caption(found)
        assert (
            paper.figures[key].kind == "panels" or len(rows(alone / "figures" / f"{key}.csv")) > 1
        ), key
        assert text.startswith(f"{paper.figures[key].title}. ") and "Scale paper." in text, key
    artifacts.write_artifacts(paper, ["alone"], tmp_path)
    assert (tmp_path / "figures/alone.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "figures/alone.png").stat().st_size > 3000
    used = {figure.kind for figure in paper.figures.values()}
    assert used == set(registry.names("report.figures"))


@pytest.mark.parametrize("label", SERIES)
def test_a_series_that_is_not_finished_is_left_out(label, paper, results):
    found = spec.paper_data(
        paper, {name: unfinished(own, label) for name, own in results.items()}, {}
    )
    for key, figure in paper.figures.items():
        names = [
            text.get_text()
            for legend in _layout.compose(figure, found).legends
            for text in legend.get_texts()
        ]
        assert label not in names, key
        caption = figure.caption(found)
        complete = not found.results[figure.sources(paper.figures)[0]].unfinished_series
        assert complete or "Not shown" in caption or "Not finished" in caption, key


def test_nothing_overlaps(paper, pictures):
    """Panels, their labels and the legend do not overlap and are inside the page."""
    for key in paper.figures:
        picture = pictures(key)
        boxes = [axes.get_tightbbox() for axes in picture.axes] + [
            legend.get_window_extent() for legend in picture.legends
        ]
        for place, box in enumerate(boxes):
            assert (
                box.x0 >= -1
                and box.x1 <= picture.bbox.x1 + 1
                and box.y0 >= -1
                and box.y1 <= picture.bbox.y1 + 1
            ), key
            for other in boxes[place + 1 :]:
                wide, high = (
                    min(box.x1, other.x1) - max(box.x0, other.x0),
                    min(box.y1, other.y1) - max(box.y0, other.y0),
                )
                assert min(wide, high) <= 1, key


def test_a_grid_of_other_figures(paper, evidence, pictures):
    picture = pictures("grid")
    titles = [axes.get_title() for axes in picture.axes]
    # not "Not run"
    assert titles == [
        "α = 1",
        "Another measure",
        "α = 1",
        "α = 1",
        "α = 1",
        "Another measure",
        "α = 1",
        "",
    ]
    # once for all panels
    assert [text.get_text() for text in picture.legends[0].get_texts()] == [
        "FedMMD",
        "FedAvg",
        "target",
    ]
    assert [axes.get_ylabel() for axes in picture.axes[:3]] == [
        "test accuracy (%)",
        "test loss (nats)",
        "",
    ]
    assert (
        picture.axes[0].get_xlabel() == ""
        and picture.axes[4].get_xlabel() == "round of\ncommunication"
    )
    assert picture.axes[1].get_xlabel() == ""  # the one below it is the second that was run
    text = paper.figures["grid"].caption(evidence)
    assert (
        "Not run is not shown: left for the next scale." in text
        and "Global model after every round: test accuracy (α = 1)." in text
    )
    assert text.count("Mean with its 95 % interval (not drawn) over 2 seeds.") == 1
    assert "Grey line: the target, 0.5 nats (Another measure)." in text
    assert paper.figures["grid"].sources(paper.figures) == ["first", "second"]
    assert spec.spec_digest(paper) != spec.spec_digest(_changed(paper, "alone"))


@pytest.mark.parametrize("first", [
    FIGURES["heights"] | {"panels": ["second", "first"]},
    {"title": "t", "kind": "panels", "rows": [["absent", "alone"]]},
], ids=["bars", "panels"])  # fmt: skip
def test_a_figure_of_which_the_first_part_was_not_run_shows_the_others(first, evidence):
    figure = spec.parse_artifact("figures", first, "test")
    text = figure.caption(evidence)
    assert (
        figure.missing_reason(evidence) is None and "is not shown: left for the next scale." in text
    )
    assert "over 2 seeds." in text and "Not shown at this scale" not in text


def test_a_legend_lists_references_after_the_series(pictures):
    names = [text.get_text() for text in pictures("beta").legends[0].get_texts()]
    assert names == ["FedMAX", "FedAvg"]


@pytest.mark.parametrize(
    ("name", "columns"),
    [("a name", 3), ("a name of length", 2), ("a name that fills most of its line, no less", 1)],
)
def test_a_legend_has_as_many_columns_as_fit(name, columns):
    _layout.set_print_style()
    picture = _layout.new_figure(_layout.COLUMN_WIDTH, 2)
    axes = picture.subplots()
    for number in range(6):
        axes.plot([0, 1], label=f"{name} {number}")
    _layout.add_legend(picture, 1)
    [legend] = picture.legends
    assert legend._ncols == columns and legend.get_window_extent().width <= picture.bbox.width


def test_a_series_unfinished_in_one_panel_only_is_named_once():
    picture = _layout.new_figure(6, 4)
    panels = picture.subplots(1, 2)
    for panel, there, awaits in zip(
        panels, ("FedAvg", "FedProx"), ("FedMA", "FedAvg"), strict=True
    ):
        panel.plot([0, 1], label=there)
        panel.plot([], [], label=awaits + UNFINISHED_SUFFIX, gid=awaits)
    panel.plot([0, 1], label="FedProx" + UNFINISHED_SUFFIX)  # a series may be called so
    _layout.add_legend(picture, 2)
    [legend] = picture.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "FedAvg",
        "FedMA" + UNFINISHED_SUFFIX,
        "FedProx",
        "FedProx" + UNFINISHED_SUFFIX,
    ]


def test_all_mistakes_of_a_file_are_said_at_once(tmp_path):
    wrong = {
        "one": {"title": "t", "experiment": "no"},
        "two": {"title": "t", "experiment": "first", "needs": ["nobody"]},
    }
    with pytest.raises(UserError) as told:
        read(tmp_path, wrong)
    lines = str(told.value).splitlines()
    assert [
        "figures.one: unknown experiment 'no'" in lines[0],
        "figures.two.needs: unknown series" in lines[1],
    ] == [True, True]
    with pytest.raises(
        UserError, match="(?s)figures.one.kind: unknown figure.*figures.two: titel: unknown key"
    ):
        read(
            tmp_path,
            {"one": {"kind": "no"}, "two": {"titel": "t", "title": "t", "experiment": "first"}},
        )


def test_a_panel_with_a_name_needs_no_kind(tmp_path):
    paper = read(tmp_path, {"named": {"title": "Named", "experiment": "first", "name": "α = 2"}})
    assert (paper.figures["named"].kind, paper.figures["named"].key) == ("curves", "α = 2")


@pytest.mark.parametrize(("scales", "shared"), [
    (((40, 90), (50, 95)), [(40, 95), (40, 95)]),  # 55 is not much longer than 45
    (((0, 80), (0, 160)), None),
])  # fmt: skip
def test_a_shared_scale_cuts_nothing_off_and_prints_its_numbers_once(scales, shared):
    """Where each panel has a scale of its own, each has its numbers."""
    axes = _layout.new_figure(6, 4).subplots(1, 2, squeeze=False)
    for panel, limits in zip(axes[0], scales, strict=True):
        panel.set(ylabel="accuracy", ylim=limits)
    _layout.share_labels(axes)
    assert [panel.get_ylim() for panel in axes[0]] == (shared or list(scales))
    assert [panel.yaxis.get_tick_params()["labelleft"] for panel in axes[0]] == [
        True,
        shared is None,
    ]


def test_a_sweep_of_one_method_has_the_methods_style(paper, evidence):
    other = replace(
        evidence, styles={**evidence.styles, "elsewhere": {"FedMAX": SeriesStyle("#123456", "p")}}
    )
    line = pictured(paper, other, "beta").axes[0].lines[0]
    assert (line.get_color(), line.get_marker()) == ("#123456", "p")


def test_close_settings_get_no_ticks():
    assert ticks_fit([1, 2, 3]) and ticks_fit([5]) and not ticks_fit([100, 500, 1000, 10000])


@pytest.mark.parametrize(
    ("clients", "classes", "texts"), [(3, 10, 30), (12, 2, 24), (13, 10, 0), (3, 100, 0)]
)
def test_heat_maps_print_numbers_and_names_only_if_they_fit(clients, classes, texts):
    draw = random.Random(0)
    counts = np.array([[draw.randrange(30_000) for _ in range(classes)] for _ in range(clients)])
    picture = _partition_heatmap.heatmap(
        counts, [f"class {n}" for n in range(classes)], "Data: partition"
    )
    picture.canvas.draw()
    axes, bar = picture.axes
    assert (
        len(axes.texts) == texts
        and axes.collections[0].get_clim() == (0, counts.max())
        and bar.get_ylabel() == "training images"
    )
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("class", "client")
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == (
        [f"class {n}" for n in range(classes)]
        if classes <= 12
        else [str(n) for n in range(0, 100, 10)]
    )
    for box in (axes.get_tightbbox(), bar.get_tightbbox()):
        assert (
            box.x0 >= -1
            and box.x1 <= picture.bbox.x1 + 1
            and box.y0 >= -1
            and box.y1 <= picture.bbox.y1 + 1
        )


def test_levels_are_the_final_values_of_another_experiment(paper, results):
    """Two seeds of pooled training end at 90 and 94 %; a figure computes what it shows once for all
    its files."""
    figure = paper.figures["trained"].model_copy(
        update={"levels": ExperimentRef(experiment="second")}
    )
    shown = paper.model_copy(update={"figures": {"trained": figure}})
    pooled = made({"pooled": {0: ends(0.90), 1: ends(0.94)}})
    found = spec.paper_data(shown, dict(results) | {"second": pooled}, {})
    axes = _layout.compose(figure, found).axes[0]
    [level] = [line for line in axes.lines if line.get_label() == "pooled"]
    assert level.get_ydata() == [pytest.approx(92)] * 2 and axes.get_ylim()[1] > 92
    assert figure.csv_rows(found)[-1][:3] == ["pooled", "end", "92"] and figure.data(
        found
    ) is figure.data(found)
    assert "Horizontal line: pooled at the end, 2 seeds." in figure.caption(found)
    assert figure.sources({}) == ["first", "second"]
    without = spec.paper_data(
        shown, dict(results) | {"second": Results(pooled.note | to_note(waits(1, 2)), [])}, {}
    )
    assert (
        "Horizontal line" not in figure.caption(without) and _layout.compose(figure, without).axes
    )


def _changed(paper: spec.Paper, key: str) -> spec.Paper:
    other = paper.figures[key].model_copy(update={"title": "else"})
    return paper.model_copy(update={"figures": paper.figures | {key: other}})


def test_a_sweep_reads_the_resolved_settings(paper, evidence, pictures):
    axes = pictures("beta").axes[0]
    line = axes.lines[0]
    assert (
        line.get_xdata().tolist() == [0.1, 1, 10, 100]
        and axes.get_xscale() == "log"
        and axes.get_xlabel() == "β"
    )
    assert (
        line.get_ydata().tolist() == pytest.approx([81, 79, 77, 75])
        and axes.get_ylabel() == "test accuracy (%)"
    )
    [flat] = [line for line in axes.lines if line.get_label() == "FedAvg"]
    assert list(flat.get_ydata()) == pytest.approx([73, 73])
    [bars] = [lines.get_segments() for lines in axes.collections if hasattr(lines, "get_segments")]
    # of 2 points
    assert [top - bottom for (_, bottom), (_, top) in bars] == pytest.approx([2 * 12.7062] * 4)
    [band] = axes.patches
    assert (band.get_y(), band.get_height()) == pytest.approx((73 - 12.7062, 2 * 12.7062), rel=1e-4)
    text = (
        "over β. Dashed: FedAvg, without β, with the interval as a band. Mean measured in "
        "the last 5 rounds. "
    )
    assert f"Test accuracy (%) {text}" in paper.figures["beta"].caption(evidence)
    assert axes.get_legend_handles_labels()[1] == ["FedMAX", "FedAvg"]
    columns, first, *_ = paper.figures["beta"].csv_rows(evidence)
    assert columns[2] == "algorithm.beta" and first[2] == 0.1


def test_a_sweep_sorts_the_settings_and_draws_each_panels_reference(paper, evidence):
    """The second experiment's series come in the opposite order and end 10 points lower."""
    found = evidence.results["sweep"]
    turned = found.note | {"series": dict(reversed(found.note["series"].items()))}
    lower = Results(
        turned,
        [row | {"test_accuracy": str(float(row["test_accuracy"]) - 0.1)} for row in found.rows],
    )
    panels = (
        ExperimentRef(experiment="sweep", name="a"),
        ExperimentRef(experiment="lower", name="b"),
    )
    figure = paper.figures["beta"].model_copy(update={"panels": panels})
    changed = replace(evidence, results={**evidence.results, "lower": lower})
    lines = {line.get_label(): line for line in _layout.compose(figure, changed).axes[0].lines}
    for name, values in (("a", [81, 79, 77, 75]), ("b", [71, 69, 67, 65])):
        assert lines[name].get_xdata().tolist() == [0.1, 1, 10, 100]
        assert lines[name].get_ydata().tolist() == pytest.approx(values)
    levels = [lines[name].get_ydata()[0] for name in ("FedAvg, a", "FedAvg, b")]
    assert levels == pytest.approx(
        [73, 63]
    ) and "Dashed and dotted: FedAvg, without β" in figure.caption(changed)


def test_grouped_bars_of_a_quantity(paper, evidence, pictures):
    axes = pictures("heights").axes[0]
    assert [patch.get_height() for patch in axes.patches if patch.get_height() > 0] == [5, 5, 9, 9]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["MNIST\n90 %", "CIFAR-10\n90 %"]
    assert axes.get_ylabel() == "rounds to the target"
    whiskers = [lines for lines in axes.collections if getattr(lines, "get_segments", list)()]
    ends = [end[:, 1].tolist() for lines in whiskers for end in lines.get_segments()]
    assert ends[::4] == [
        pytest.approx([mean - 12.7062, mean + 12.7062], rel=1e-4) for mean in (5, 9)
    ]
    # each on a broader white one, or it would not be seen on a black bar
    assert ends[::2] == ends[1::2]
    shades = [(to_hex(lines.get_color()[0]), lines.get_linewidth()[0]) for lines in whiskers]
    assert [shade for shade, _ in shades] == ["#ffffff", "#000000"] * 4 and all(
        wide > 2 * thin for (_, wide), (_, thin) in zip(shades[::2], shades[1::2], strict=True)
    )
    text = paper.figures["heights"].caption(evidence)
    assert "second is not shown: left for the next scale." in text and "No number" not in text
    assert "Framed" not in text
    assert "Target at this scale: 90 % (MNIST), 90 % (CIFAR-10)." in text
    late = {
        **evidence.results,
        "third": made({"FedMMD": {0: arrives(None)}, "FedAvg": {0: arrives(3)}}),
    }
    text = paper.figures["heights"].caption(spec.paper_data(paper, late, {}))
    assert (
        "No number for FedMMD (CIFAR-10): seed 0: FedMMD does not reach 90 % within 20 rounds."
        in text
    )


def test_a_bar_has_the_style_of_its_series_in_the_legend(paper, evidence):
    """The paper's own method is framed."""
    known = {
        "fig": {
            "FedMMD": SeriesStyle("#d55e00", "s", proposed=True),
            "FedAvg": SeriesStyle("#0072b2", "o"),
        }
    }
    own = replace(evidence, styles=known)
    axes = pictured(paper, own, "heights").axes[0]
    bars = [patch for patch in axes.patches if patch.get_height() > 0]  # of both panels
    assert [to_hex(patch.get_facecolor()) for patch in bars] == [
        "#d55e00",
        "#d55e00",
        "#0072b2",
        "#0072b2",
    ]
    assert [patch.get_linewidth() > 0 for patch in bars] == [True, True, False, False]
    names = [text.get_text() for text in axes.figure.legends[0].get_texts()][:2]
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    assert [to_hex(handles[name].get_facecolor()[0]) for name in names] == ["#d55e00", "#0072b2"]
    assert "Framed: the paper's own methods." in paper.figures["heights"].caption(own)


def test_bars_of_a_study_use_its_rows(evidence):
    """FedMMD's divergences are 3 where FedAvg's are 4; the bar shows the log of the ratio."""
    found = studied([{"round": 1}])
    rows = [row | {"divergence": "3" if row["series"] == "FedMMD" else "4"} for row in found.rows]
    asked = {
        "title": "t",
        "kind": "bars",
        "panels": ["first"],
        "quantity": {"kind": "divergence", "baseline": "FedAvg"},
    }
    changed = replace(
        evidence, results={**evidence.results, "first-activations": Results(found.note, rows)}
    )
    axes = _layout.compose(spec.parse_artifact("figures", asked, "test"), changed).axes[0]
    assert [patch.get_height() for patch in axes.patches] == pytest.approx([math.log(0.75), 0])


def test_each_panel_shows_its_own_last_round_and_keeps_the_place_of_a_missing_bar(paper, evidence):
    """Runs have 20 and 200 rounds; one bar near the end of the shorter runs suffices. FedMMD never
    gets there in the second."""
    first = made({"FedMMD": {0: arrives(19)}, "FedAvg": {0: arrives(3)}})
    third = made({"FedMMD": {0: arrives(None, 200)}, "FedAvg": {0: arrives(3, 200)}})
    axes = pictured(
        paper,
        replace(evidence, results={**evidence.results, "first": first, "third": third}),
        "heights",
    ).axes[0]
    ends = [list(line.get_ydata()) for line in axes.lines if len(line.get_xdata()) == 2]
    assert ends == [[20, 20], [200, 200]]
    [none] = [text for text in axes.texts if text.get_text() == "none"]
    # left of the second panel's middle, by half a bar of 0.4
    assert none.xy == pytest.approx((0.8, 0))


def test_bars_that_come_near_the_last_round_show_it(paper, evidence):
    late = spec.paper_data(
        paper,
        {
            **evidence.results,
            "third": made({"FedMMD": {0: arrives(19)}, "FedAvg": {0: arrives(3)}}),
        },
        {},
    )
    for found, shown in ((evidence, False), (late, True)):
        lines = [
            line
            for line in pictured(paper, found, "heights").axes[0].lines
            if list(line.get_ydata()) == [20, 20]
        ]
        assert len(lines) == 2 * shown  # 20 rounds in both panels
        assert ("Grey line: the last round" in paper.figures["heights"].caption(found)) == shown


def test_bars_of_accuracies_show_no_last_round(paper, evidence):
    """Its values are the best accuracies, in percent."""
    figure = paper.figures["heights"].model_copy(update={"quantity": {"kind": "best"}})
    axes = _layout.compose(figure, evidence).axes[0]
    assert [
        patch.get_height() for patch in axes.patches if patch.get_height() > 0
    ] == pytest.approx([95] * 4)
    assert not [line for line in axes.lines if list(line.get_ydata()) == [20, 20]]
    assert axes.get_ylabel() == "best test accuracy (%)" and "Grey line" not in figure.caption(
        evidence
    )


def test_points_by_round_and_series(paper, evidence, pictures):
    picture = pictures("points")
    titles = [axes.get_title().replace("\n", " ") for axes in picture.axes]
    notes = {
        "round 1": "accuracy 0.5 %",
        "round 10": "accuracy 5.0 %",
        "round 100": "accuracy 50.0 %",
    }
    assert titles == [
        f"{label}, {round}: {note}"
        for label in ("FedAvg", "FedMMD")
        for round, note in notes.items()
    ]
    assert sum(len(points.get_offsets()) for points in picture.axes[0].collections) == 40
    assert "Letters: client (A 0, B 1, C 2, D 3). Seed 0." in paper.figures["points"].caption(
        evidence
    )


def test_a_point_has_the_colour_of_its_class_and_the_letter_of_its_client(evidence, pictures):
    axes = pictures("points").axes[0]  # FedAvg, round 1
    legend = {
        label: handle.get_facecolor()[0]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    drawn = {
        tuple(place): points
        for points in axes.collections
        for place in points.get_offsets().tolist()
    }
    styles = [MarkerStyle(rf"$\mathrm{{{letter}}}$") for letter in "ABCD"]
    letters = [style.get_path().transformed(style.get_transform()).vertices for style in styles]
    rows = [
        row
        for row in evidence.results["first-tsne"].rows
        if (row["series"], row["seed"]) == ("FedAvg", "0")
    ]
    shown = [row for row in rows if row["round"] == "1"]
    for row in shown:
        points = drawn[float(row["x"]), float(row["y"])]
        assert points.get_facecolor()[0] == pytest.approx(legend[f"class {row['class']}"])
        assert points.get_paths()[0].vertices == pytest.approx(letters[int(row["client"])])
    # and the letters
    assert (
        len(shown) == len(drawn) == 40 and len({tuple(colour) for colour in legend.values()}) == 11
    )


def test_some_of_the_rounds(paper, evidence):
    figure = paper.figures["points"].model_copy(update={"only": (1, 100)})
    assert len(_layout.compose(figure, evidence).axes) == 4
    nothing = paper.figures["points"].model_copy(update={"only": (7,)})
    assert nothing.data(evidence) == {}
    [axes] = _layout.compose(nothing, evidence).axes
    assert (
        axes.texts[0].get_text().replace("\n", " ")
        == "not shown: no finished run has what it shows"
    )


def test_a_round_counts_as_its_local_epochs(pictures):
    """Both series have 20 rounds; the one that trains five epochs per round ends at 100."""
    axes = pictures("trained").axes[0]
    lines = [
        list(line.get_xdata())
        for line in axes.lines
        if len(line.get_xdata()) == 21 and line.get_alpha() != 0.4
    ]
    assert [(line[1], line[-1]) for line in lines] == [(1, 20), (5, 100)]
    assert axes.get_xlabel() == "local epochs in all" and axes.get_xlim() == (0, 102)


def test_curves_above_a_baseline_are_differences_seed_by_seed(paper, evidence):
    """Check their mean, the single seeds, and the difference of the paper's curves."""
    levels = {"FedMMD": {0: 0.70, 1: 0.74}, "FedAvg": {0: 0.60, 1: 0.70}}
    found = made(
        {
            label: {seed: ends(level) for seed, level in seeds.items()}
            for label, seeds in levels.items()
        }
    )
    keys = {"FedMMD": "a", "FedAvg": "b"}
    shown = paper.model_copy(
        update={
            "experiments": {
                "first": paper.experiments["first"].model_copy(update={"reported": keys})
            },
            "figures": {"leads": paper.figures["leads"]},
        }
    )
    reported = {"a": [(1, 0.5), (2, 0.9)], "b": [(2, 0.6), (3, 0.7)]}
    changed = spec.paper_data(shown, {"first": found}, reported)
    axes = _layout.compose(shown.figures["leads"], changed).axes[0]
    ours = next(line for line in axes.lines if line.get_label() == "FedMMD")
    assert ours.get_ydata()[-1] == pytest.approx(7) and not [
        line for line in axes.lines if line.get_label() == "FedAvg"
    ]
    seeds = [line.get_ydata()[-1] for line in axes.lines if line.get_alpha() == 0.4]
    # 7 ± 12.7062 * 3: a band would fill the axis
    assert seeds == pytest.approx([4, 10]) or seeds == pytest.approx([10, 4])
    # without the baseline's
    theirs = [line for line in axes.lines if line.get_linestyle() == "--" and len(line.get_xdata())]
    assert [line.get_xydata().tolist() for line in theirs] == [[[2, pytest.approx(30)]]]
    assert (
        axes.get_ylabel().split() == ["test", "accuracy", "minus", "FedAvg's", "(points)"]
        and axes.get_ylim()[1] > 30
    )
    initial = shown.figures["leads"].model_copy(update={"measure": "initial_accuracy"})
    rows = [row | {"initial_accuracy": row["test_accuracy"]} for row in found.rows]
    axes = _layout.compose(
        initial, spec.paper_data(shown, {"first": Results(found.note, rows)}, reported)
    ).axes[0]
    # as on the axis of the curves
    assert axes.get_ylabel().split() == ["initial", "accuracy", "minus", "FedAvg's", "(points)"]
    text = shown.figures["leads"].caption(changed)
    assert "The difference from FedAvg, seed by seed." in text and "target" not in text
    assert "half of one is 38 points in the median." in text


def test_captions_count_the_columns_in_which_all_rows_agree(paper, evidence):
    """conv1: unit 0 is the same everywhere, unit 1 is not, unit 2 has no class at one client; fc1:
    no unit has a class."""
    tops = {"conv1": {0: (3, 3), 1: (3, 4), 2: (-1, 5)}, "fc1": {0: (-1, -1)}}
    rows = [
        {"block": layer, "unit": unit, "client": client, "class": top, "round": 10}
        for layer, units in tops.items()
        for unit, each in units.items()
        for client, top in enumerate(each)
    ]
    earlier = [row | {"round": 1, "class": 0} for row in rows]  # the last round alone is shown
    changed = spec.paper_data(
        paper, {**evidence.results, "third-preferences": studied(earlier + rows)}, {}
    )
    text = paper.figures["tops"].caption(changed)
    assert "White: no unit of that number, or no class. " in text and " Seed 0, round 10. " in text
    same = "conv1 1 of 2 (50 %; 3 in total), fc1 0 of 0 (1 in total)"
    assert (
        f"FedAvg: units with the same class in all clients, of those with a class in all: {same}."
        in text
    )
    picture = pictured(paper, changed, "tops")
    assert [axes.get_title() for axes in picture.axes] == [
        "FedAvg, block conv1",
        "FedAvg, block fc1",
    ]
    assert (picture.axes[0].images[0].get_array()[:, 2] == 1).all(axis=-1).tolist() == [True, False]


def test_a_row_without_a_number_is_no_part_of_a_mean(paper):
    rows = [
        {"block": layer, "variance": value}
        for layer, value in (("conv1", 1), ("conv1", ""), ("conv1", 3), ("fc1", ""))
    ]
    figure = paper.figures["variance"]
    found = {f"{name}-{figure.of}": studied(rows, ("FedMMD",), (0,)) for name in figure.names}
    assert [line.means for line in figure.data(spec.paper_data(paper, found, {}))] == [
        {"conv1": [2.0]}
    ] * len(figure.names)


def test_rounds_to_the_plateau():
    """0.1, 0.5, 0.78, 0.8, 0.79: within three points of its best at round 2, as a mean of two
    rounds at round 3."""
    found = made({"FedMMD": {0: [0.1, 0.5, 0.78, 0.8, 0.79]}, "FedAvg": {0: [0.1, 0.1]}})
    plateaus = [
        quantities.parse_quantity(
            {"kind": "rounds_to_plateau", "series": "FedMMD", "within": 0.03, "smooth": n}, "t"
        )
        for n in (1, 2, 9)
    ]
    panel = ExperimentView("first", DisplayOptions(), found)
    assert [cell.evaluate(panel) for cell in plateaus[:2]] == [([2.0], []), ([3.0], [])]
    assert [one.kind for one in plateaus[2].evaluate(panel)[1]] == [ReasonKind.TOO_SHORT]
    # the best mean of two is 0.845: 0.84 at round 3 is near it
    spike = made({"FedMMD": {0: [0.1, 0.5, 0.78, 0.9, 0.79]}})
    assert plateaus[1].evaluate(ExperimentView("first", DisplayOptions(), spike)) == ([3.0], [])


def test_quantities_of_clients():
    """Of 20 clients the worst two, after the last studied round; the spread is the deviation over
    all of them."""
    accuracies = {"A": [0.5, 0.1, 0.3, *[0.9] * 17], "B": [0.4] * 20}
    note = {"scale": "paper", "compare": "full", "settings": {"rounds": None}, "series": {
        label: {"runs": [{"seed": 0, "status": "finished"}]} for label in accuracies
    }}  # fmt: skip
    table = [
        {
            "series": label,
            "seed": "0",
            "round": str(round),
            "client": str(client),
            "images": "9",
            "accuracy": f"{accuracy}",
        }
        for label, values in accuracies.items()
        for round in (1, 3)
        for client, accuracy in enumerate(values if round == 3 else [0])
    ]
    view = ExperimentView("first", DisplayOptions(), Results(note, table))

    def value(kind, **options):
        quantity = quantities.parse_quantity({"kind": kind, "series": "A", **options}, "t")
        [number], reasons = quantity.evaluate(view)
        assert not reasons
        return number

    assert value("worst_tenth") == pytest.approx(0.2) and value(
        "worst_tenth", baseline="B"
    ) == pytest.approx(-0.2)
    assert (
        value("spread")
        == pytest.approx(np.std(accuracies["A"]))
        == pytest.approx(value("spread", baseline="B"))
    )
    none = replace(view, results=Results(note, table[-1:]))
    [reason] = quantities.parse_quantity({"kind": "spread", "series": "A"}, "t").evaluate(none)[1]
    assert str(reason) == "no accuracies of clients of A"


def studied_rounds(cells: dict[str, list[dict[str, str]]]) -> ExperimentView:
    """A view of a study of two seeds: series -> the rows of one, whose numbers the other has
    too."""
    note = {
        "scale": "paper",
        "compare": "full",
        "settings": {"rounds": None},
        "series": {
            label: {"runs": [{"seed": seed, "status": "finished"} for seed in (0, 1)]}
            for label in cells
        },
    }
    table = [
        {"series": label, "seed": f"{seed}"} | row
        for label, rows in cells.items()
        for seed in (0, 1)
        for row in rows
    ]
    return ExperimentView("first", DisplayOptions(), Results(note, table))


def by_class(*numbers: tuple[str, str, str]) -> list[dict[str, str]]:
    """The rows of the study `same_class`, by round: same, ratio, kl."""
    cells = [{"same": same, "other": "8", "ratio": ratio, "kl": kl} for same, ratio, kl in numbers]
    return [{"round": f"{round}"} | row for round, row in enumerate(cells, 1)]


@pytest.mark.parametrize(("options", "value"), [
    ({"column": "ratio"}, (-2 - 1) / 2 - (-1 + 0.5) / 2),  # a mean of logarithms
    ({"column": "ratio", "until": 1}, -2 + 1),
    ({"column": "kl"}, math.log((0.1 + 0.2) / (0.5 + 0.7))),
])  # fmt: skip
def test_activations_within_classes_relative_to_a_baselines(options, value):
    view = studied_rounds(
        {
            "A": by_class(("1", "-2", "0.1"), ("3", "-1", "0.2")),
            "B": by_class(("3", "-1", "0.5"), ("9", "0.5", "0.7")),
        }
    )
    asked = {"kind": "divergence", "series": "A", "baseline": "B", "study": "same_class"}
    quantity = quantities.parse_quantity(asked | options, "t")
    assert (
        quantity.evaluate(view) == (pytest.approx([value] * 2), [])
        and quantity.study_name == "same_class"
    )


def test_activations_within_classes_that_cannot_be_compared():
    """Dead networks, devices without a class in common; a round without is left out."""
    asked = {
        "kind": "divergence",
        "series": "A",
        "baseline": "B",
        "study": "same_class",
        "column": "ratio",
    }
    quantity, fine, dead, alone = (
        quantities.parse_quantity(asked, "t"),
        ("3", "-1", "0.5"),
        ("0.0", "", "0.0"),
        ("", "", ""),
    )
    for cells, reason in (
        (
            [dead, dead, fine],
            "in most rounds the activations of A do not differ between devices, as in a dead "
            "network",
        ),
        ([alone, alone, alone], "no pairs of devices that share a class of A"),
    ):
        [found] = quantity.evaluate(studied_rounds({"A": by_class(*cells), "B": by_class(fine)}))[1]
        assert str(found) == reason
    assert quantity.evaluate(
        studied_rounds({"A": by_class(fine, alone), "B": by_class(("3", "-3", "0.5"))})
    ) == ([2, 2], [])


def test_a_divergence_is_registered_as_before_it_had_other_studies():
    plain = {
        "kind": "divergence",
        "series": "A",
        "baseline": "B",
        "than": None,
        "until": None,
        "learned": None,
    }
    assert quantities.parse_quantity(plain, "t").model_dump(mode="json") == plain
    other = plain | {"study": "same_class", "column": "kl"}
    assert quantities.parse_quantity(other, "t").model_dump(mode="json") == other
    with pytest.raises(
        UserError, match=r"t: column: the study same_class has ratio and kl \(got divergence\)"
    ):
        quantities.parse_quantity(plain | {"study": "same_class"}, "t")


def test_the_share_of_gates_that_left_their_start():
    """After the last studied round: 3 of 4 maps, of which two are above 0.3; the baseline's one of
    4."""
    gates = {"A": ["0.05", "-0.2", "0.4", "-0.7"], "B": ["0.0", "0.1", "0.11", "0.0"]}
    last = {
        label: [
            {"round": "15", "map": f"{at}", "lambda": gate} for at, gate in enumerate(gates[label])
        ]
        for label in gates
    }
    early = [{"round": "10", "map": f"{at}", "lambda": "9"} for at in range(4)]
    view = studied_rounds({label: early + found for label, found in last.items()})
    for options, value in (({}, 0.75), ({"above": 0.3}, 0.5), ({"baseline": "B"}, 0.5)):
        quantity = quantities.parse_quantity({"kind": "gates", "series": "A"} | options, "t")
        assert quantity.evaluate(view) == ([value] * 2, [])


def test_clients_agree_on_the_top_classes_of_units():
    """By hand, of three clients: in block a 3 of 3 pairs of unit 0 agree, and 1 of 3 of unit 1; in
    block b one pair has top classes, which differ. Earlier rounds do not count."""
    note = {"scale": "paper", "compare": "full", "settings": {"rounds": None}, "series": {
        "A": {"runs": [{"seed": 0, "status": "finished"}]}
    }}  # fmt: skip
    classes = {
        ("a", "0"): [4, 4, 4],
        ("a", "1"): [0, 0, 2],
        ("b", "0"): [-1, 1, 3],
        ("b", "1"): [-1, -1, 3],
    }
    table = [
        {
            "series": "A",
            "seed": "0",
            "round": f"{at}",
            "client": f"{client}",
            "block": block,
            "unit": unit,
            "class": f"{top}",
        }
        for (block, unit), tops in classes.items()
        for client, top in enumerate(tops)
        for at, top in ((2, 7), (5, top))
    ]
    quantity = quantities.parse_quantity({"kind": "agreement", "series": "A"}, "t")
    view = ExperimentView("first", DisplayOptions(), Results(note, table))
    assert quantity.evaluate(view) == ([pytest.approx((4 / 6 + 0 / 1) / 2)], [])
    assert quantity.model_copy(update={"blocks": ("a",)}).evaluate(view) == (
        [pytest.approx(4 / 6)],
        [],
    )
    with pytest.raises(UserError, match="agreement: unknown block 'c': choose from a, b"):
        quantity.model_copy(update={"blocks": ("c",)}).evaluate(view)


def test_total_variance_of_deep_blocks_above_that_of_shallow_ones():
    """By hand: (0.3 + 0.5) / 2 = 0.4 in block c and 0.2 in b, against 0.1 in a; units without
    preferences do not count."""
    note = {"scale": "small", "compare": "direction", "settings": {"rounds": None}, "series": {
        "A": {"runs": [{"seed": 0, "status": "finished"}]}
    }}  # fmt: skip
    distances = [
        ("a", "0.1"),
        ("a", ""),
        ("b", "0.2"),
        ("c", "0.3"),
        ("c", "0.5"),
        ("c", ""),
        ("d", ""),
    ]
    table = [
        {"series": "A", "seed": "0", "round": "5", "block": block, "distance": each}
        for block, each in distances
    ]
    quantity = quantities.parse_quantity(
        {"kind": "total_variance", "series": "A", "blocks": ["b", "c"], "than": ["a"]}, "t"
    )
    view = ExperimentView("first", DisplayOptions(), Results(note, table))
    assert quantity.evaluate(view) == ([pytest.approx((0.2 + 0.4) / 2 - 0.1)], [])
    [reason] = quantity.model_copy(update={"than": ("d",)}).evaluate(view)[1]
    assert str(reason) == "no preferences of units of A"
    with pytest.raises(
        UserError, match="total_variance: unknown block 'e': choose from a, b, c, d"
    ):
        quantity.model_copy(update={"than": ("e",)}).evaluate(view)


def test_lines_over_layers(pictures):
    axes = pictures("variance").axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == list(LAYERS)
    labels = [line.get_label() for line in axes.lines]
    assert labels == ["MNIST, FedMMD", "MNIST, FedAvg", "CIFAR-10, FedMMD", "CIFAR-10, FedAvg"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("block", "total variance")
    colours, marks = (
        [line.get_color() for line in axes.lines],
        [line.get_marker() for line in axes.lines],
    )
    # one for each series, whatever the experiment
    assert colours[:2] == colours[2:] and len(set(colours)) == 2
    assert len(set(marks)) == 4 and [line.is_dashed() for line in axes.lines] == [
        False,
        False,
        True,
        True,
    ]


def test_a_band_is_the_95_percent_interval(pictures):
    """For a variance of 1, the two seeds of FedMMD have 1 and 1.1, those of FedAvg 1.3 and 1.4."""
    axes = pictures("variance").axes[0]
    for line, band, middle in zip(axes.lines, axes.collections, (1.05, 1.35) * 2, strict=True):
        corners = band.get_paths()[0].vertices
        for x, mean in line.get_xydata():
            ends, by = (
                sorted(y for place, y in corners if place == x),
                mean / middle * 0.05 * 12.7062,
            )
            assert (ends[0], ends[-1]) == pytest.approx((mean - by, mean + by), rel=1e-4)


def test_lines_of_zeros_are_named(paper, evidence, results):
    rows = [{"block": "conv1", "variance": value} for value in (0, 0, 1e-13, 0.5, "")]
    for numbers, words in (
        (rows, "MNIST, FedMMD: 6 of 8 numbers are 0."),
        (rows[2:], ""),
        (neurons(), ""),
    ):
        found = spec.paper_data(paper, results | {"first-preferences": studied(numbers)}, {})
        text = paper.figures["variance"].caption(found)
        assert words in text and ("numbers are 0" in text) == bool(words)
        # of two series and seeds, beside those of the other experiment
        every = 4 * (len(numbers) + len(neurons()))
        assert (
            f"Left out: 4 of {every} rows, which have no variance." in text or numbers == neurons()
        )


def test_lines_over_rounds_are_means_over_a_runs_rows(results, pictures):
    axes = pictures("spread").axes[0]
    chosen = {"series": "FedAvg", "seed": "0", "round": "10"}.items()
    rows = [float(row["y"]) for row in results["first-tsne"].rows if chosen <= row.items()]
    drawn = dict(axes.lines[1].get_xydata().tolist())
    assert list(drawn) == [1, 10, 100] and drawn[10] == pytest.approx(sum(rows) / len(rows))


def test_images_of_maps(evidence, pictures):
    picture = pictures("tops")
    rows = [
        row
        for row in evidence.results["third-preferences"].rows
        if (row["series"], row["seed"]) == ("FedAvg", "0")
    ]
    values = {row["class"] for row in rows if row["block"] in ("conv1", "fc1")}
    colours = {
        value: to_rgb(colour) for value, colour in category_colours(sorted(values, key=int)).items()
    }
    for axes, block in zip(picture.axes, ("conv1", "fc1"), strict=True):
        image = axes.images[0].get_array()
        assert image.shape == (3, {"conv1": 8, "fc1": 32}[block], 3)
        assert (axes.get_xlabel(), axes.get_ylabel()) == (
            "unit",
            "client" if block == "conv1" else "",
        )
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            assert tuple(handle.get_facecolor()[0][:3]) == pytest.approx(
                colours[label.removeprefix("class ")]
            )
        for row in (row for row in rows if row["block"] == block):
            assert tuple(image[int(row["client"]), int(row["unit"])]) == pytest.approx(
                colours[row["class"]]
            )


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        (
            {"kind": "panels", "rows": [["alone", "none"]]},
            "figures.f.rows: unknown figure 'none': choose from alone, ot",
        ),
        ({"kind": "panels", "rows": [["grid"]]}, "unknown figure 'grid'"),
        ({"kind": "panels"}, "figures.f: rows: Field required"),
        (
            {
                "kind": "sweep",
                "panels": ["sweep"],
                "setting": "lr",
                "label": "r",
                "quantity": FINAL,
                "reference": ["FedX"],
            },
            "unknown series 'FedX'",
        ),
        (
            {
                "kind": "sweep",
                "panels": ["sweep"],
                "setting": "lr",
                "label": "r",
                "quantity": {"kind": "mean"},
            },
            "quantity.kind: unknown quantity 'mean'",
        ),
        (
            FIGURES["beta"] | {"setting": "algorithm.betta"},
            "figures.f.setting: 'algorithm.betta' of experiment 'sweep': no series states it",
        ),
        (FIGURES["beta"] | {"reference": list(BETAS)}, "no series states it"),
        (
            FIGURES["beta"] | {"panels": ["zero"], "reference": []},
            "figures.f.setting: 'algorithm.beta' of experiment 'zero': FedMAX 0: 0: a "
            "logarithmic axis has numbers ",
        ),
        (FIGURES["beta"] | {"setting": "series"}, "FedMAX 0.1: {'FedMAX 0.1': {'beta': 0.1}"),
        (FIGURES["leads"] | {"baseline": "FedX"}, "figures.f.baseline: unknown series 'FedX'"),
        (FIGURES["leads"] | {"needs": ["FedX"]}, "figures.f.needs: unknown series 'FedX'"),
        (
            {"kind": "bars", "panels": ["first"], "quantity": {"kind": "value"}},
            "needs last or round",
        ),
        (
            {"kind": "bars", "panels": ["first"], "quantity": {"kind": "epochs"}},
            "experiment 'first' has no newcomers",
        ),
        (
            FIGURES["points"] | {"experiment": "second"},
            "figures.f: experiment 'second' has no tsne",
        ),
        (
            FIGURES["points"] | {"colours": "class"},
            "figures.f: colours: unknown key: choose from experiment, kind, name",
        ),
        (
            FIGURES["variance"] | {"names": {"second": ""}},
            "figures.f.names: experiment 'second' has no preferences",
        ),
        (
            FIGURES["tops"] | {"series": ["FedX"]},
            "figures.f: unknown series 'FedX': choose from FedMMD, FedAvg",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_mistakes(figure, words, tmp_path):
    with pytest.raises(UserError) as caught:
        read(tmp_path, {"f": {"title": "t"} | figure})
    assert "workflow/papers/p/" in str(caught.value) and words in str(caught.value)


def test_a_column_that_the_study_does_not_have(paper, evidence):
    figure = paper.figures["spread"].model_copy(update={"y": "z"})
    with pytest.raises(
        UserError,
        match="Spread over rounds: no column 'z' in the study: choose from series, seed, run, "
        "round",
    ):
        _layout.compose(figure, evidence)


# ---- measures in other units


def test_a_loss_is_shown_in_nats_and_falls_to_its_target():
    found = curves()
    cell = {"kind": "difference", "series": "FedMMD", "baseline": "FedAvg", "last": 5}
    claim = {
        "text": "t",
        "source": "s",
        "experiment": "first",
        "measure": "test_loss",
        "reported": -0.1,
        "tolerance": 0.05,
    }
    verdict = decide("k", claims.parse_claim(claim | {"quantity": cell}, "t"), found, "test_loss")
    assert (verdict.reported, verdict.our_value) == ("-0.10 nats", "+0.00 ± 0.00 nats (n = 2)")
    reach = {"kind": "rounds_to", "series": "FedMMD", "target": 0.5}
    verdict = decide(
        "k", claims.parse_claim(claim | {"quantity": reach, "reported": 5}, "t"), found, "test_loss"
    )
    assert verdict.our_value == "5 ± 12.7 rounds (n = 2)"
    level = {"kind": "value", "series": "FedMMD", "last": 5}
    verdict = decide(
        "k",
        claims.parse_claim(claim | {"quantity": level, "reported": 0.12}, "t"),
        found,
        "test_loss",
    )
    assert (verdict.reported, verdict.our_value) == ("0.120 nats", "0.115 ± 0.000 nats (n = 2)")
    never = {"kind": "best", "series": "FedMMD", "target": 0.35}
    # 0.5 at best
    high = Results(
        found.note,
        [row | {"test_loss": str(0.385 + float(row["test_loss"]))} for row in found.rows],
    )
    assert (
        decide(
            "k",
            claims.parse_claim(claim | {"quantity": never, "reported": "never"}, "t"),
            high,
            "test_loss",
        ).status
        == "supported"
    )


def test_a_loss_reaches_its_plateau_from_above():
    """2.3, 1.0, 0.5, 0.4, 0.42: within 0.15 of the lowest at round 2."""
    found = made({"FedMMD": {0: [2.3, 1.0, 0.5, 0.4, 0.42]}})
    losses = Results(found.note, [row | {"test_loss": row["test_accuracy"]} for row in found.rows])
    cell = quantities.parse_quantity(
        {"kind": "rounds_to_plateau", "series": "FedMMD", "within": 0.15}, "t"
    )
    assert cell.evaluate(ExperimentView("first", DisplayOptions(measure="test_loss"), losses)) == (
        [2.0],
        [],
    )


def test_tables_of_a_loss(evidence):
    rounds = {"title": "t", "kind": "rounds_to_target", "baseline": "FedAvg"}
    panels = [
        {"experiment": "first", "measure": "test_loss", "target": {"paper": 0.5}, "name": "loss"}
    ]
    row = spec.parse_artifact("tables", rounds | {"panels": panels}, "t").build(evidence).rows[0]
    shown = [str(row[name]) for name in ("Target (nats)", "Rounds", "Final loss (nats)")]
    assert shown == ["0.5", "5.0 ± 12.7", "0.1150 ± 0.0000"]
    ended = spec.parse_artifact(
        "tables", {"title": "t", "kind": "convergence", "last": 20, "panels": panels}, "t"
    )
    grid = ended.build(evidence)
    assert [str(row["Series"]) for row in grid.rows] == ["FedMMD", "FedAvg"]
    assert "Mean of the last 20 rounds: test loss." in ended.description(evidence)
    printed = {"last": 1, "reported": {"FedMMD": {"loss": 0.4}, "FedAvg": {"loss": 0.5}}}
    grid = spec.parse_artifact(
        "tables", {"title": "t", "kind": "convergence", "panels": panels} | printed, "t"
    ).build(evidence)
    assert str(grid.rows[0]["loss, paper (nats)"]) == "0.4000"
    lowest = {"FedMMD": {0: 0.3, 1: 0.3}, "FedAvg": {0: 0.5, 1: 0.5}, "L2": {0: 0.4, 1: 0.4}}
    found = made({label: dict.fromkeys(own, [0.1, 0.1]) for label, own in lowest.items()})
    for row in found.rows:
        row["test_loss"] = str(lowest[row["series"]][int(row["seed"])])
    for kind, options in (
        ("convergence", {"last": 1, "improvement": "FedMMD"}),
        ("rounds_to_target", {"baseline": "FedAvg"}),
    ):
        table = spec.parse_artifact(
            "tables", {"title": "t", "kind": kind, "panels": panels} | options, "t"
        )
        grid = table.build(replace(evidence, results={**evidence.results, "first": found}))
        if kind == "convergence":
            # below L2, the lowest of the others
            assert str(grid.rows[-1]["loss (nats)"]) == "\N{MINUS SIGN}0.1000 ± 0.0000"
        else:
            column = list(grid.rows[0]).index("Final loss (nats)")
            assert [place for place in grid.best_cells if place[1] == column] == [(0, column)]


def test_an_experiments_target_belongs_to_its_own_measure(evidence):
    """A figure of another measure shows neither its target nor its curves."""
    panel = evidence.panel(spec.ExperimentRef(experiment="first", measure="test_loss"))
    assert (
        panel.target is None
        and evidence.panel(spec.ExperimentRef(experiment="first")).target == 0.9
    )


BROKEN = r"$\frac{1}$"  # matplotlib raises ValueError where it reads this as mathematics


def renamed(value):
    """Replace each FedAvg by a name that is no valid mathematics."""
    return json.loads(json.dumps(value).replace("FedAvg", json.dumps(BROKEN)[1:-1]))


@pytest.mark.parametrize("key", FIGURES)
def test_broken_mathematics_in_any_name_is_drawn_as_text(key, paper, evidence, results):
    """In the labels of series, and the titles and names of figures, panels and axes."""
    figures = {}
    for name, figure in paper.figures.items():
        asked = renamed(figure.model_dump(mode="json", exclude_none=True)) | {"title": BROKEN}
        changed = {
            field: BROKEN
            for field in ("name", "label", "axis")
            if isinstance(asked.get(field), str)
        }
        figures[name] = spec.parse_artifact("figures", asked | changed, "test")
    found = {name: Results(renamed(one.note), renamed(one.rows)) for name, one in results.items()}
    looks = {
        name: {renamed(label): look for label, look in own.items()}
        for name, own in evidence.styles.items()
    }
    picture = _layout.compose(
        figures[key], replace(evidence, results=found, figures=figures, styles=looks)
    )
    picture.canvas.draw()
    assert not [
        text
        for text in picture.findobj(Text)
        if r"\frac" in text.get_text() and text.get_parse_math()
    ]
    unnamed = ("absent",)
    assert key in unnamed or any(r"\frac" in text.get_text() for text in picture.findobj(Text))


def test_broken_mathematics_in_the_names_of_classes_is_drawn_as_text(tmp_path):
    _layout.set_print_style()
    picture = _partition_heatmap.heatmap(np.ones((3, 2), int), [BROKEN, "other"], BROKEN)
    picture.savefig(tmp_path / "map.png")
    assert [text.get_text() for text in picture.axes[0].get_xticklabels()] == [BROKEN, "other"]


LEAKS = {
    "savefig.bbox": "tight",
    "savefig.facecolor": "black",
    "savefig.transparent": True,
    "text.usetex": True,
}
LEAKS |= {
    "pdf.compression": 0,
    "axes.titlepad": 30,
    "legend.fancybox": False,
    "figure.autolayout": True,
}


def test_a_matplotlibrc_changes_no_figure(paper, results, tmp_path):
    """Nor a heat map: the settings are the pipeline's, whatever the user set for other figures."""
    made = []
    for folder, options in ((tmp_path / "plain", {}), (tmp_path / "changed", LEAKS)):
        store(results["first"], folder / "data", "first")
        with _layout.matplotlib.rc_context(options):
            artifacts.write_artifacts(paper, ["alone"], folder)
        with _layout.matplotlib.rc_context(options):
            _layout.set_print_style()
            _partition_heatmap.heatmap(np.ones((3, 2), int), ["a", "b"], "t").savefig(
                folder / "map.png"
            )
        made.append({path.name: path.read_bytes() for path in sorted(folder.rglob("*.[ps][dnv]*"))})
    assert (
        list(made[0]) == ["alone.pdf", "alone.png", "alone.svg", "map.png"] and made[0] == made[1]
    )


def test_a_dollar_in_a_name_is_no_mathematics():
    figure = _layout.new_figure(6, 4)
    axes = figure.subplots()
    axes.set(xscale="log", title="cost $a$ or $b$", ylabel="$y$")
    axes.plot([1, 1000], [1, 2], label="$x_1$")
    legend = axes.legend()
    _layout.disable_math(figure)
    assert not any(
        text.get_parse_math() for text in (axes.title, axes.yaxis.label, *legend.get_texts())
    )
    figure.canvas.draw()
    assert (
        all(text.get_parse_math() for text in axes.get_xticklabels())
        and "10^" in axes.get_xticklabels()[2].get_text()
    )
