"""Tables of convergence, of several targets and of bytes, in the figure's own metric: every number
worked out by hand."""

import csv
import json

import pytest

import support.paper
from fedrepro.core.errors import UserError
from fedrepro.report import artifacts
from fedrepro.report import paper as spec
from fedrepro.report.documents import build as page
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentRef
from fedrepro.report.tables.base import Table
from fedrepro.report.verdicts import claim as claims
from fedrepro.report.verdicts.decide import decide
from support.results import made, store
from support.tables import (
    OWN,
    REPORTED,
    ROUNDS,
    SERIES,
    SPEC,
    TABLE2,
    A,
    B,
    evidence,
    own,
    paper,
    reaches,
    read,
    table,
)


def build(table: Table, curves: dict | None = None, **results) -> list[dict]:
    """Return the rows as printed, with a star behind the best number."""
    grid = table.build(evidence(curves, **results))
    return [
        {
            name: text + " *" * ((i, j) in grid.best_cells)
            for j, (name, text) in enumerate(zip(grid.columns, row, strict=True))
        }
        for i, row in enumerate(grid.text_rows())
    ]


# ---- convergence

ENDS = table(title="Ends", kind="convergence", panels=["a", "b"], last=2, reported=REPORTED)


def test_convergence_by_hand():
    fedavg, conv, multi = build(ENDS, a=A, b=B)
    assert fedavg == {
        "Series": "FedAvg",
        "a (%)": "83.00 ± 12.71",  # 82 and 84: 12.706 x sqrt 2 / sqrt 2
        "a, paper (%)": "89.89",
        "b (%)": "80.00",  # 70 and 90 in rounds 1 and 2; conv has the same
        "b, paper (%)": "92.21",
    }
    assert (conv["a (%)"], conv["b (%)"]) == ("88.00 ± 25.41", "80.00")  # 86 and 90
    assert (conv["a, paper (%)"], conv["b, paper (%)"]) == ("90.11", "92.53")
    assert multi["a (%)"] == "99.00"  # not the best: it lost a run
    assert (multi["a, paper (%)"], multi["b (%)"], multi["b, paper (%)"]) == ("90.51", "-", "-")


def test_deviations_that_the_paper_prints():
    asked = ENDS.model_copy(update={"deviations": {"FedAvg": {"a": 0.0012}}})
    fedavg, conv, _ = build(asked, a=A, b=B)
    assert (fedavg["a, paper (%)"], fedavg["b, paper (%)"], conv["a, paper (%)"]) == (
        "89.89 ± 0.12",
        "92.21",
        "90.11",
    )
    assert "In grey, the paper's values, ± their standard deviation." in asked.notes(
        evidence(a=A, b=B)
    )
    columns, first, *_ = asked.build(evidence(a=A, b=B)).csv_rows()
    # no half width: no interval
    assert dict(zip(columns, first, strict=True))["a_paper_percent_deviation"] == "0.12"
    assert not {"a_paper_percent_half_width", "b_paper_percent_deviation"} & set(columns)
    assert "standard deviation" not in asked.notes(
        evidence(a=own(made({"FedAvg": {0: [0.1, 0.5]}}, "none")), b=B)
    )


def test_the_row_of_improvements_by_hand():
    asked = ENDS.model_copy(update={"improvement": "conv"})
    *series, last = build(asked, a=A, b=B)
    assert series == build(ENDS, a=A, b=B)  # marks stay with the series
    assert last == {
        "Series": "conv above the best other",
        "a (%)": "+5.00 ± 12.71",  # 86 - 82 and 90 - 84; multi lost a run
        "a, paper (%)": "\N{MINUS SIGN}0.40",  # 90.11 - 90.51
        "b (%)": "+0.00",
        "b, paper (%)": "+0.32",
    }
    assert (
        "conv above the best other: the other series with the best mean, compared seed by seed."
        in asked.notes(evidence(a=A, b=B))
    )
    nothing = made({}, skipped="why")
    assert build(asked, a=nothing, b=nothing) == []


def test_a_table_measures_the_rounds_of_its_claims():
    small = own(made({"FedAvg": {0: [0.1, 0.2, 0.6, 0.8]}}, "direction"))
    asked = table(kind="convergence", panels=["a"], last=3, last_at={"small": 1})
    [row] = build(asked, a=small)
    assert row["a (%)"] == "80.00" and "Mean of the last round: " in asked.notes(evidence(a=small))


def test_reported_accuracies_wherever_directions_may_be_compared():
    series = {"FedAvg": {0: [0.1, 0.5, 0.7]}, "conv": {0: [0.1, 0.5, 0.8]}}
    asked = table(
        kind="convergence",
        panels=["a"],
        last=1,
        reported={"FedAvg": {"a": 0.9}, "conv": {"a": 0.8}},
    )
    assert "a, paper (%)" not in build(asked, a=own(made(series, "none")))[0]
    found = evidence(a=own(made(series, "direction")))
    assert [row["a, paper (%)"].value_text for row in asked.build(found).rows] == ["90.00", "80.00"]
    assert (
        "In grey, the paper's values; they are of its own settings, so that only directions can "
        "be compared." in asked.notes(found)
    )


def test_convergence_of_what_was_not_run():
    gone = made({}, skipped="no time")
    row = build(ENDS, a=gone, b=B)[0]
    assert row == {"Series": "FedAvg", "b (%)": "80.00", "b, paper (%)": "92.21"}
    assert build(ENDS, a=gone, b=gone) == []
    assert ENDS.notes(evidence(a=gone, b=B)).split(". ")[2] == "Not run: a (no time)"
    assert ENDS.description(evidence(a=gone, b=gone)) == "Not run: a, b (no time). Scale paper."
    lost = own(made({"FedAvg": {0: [0.1, 0.5]}}, lost={("FedAvg", 0): "diverged at round 1"}))
    asked = table(kind="convergence", panels=["a"], last=2)
    assert build(asked, a=lost) == [{"Series": "FedAvg", "a (%)": "-"}]
    assert "a, FedAvg: seed 0 diverged at round 1." in asked.notes(evidence(a=lost))
    assert asked.caption(evidence(a=lost)) == "t."


def test_the_untrained_model_is_never_part_of_the_end():
    asked = table(kind="convergence", panels=["b"], last=9)
    assert build(asked, b=B)[0]["b (%)"] == "80.00"  # two rounds of nine
    assert "b has only 2 rounds, all of which count." in asked.description(evidence(b=B))


def test_a_panel_has_its_name_in_the_paper():
    named = paper().model_copy(
        update={
            "experiments": {"a": DisplayOptions(name="Fig. 1", about="two clients", measure=OWN)}
        }
    )
    found = spec.paper_data(named, {"a": A, "b": B}, {})
    asked = table(title="Ends", kind="convergence", panels=["a"], last=2)
    assert asked.build(found).columns == ["Series", "Fig. 1 (%)"]
    assert asked.caption(found).startswith(
        "Ends. Fig. 1: MNIST, two clients. n = 2 seeds (multi: 1); "
    )
    assert "Fig. 1: MNIST" not in asked.notes(found)
    assert ENDS.caption(found).startswith("Ends. n = ") and ENDS.notes(found).startswith(
        "Fig. 1: MNIST, two clients. Mean"
    )
    other = ExperimentRef(experiment="a", measure="test_accuracy")
    assert (found.panel(other).name, found.panel(other.model_copy(update={"name": "x"})).name) == (
        "Fig. 1",
        "x",
    )


@pytest.mark.parametrize(("counts", "text"), [
    ({"a": [3, 3], "b": [3, 3]}, "n = 3 seeds; "),
    ({"a": [3, 3], "b": [1, 1]}, "n = 3 seeds (b: 1); "),
    ({"a": [3, 3], "b": [3, 2]}, "n = 3 seeds (conv of b: 2); "),
    ({"a": [1, 1], "b": [1, 1]}, "n = 1 seed, so without intervals."),
])  # fmt: skip
def test_captions_name_the_number_of_seeds_once(counts, text):
    panels = {
        name: own(
            made(
                {
                    label: dict.fromkeys(range(count), [0.1, 0.5])
                    for label, count in zip(("FedAvg", "conv"), both, strict=True)
                }
            )
        )
        for name, both in counts.items()
    }
    assert (
        table(kind="convergence", panels=["a", "b"], last=1)
        .caption(evidence(**panels))
        .startswith(f"t. {text}")
    )


# ---- several targets


def test_two_targets_by_hand():
    found = build(table(**ROUNDS, reported=TABLE2), a=own(made(SERIES)))
    keys = (
        "Series",
        "Target (%)",
        "Rounds",
        "Saved vs FedAvg (%)",
        "Paper's rounds",
        "Paper's saving (%)",
    )
    assert [tuple(row[key] for key in keys) for row in found] == [
        ("FedAvg", "94", "10.0 ± 0.0", "-", "100", "-"),
        ("conv", "94", "4.5 ± 6.4", "55.0 ± 63.5", "34", "66.0"),  # 50 % and 60 %; 1 - 34 / 100
        ("single", "94", "8.0 ± 0.0", "20.0 ± 0.0", "-", "-"),
        ("FedAvg", "95", "18.0 ± 25.4", "-", "256", "-"),
        ("conv", "95", "9.0 ± 12.7", "50.0 ± 0.0", "92", "64.1"),  # 1 - 92 / 256
        ("single", "95", "20.0 (1 of 2 seeds reaches the target)", "-", "-", "-"),
    ]
    # 94.2 and 95
    assert "Rounds, mean of 1" not in found[0] and found[0]["Final accuracy (%)"] == "94.60 ± 5.08"


def test_savings_that_the_paper_reports_without_rounds():
    asked = table(**ROUNDS, savings={"conv": {"a": 0.472}}, savings_from="its text")
    found = build(asked, a=own(made(SERIES)))
    text = [
        (row["Series"], row["Saved vs FedAvg (%)"], row["Paper's saving (%)"]) for row in found[:3]
    ]
    assert text == [
        ("FedAvg", "-", "-"),
        ("conv", "55.0 ± 63.5", "47.2"),
        ("single", "20.0 ± 0.0", "-"),
    ]
    notes = asked.notes(evidence(a=own(made(SERIES))))
    assert (
        "In grey, the paper's saving: its text. " in notes
        and "paper's rounds" not in notes
        and "Paper's rounds" not in found[0]
    )
    assert all(
        "Paper's" not in name
        for row in build(asked, a=own(made(SERIES, "direction")))
        for name in row
    )


def test_one_that_only_some_seeds_reach_is_never_the_best():
    series = {
        "FedAvg": {0: reaches(9, None), 1: reaches(9, None)},
        "conv": {0: reaches(3, None), 1: reaches(None, None)},
    }
    series |= {"multi": {0: reaches(11, None), 1: reaches(11, None)}}
    asked = table(
        kind="rounds_to_target", panels=["a"], baseline="FedAvg", targets={"paper": [0.94]}
    )
    found = build(asked, a=own(made(series)))
    assert [row["Rounds"] for row in found] == [
        "9.0 ± 0.0 *",
        "3.0 (1 of 2 seeds reaches the target)",
        "11.0 ± 0.0",
    ]


def test_a_table_without_targets_takes_the_experiments():
    one = {"FedAvg": {0: reaches(3, 6)}}
    asked = table(**ROUNDS, reported={"FedAvg": [1, 2]})
    assert [row["Paper's rounds"] for row in build(asked, a=own(made(one)))] == ["1", "2"]
    for compare, expected in (("direction", ["50"]), ("none", [])):
        found = build(asked, a=own(made(one, compare)))
        assert [row["Target (%)"] for row in found] == expected
        assert all("Paper's" not in name for row in found for name in row)
    assert "No target at this scale: a." in asked.notes(evidence(a=own(made(one, "none"))))
    plain = table(kind="rounds_to_target", panels=["a"], baseline="FedAvg")
    assert [(row["Target (%)"], row["Rounds"]) for row in build(plain, a=own(made(one)))] == [
        ("90", "3")
    ]


# ---- bytes


def sends(found: Results, **factors: float) -> Results:
    """Multiply what some series receive; what they send stays the same."""
    for row in found.rows:
        row["bytes_down"] = str(round(factors.get(row["series"], 1) * int(row["bytes_down"])))
    for label, factor in factors.items():
        for run in found.note["series"][label]["runs"]:
            run["bytes_down"] = round(factor * run["bytes_down"])
            run["weights"] += 1
    return found


def test_communication_by_hand():
    """Runs of `made` receive 1,500,000 bytes and send 500,000 in a round, here with five
    participants."""
    found = sends(own(made(SERIES, clients_per_round=5)), conv=1.2, single=1.00002)
    asked = table(
        kind="communication", panels=["a"], baseline="FedAvg", targets={"paper": [0.94, 0.95]}
    )
    rows = build(asked, a=found)
    fedavg = {
        "Panel": "a",
        "Series": "FedAvg",
        "Weights": "10",
        "Bytes down": "300000",
        "Bytes up": "100000",
    }
    # 10 rounds of 2 MB
    fedavg |= {"More than FedAvg (%)": "-", "Target (%)": "94", "MB to target": "20.00 ± 0.00"}
    assert rows[0] == fedavg
    conv, single = rows[1:3]
    assert (conv["Weights"], conv["Bytes down"], conv["Bytes up"]) == ("11", "360000", "100000")
    assert conv["More than FedAvg (%)"] == "+15.0000"  # 460 to 400 kB
    assert conv["MB to target"] == "10.35 ± 14.61"  # 5 and 4 rounds of 2.3 MB
    # 6 of 400,000 bytes
    assert (single["Bytes down"], single["More than FedAvg (%)"]) == ("300006", "+0.0015")
    assert [row["Target (%)"] for row in rows] == ["94"] * 3 + ["95"] * 3
    # 20, 16; 10 and 8 rounds
    assert (rows[3]["MB to target"], rows[4]["MB to target"]) == ("36.00 ± 50.82", "20.70 ± 29.22")
    # 20 rounds of 2.00003 MB
    assert rows[5]["MB to target"] == "40.00 (1 of 2 seeds reaches the target)"


def test_bytes_to_a_target_are_those_of_the_rounds_up_to_it():
    """Rounds of a run may differ, such as those in which importance is sent."""
    found = own(made({"FedAvg": {0: [0.1, 0.5, 0.96], 1: [0.1, 0.96, 0.96]}}, clients_per_round=5))
    for row in found.rows:
        row["bytes_down"] = str(1_000_000 * int(row["round"]) * (1 + int(row["seed"])))
    [row] = build(
        table(kind="communication", panels=["a"], baseline="FedAvg", targets={"paper": [0.95]}),
        a=found,
    )
    # 1 + 2 + twice 0.5, and 2 + 0.5: 4 and 2.5 by hand, t = 12.706
    assert row["MB to target"] == "3.25 ± 9.53"
    spike = made({"FedAvg": {0: [0.1, 0.96, 0.5, 0.96, 0.96]}}, clients_per_round=5)
    for smooth, text in ((1, "2.00"), (2, "8.00")):  # of 2 MB a round: four rounds as means of two
        asked = table(
            kind="communication",
            panels=["b"],
            baseline="FedAvg",
            targets={"paper": [0.95]},
            smooth=smooth,
        )
        assert build(asked, b=spike)[0]["MB to target"] == text


def test_multiply_adds_where_they_were_counted():
    """A multiply-add is two operations; results of code that did not count them have no such
    column."""
    found = own(made(SERIES, clients_per_round=5))
    asked = table(kind="communication", panels=["a"], baseline="FedAvg")
    assert "Multiply-adds" not in build(asked, a=found)[
        0
    ] and "Multiply-adds" not in asked.description(evidence(a=found))
    for run in found.runs("FedAvg"):
        run["operations"] = 2_469_134
    assert sorted(row["Multiply-adds"] for row in build(asked, a=found)) == ["-", "-", "1.235"]
    assert "Multiply-adds: millions per image" in asked.description(evidence(a=found))


def test_weights_that_differ_between_seeds_are_all_shown():
    """As in networks that grow."""
    found = own(made(SERIES, clients_per_round=5))
    found.runs("conv")[1]["weights"] = 12
    rows = build(table(kind="communication", panels=["a"], baseline="FedAvg"), a=found)
    assert [row["Weights"] for row in rows] == ["10", "10, 12", "10"]


def test_bytes_without_a_target_and_of_lost_runs():
    asked = table(kind="communication", panels=["b"], baseline="FedAvg")
    series = {"FedAvg": {0: [0.1, 0.2]}, "conv": {0: [0.1, 0.5]}}
    first, second = build(
        asked, b=made(series, clients_per_round=2, lost={("conv", 0): "diverged at round 1"})
    )
    assert (
        "Target (%)" not in first
        and "MB to target" not in first
        and first["Bytes down"] == "750000"
    )
    assert (second["Bytes up"], second["More than FedAvg (%)"]) == ("250000", "+0.0000")
    assert build(asked, b=made({}, skipped="why")) == []
    never = table(
        kind="communication", panels=["b"], baseline="FedAvg", targets={"paper": [0.9]}, smooth=2
    )
    assert build(never, b=made(series, clients_per_round=2))[0]["MB to target"] == "never"


def claim(cell: dict, **values):
    cell = {"series": "conv", "baseline": "FedAvg"} | cell
    cell = {key: value for key, value in cell.items() if value is not None}
    return claims.parse_claim(
        {"text": "t", "source": "s", "experiment": "a", "quantity": cell} | values, "test"
    )


def test_small_differences_show_both_their_digits():
    results = own(made({"conv": {0: [0, 0.9059]}, "FedAvg": {0: [0, 0.9]}}))
    found = decide(
        "k",
        claim({"kind": "difference", "last": 1}, reported=0.0062, tolerance=0.003),
        results,
        OWN,
    )
    assert (found.reported, found.our_value, found.status) == (
        "+0.62 points",
        "+0.59 points (1 seed)",
        "open",
    )
    assert found.reasons[-1].values == {"gap": "0.03 points", "allowed": "0.30 points"}
    found = decide(
        "k", claim({"kind": "difference", "last": 1}, reported=0.006, tolerance=0.003), results, OWN
    )
    assert (found.reported, found.our_value) == ("+0.6 points", "+0.6 points (1 seed)")


# ---- files and settings


def test_files_and_documents(tmp_path):
    given, data = read(tmp_path, SPEC), tmp_path / "p" / "data"
    store(own(made(SERIES, clients_per_round=5)), data, "first")
    store(B, data, "second")
    artifacts.write_artifacts(given, given.artifacts, tmp_path / "p")
    page.write_documents({"p": given}, tmp_path, {})
    assert (
        json.loads((tmp_path / "p" / "tables" / "verdicts.json").read_text())[0]["ours"]
        == "50.0 ± 0.0 % (n = 2)"
    )
    with (tmp_path / "p" / "tables" / "table1.csv").open(encoding="utf-8", newline="") as file:
        first = next(csv.DictReader(file))
    # 94.5, 95
    assert (first["a_percent"], first["a_percent_half_width"], first["a_percent_n"]) == (
        "94.75",
        "3.176551",
        "2",
    )
    assert first["a_paper_percent"] == "89.89" and "a_paper_percent_n" not in first
    shown = (tmp_path / "p" / "index.html").read_text(encoding="utf-8")
    for words in (
        '<td class="number">66.0</td>',
        "In grey, the paper&#39;s rounds, as printed.",
        '<td class="number">300000</td>',
        "<dt>Runs</dt>",
        '<td class="number">34</td>',
    ):
        assert words in shown


def changed(table: str, **values) -> dict:
    return SPEC | {"tables": SPEC["tables"] | {table: SPEC["tables"].get(table, {}) | values}}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (changed("table1", last=None), "tables.table1: last: Input should be a valid integer"),
        (
            changed("table1", smooth=3),
            "tables.table1: smooth: unknown key: choose from baseline, deviations",
        ),
        (
            changed("table1", reported={"FedX": {"a": 0.9}}),
            "unknown series 'FedX': choose from FedAvg, conv",
        ),
        (
            changed("table1", reported={"FedAvg": {"c": 0.9}}),
            "table1.reported: unknown panel of this table 'c': choose from a, b",
        ),
        (
            changed("table1", reported={"FedAvg": {"a": 89.9}}),
            "table1.reported.FedAvg.a: own-test accuracy after local training i",
        ),
        (
            changed("table1", reported={"FedAvg": [1]}),
            "tables.table1: reported.FedAvg: Input should be a valid dictionary",
        ),
        (
            changed("table2", reported={"FedAvg": {"a": 1}}),
            "tables.table2: reported.FedAvg: Input should be a valid tuple",
        ),
        (
            changed("table2", reported={"FedAvg": [100]}),
            "table2.reported.FedAvg: needs one number for each target at scale paper",
        ),
        (
            changed("table2", reported={"FedAvg": [0, 1]}),
            "tables.table2: reported.FedAvg.0: Input should be greater than",
        ),
        (
            changed("table2", panels=["first", "second"]),
            "reported: numbers of rounds need a table of one panel",
        ),
        (
            changed("table2", targets={"papr": [0.9, 0.9]}),
            "tables.table2.targets: unknown scale 'papr'",
        ),
        (changed("bytes", baseline=None), "tables.bytes: baseline: Input should be a valid string"),
        (changed("bytes", last=3), "tables.bytes: last: unknown key"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)
def test_mistakes_in_tables(values, words, tmp_path):
    with pytest.raises(UserError) as caught:
        read(tmp_path, values)
    assert "workflow/papers/p/" in str(caught.value) and words in str(caught.value)


def test_bytes_of_one_participant_need_one_number_of_participants(tmp_path):
    other = {"two": {"name": "fedavg", "overrides": {"clients_per_round": 2}}}
    with pytest.raises(
        UserError, match="tables.bytes.panels: first: two has its own clients_per_round"
    ):
        read(tmp_path, SPEC, other)


def test_identity_follows_what_is_drawn_and_the_curves(tmp_path):
    old = support.paper.read(tmp_path, support.paper.PAPER)
    title = {"one": old.figures["one"].model_copy(update={"title": "else"})}
    target = {"first": old.experiments["first"].model_copy(update={"target": {"paper": 0.5}})}
    before = spec.spec_digest(old)
    assert spec.spec_digest(old.model_copy()) == before
    for changes in ({"figures": old.figures | title}, {"experiments": old.experiments | target}):
        assert spec.spec_digest(old.model_copy(update=changes)) != before
    (tmp_path / "workflow/papers/p/curves.json").write_text('{"x": [[1], [0.5]]}', encoding="utf-8")
    assert spec.spec_digest(old) != before


# ---- above a baseline


def test_values_above_a_baseline_by_hand():
    """Two seeds with 5 and 7 points: 6 ± 12.706 x sqrt 2 / sqrt 2; a series with a diverged run has
    no number."""
    ends = {"FedAvg": (0.7, 0.8), "one": (0.75, 0.87), "two": (0.7, 0.78)}
    series = {
        label: {seed: [0.1, value] for seed, value in enumerate(values)}
        for label, values in ends.items()
    }
    asked = table(kind="convergence", panels=["b"], last=1, baseline="FedAvg")
    column = "b, above FedAvg (points)"
    assert [row[column] for row in build(asked, b=made(series))] == [
        "-",
        "+6.00 ± 12.71",
        "\N{MINUS SIGN}1.00 ± 12.71",
    ]
    lost = made(series, lost={("two", 1): "diverged at round 1"})
    assert [row[column] for row in build(asked, b=lost)] == ["-", "+6.00 ± 12.71", "-"]
