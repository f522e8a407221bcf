"""Tables of convergence, of several targets and of bytes, in the figure's own metric: every number worked out by hand."""

import csv
import json
from pathlib import Path

import pytest
import yaml
from test_results import made

from fedrepro.config import Params, parse
from fedrepro.errors import UserError
from fedrepro.report import artifacts, page, spec
from fedrepro.report.evidence import Evidence
from fedrepro.report.figures import curves
from fedrepro.report.loading import Results
from fedrepro.report.spec import Paper
from fedrepro.report.tables.base import Table
from fedrepro.report.verdicts import decide

OWN = "personal_accuracy"


def own(found: Results) -> Results:
    """The accuracies as those after local training, which round 0 does not have; the global model's are all the same."""
    rows = [row | {OWN: row["test_accuracy"] if row["round"] != "0" else "", "test_accuracy": "0.33"} for row in found.rows]
    return Results(found.note, rows)


def paper() -> Paper:
    """Experiments a and b, in the measures of Fig. 5 and of Fig. 4."""
    shown = {"a": {"measure": OWN, "target": {"paper": 0.9}}}
    figures = {name: curves.Figure(title=name.upper(), kind="curves", experiment=name) for name in "ab"}
    values = {"title": "p", "reference": "r", "experiments": shown, "figures": figures, "tables": {}, "claims": {}}
    return parse(Paper, values, "test")


def evidence(curves: dict | None = None, **results) -> Evidence:
    return spec.evidence(paper(), results, curves or {})


def table(**values) -> Table:
    return spec.of_kind("tables", {"title": "t"} | values, "test")


def build(table: Table, curves: dict | None = None, **results) -> list[dict]:
    rows = table.build(evidence(curves, **results))
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name, "") for name in columns} for row in rows]


# ---- convergence

REPORTED = {"FedAvg": {"a": 0.8989, "b": 0.9221}, "conv": {"a": 0.9011, "b": 0.9253}, "multi": {"a": 0.9051}}
ENDS = table(title="Ends", kind="convergence", panels=["a", "b"], last=2, reported=REPORTED)
A = own(made({
    "FedAvg": {0: [0.1, 0.5, 0.80, 0.84], 1: [0.1, 0.6, 0.80, 0.88]},
    "conv": {0: [0.1, 0.5, 0.85, 0.87], 1: [0.1, 0.6, 0.90, 0.90]},
    "multi": {0: [0.1, 0.5, 0.99, 0.99], 1: [0.1, 0.9, 0.99, 0.99]},
}, lost={("multi", 1): "diverged at round 2"}))  # fmt: skip
B = made({"FedAvg": {0: [0.1, 0.7, 0.9]}, "conv": {0: [0.1, 0.8, 0.8]}})


def test_convergence_by_hand():
    fedavg, conv, multi = build(ENDS, a=A, b=B)
    assert fedavg == {
        "Series": "FedAvg",
        "a (%)": "83.00 ± 1.41 (n = 2)",  # 82 and 84
        "a, paper (%)": "89.89",
        "b (%)": "80.00 (n = 1) *",  # 70 and 90 in rounds 1 and 2; conv has the same
        "b, paper (%)": "92.21",
    }
    assert (conv["a (%)"], conv["b (%)"]) == ("88.00 ± 2.83 (n = 2) *", "80.00 (n = 1) *")  # 86 and 90
    assert (conv["a, paper (%)"], conv["b, paper (%)"]) == ("90.11", "92.53 *")
    assert multi["a (%)"] == "99.00 (n = 1); seed 1 diverged at round 2"  # not the best: it lost a run
    assert (multi["a, paper (%)"], multi["b (%)"], multi["b, paper (%)"]) == ("90.51 *", "-", "-")


@pytest.mark.parametrize("compare", ["none", "direction"])
def test_reported_accuracies_only_where_they_may_be_compared(compare):
    found = own(made({"FedAvg": {0: [0.1, 0.5, 0.7]}, "conv": {0: [0.1, 0.5, 0.8]}}, compare))
    asked = table(kind="convergence", panels=["a"], last=1, reported={"FedAvg": {"a": 0.9}, "conv": {"a": 0.8}})
    assert [row["a, paper (%)"] for row in build(asked, a=found)] == ["-", "-"]
    assert [row["a (%)"] for row in build(asked, a=found)] == ["70.00 (n = 1)", "80.00 (n = 1) *"]
    assert "a, paper (%)" not in build(table(kind="convergence", panels=["a"], last=1), a=found)[0]


def test_convergence_of_what_was_not_run():
    gone = made({}, skipped="no time")
    row = build(ENDS, a=gone, b=B)[0]
    assert (row["a (%)"], row["a, paper (%)"], row["b (%)"]) == ("not run", "89.89", "80.00 (n = 1) *")
    assert build(ENDS, a=gone, b=gone) == [{"Series": "not run"}]
    assert ENDS.remark(evidence(a=gone, b=gone)).startswith("a was not run: no time. b was not run: no time. Sc")
    lost = own(made({"FedAvg": {0: [0.1, 0.5]}}, lost={("FedAvg", 0): "diverged at round 1"}))
    assert build(table(kind="convergence", panels=["a"], last=2), a=lost)[0] == {
        "Series": "FedAvg",
        "a (%)": "seed 0 diverged at round 1",
    }


def test_the_untrained_model_is_never_part_of_the_end():
    asked = table(kind="convergence", panels=["b"], last=9)
    assert build(asked, b=B)[0]["b (%)"].startswith("80.00 ")  # two rounds of nine
    assert "b has 2 rounds only, all of which count." in asked.remark(evidence(b=B))


def test_what_the_caption_of_a_table_tells():
    assert ENDS.caption(evidence(a=A, b=B)) == (
        "Ends. Mean of the last 2 rounds: the participants' mean own-test accuracy after local training (a), test accuracy (b)."
        " * is the best of its column, of the series that lost no run. Means over n = 1 to 2 seeds, ± one standard deviation. "
        "Data: MNIST (official release). Scale paper: how scale paper is."
    )
    asked = table(title="Which one?", kind="convergence", panels=["b"], last=1)
    assert asked.caption(evidence(b=B)).startswith("Which one? Mean of the last round: test accuracy.")


# ---- several targets


def reaches(first: int | None, second: int | None, rounds: int = 20) -> list[float]:
    """94 % in the first of two rounds, 95 % in the second, to stay there."""
    steps = [(second, 0.95), (first, 0.94), (0, 0.5)]
    return [next(value for start, value in steps if start is not None and r >= start) for r in range(rounds + 1)]


TARGETS = {"paper": [0.94, 0.95], "small": [0.5]}
ROUNDS = {"kind": "rounds_to_target", "panels": ["a"], "baseline": "FedAvg", "targets": TARGETS}
TABLE2 = {"FedAvg": [100, 256], "conv": [34, 92]}
SERIES = {
    "FedAvg": {0: reaches(10, 20), 1: reaches(10, 16)},
    "conv": {0: reaches(5, 10), 1: reaches(4, 8)},
    "single": {0: reaches(8, None), 1: reaches(8, 20)},
}


def test_two_targets_by_hand():
    found = build(table(**ROUNDS, reported=TABLE2), a=own(made(SERIES)))
    keys = ("Series", "Target (%)", "Rounds", "Saved vs FedAvg", "Paper's rounds", "Paper's saving")
    assert [tuple(row[key] for key in keys) for row in found] == [
        ("FedAvg", "94", "10.0 ± 0.0", "-", "100", "-"),
        ("conv", "94", "4.5 ± 0.7", "55.0 ± 7.1 %", "34", "66.0 %"),  # 50 % and 60 %; 1 - 34 / 100
        ("single", "94", "8.0 ± 0.0", "20.0 ± 0.0 %", "-", "-"),
        ("FedAvg", "95", "18.0 ± 2.8", "-", "256", "-"),
        ("conv", "95", "9.0 ± 1.4", "50.0 ± 0.0 %", "92", "64.1 %"),  # 1 - 92 / 256
        ("single", "95", "20.0 (1 of 2 seeds)", "-", "-", "-"),
    ]
    assert "Rounds, mean of 1" not in found[0] and found[0]["Final accuracy (%)"] == "94.60 ± 0.57"  # 94.2 and 95


def test_the_tables_targets_else_the_figures():
    one = {"FedAvg": {0: reaches(3, 6)}}
    asked = table(**ROUNDS, reported={"FedAvg": [1, 2]})
    for compare, expected in (("direction", ["50"]), ("none", [])):
        found = [row for row in build(asked, a=own(made(one, compare))) if "Target (%)" in row]
        assert [row["Target (%)"] for row in found] == expected
        assert all(row["Paper's rounds"] == row["Paper's saving"] == "-" for row in found)
    assert build(asked, a=own(made(one, "none"))) == [{"Panel": "a", "Series": "no target at this scale"}]
    plain = table(kind="rounds_to_target", panels=["a"], baseline="FedAvg")
    assert [(row["Target (%)"], row["Rounds"]) for row in build(plain, a=own(made(one)))] == [("90", "3")]


def test_captions_of_rounds():
    told = table(**ROUNDS, reported=TABLE2).remark(evidence(a=own(made(SERIES))))
    assert told.startswith("Rounds: the first in which the participants' mean own-test accuracy after local training reaches ")
    assert "Saved: 1 - rounds / rounds of FedAvg, seed by seed. Paper's rounds: as it prints them. Final accuracy: " in told
    smooth = table(kind="rounds_to_target", panels=["b"], baseline="FedAvg", smooth=5)
    told = smooth.remark(evidence(b=made({"FedAvg": {0: [0.1, 0.2]}}, "none")))
    assert "test accuracy reaches the target, or in which its mean with the 4 rounds before does." in told
    assert "Paper's rounds" not in told and "One seed." in told and told.endswith("Scale quick: how scale quick is.")


# ---- bytes


def sends(found: Results, **factors: float) -> Results:
    """What some series receive, multiplied; what they send stays."""
    for label, factor in factors.items():
        for run in found.note["series"][label]["runs"]:
            run["bytes_down"] = round(factor * run["bytes_down"])
            run["weights"] += 1
    return found


def test_communication_by_hand():
    """Of `made`: 1,500,000 bytes down and 500,000 up a round, here for five participants."""
    found = sends(own(made(SERIES, clients_per_round=5)), conv=1.2, single=1.00002)
    asked = table(kind="communication", panels=["a"], baseline="FedAvg", targets={"paper": [0.94, 0.95]})
    rows = build(asked, a=found)
    fedavg = {"Panel": "a", "Series": "FedAvg", "Weights": "10", "Bytes down": "300000", "Bytes up": "100000"}
    fedavg |= {"More than FedAvg": "-", "Target (%)": "94", "MB to target": "20.00 ± 0.00", "Seeds": "2"}  # 10 rounds of 2 MB
    assert rows[0] == fedavg
    conv, single = rows[1:3]
    assert (conv["Weights"], conv["Bytes down"], conv["Bytes up"]) == ("11", "360000", "100000")
    assert conv["More than FedAvg"] == "+15.0000 %"  # 460 to 400 kB
    assert conv["MB to target"] == "10.35 ± 1.63"  # 5 and 4 rounds of 2.3 MB
    assert (single["Bytes down"], single["More than FedAvg"]) == ("300006", "+0.0015 %")  # 6 of 400,000 bytes
    assert [row["Target (%)"] for row in rows] == ["94"] * 3 + ["95"] * 3
    assert (rows[3]["MB to target"], rows[4]["MB to target"]) == ("36.00 ± 5.66", "20.70 ± 3.25")  # 20, 16; 10 and 8 rounds
    assert rows[5]["MB to target"] == "40.00 (1 of 2 seeds)"  # 20 rounds of 2.00003 MB
    told = asked.remark(evidence(a=found))
    assert "Bytes: of one participant in one round, mean over the rounds. More than FedAvg: down and up together." in told
    assert "of all participants, until the participants' mean own-test accuracy after local training first reaches" in told


def test_bytes_without_a_target_and_of_lost_runs():
    asked = table(kind="communication", panels=["b"], baseline="FedAvg")
    series = {"FedAvg": {0: [0.1, 0.2]}, "conv": {0: [0.1, 0.5]}}
    first, second = build(asked, b=made(series, clients_per_round=2, lost={("conv", 0): "diverged at round 1"}))
    assert (first["Target (%)"], first["MB to target"], first["Bytes down"]) == ("-", "-", "750000")
    assert (second["Bytes up"], second["More than FedAvg"]) == ("250000", "+0.0000 %")
    assert second["Seeds"] == "0; seed 0 diverged at round 1"
    assert build(asked, b=made({}, skipped="why")) == [{"Panel": "b", "Series": "not run"}]
    never = table(kind="communication", panels=["b"], baseline="FedAvg", targets={"paper": [0.9]}, smooth=2)
    assert build(never, b=made(series, clients_per_round=2))[0]["MB to target"] == "never"


# ---- claims and figures in the same metric


def claim(cell: dict, **values):
    cell = {"series": "conv", "baseline": "FedAvg"} | cell
    cell = {key: value for key, value in cell.items() if value is not None}
    return spec.claim({"text": "t", "source": "s", "experiment": "a", "cell": cell} | values, "test")


@pytest.mark.parametrize(("cell", "reported", "found"), [
    ({"kind": "rounds_to", "target": 0.94, "baseline": None}, 4.5, "4.5 ± 6.4 rounds (n = 2)"),  # 12.706 x 0.707 / sqrt 2
    ({"kind": "reduction", "target": 0.94}, 0.55, "55.0 ± 63.5 % (n = 2)"),  # 12.706 x 7.07 / sqrt 2
    ({"kind": "difference", "round": 5}, 0.44, "+44.0 ± 0.0 points (n = 2)"),  # 94 to 50 %
    ({"kind": "difference", "last": 12}, 0.0062, "+0.17 ± 1.06 points (n = 2)"),  # 1 and 3 points over twelve
])  # fmt: skip
def test_cells_in_the_figures_metric(cell, reported, found):
    """In the last twelve rounds, 9 to 20, FedAvg is at 94 % in one round (seed 0) and in three (seed 1), conv in none."""
    series = {label: SERIES[label] for label in ("FedAvg", "conv")}
    if cell.get("last"):
        series = {"FedAvg": {0: reaches(1, 10), 1: reaches(1, 12)}, "conv": {0: reaches(1, 9), 1: reaches(1, 7)}}
    results = own(made(series))
    assert decide("k", claim(cell, reported=reported, tolerance=0.3), results, OWN).found == found


def test_small_differences_show_both_their_digits():
    results = own(made({"conv": {0: [0, 0.9059]}, "FedAvg": {0: [0, 0.9]}}))
    found = decide("k", claim({"kind": "difference", "last": 1}, reported=0.0062, tolerance=0.003), results, OWN)
    assert (found.reported, found.found, found.status) == ("+0.62 points", "+0.59 points (1 seed)", "reproduced")
    assert found.why.startswith("0.03 points from the reported value, 0.30 points allowed")
    found = decide("k", claim({"kind": "difference", "last": 1}, reported=0.006, tolerance=0.003), results, OWN)
    assert (found.reported, found.found) == ("+0.6 points", "+0.6 points (1 seed)")


def test_a_baseline_that_was_not_measured():
    found = own(made({"conv": {0: [0, 0.9]}, "FedAvg": {0: [0, 0.9]}}))
    rows = [row | ({OWN: ""} if row["series"] == "FedAvg" else {}) for row in found.rows]
    verdict = decide("k", claim({"kind": "difference", "last": 1}, reported=0.1), Results(found.note, rows), OWN)
    assert (verdict.status, verdict.why) == ("not reproduced", f"FedAvg has no values of {OWN}")


def test_captions_name_whose_accuracy_it_is():
    found = own(made({"FedAvg": {0: [0.1, 0.5]}}))
    assert (
        paper()
        .figures["a"]
        .caption(evidence(a=found))
        .startswith(
            "A. Mean over the participants, own-test accuracy after local training, in every round; one seed, so no band."
        )
    )
    assert paper().figures["b"].caption(evidence(b=found)).startswith("B. Global model, test accuracy after every round; ")


# ---- files and settings

PANELS = [{"experiment": "first", "name": "a"}, {"experiment": "second", "name": "b"}]
SPEC = {
    "title": "P",
    "reference": "r",
    "experiments": {"first": {"measure": OWN, "target": {"paper": 0.9}}},
    "figures": {"a": {"title": "A", "experiment": "first"}, "b": {"title": "B", "experiment": "second"}},
    "tables": {
        "table1": {"title": "Ends", "kind": "convergence", "panels": PANELS, "last": 2, "reported": REPORTED},
        "table2": {"title": "Rounds", **ROUNDS, "panels": ["first"], "reported": TABLE2},
        "bytes": {"title": "Bytes", "kind": "communication", "panels": ["first"], "baseline": "FedAvg"},
    },
    "claims": {
        "saves": {
            "text": "conv saves half",
            "source": "Table 2",
            "experiment": "first",
            "cell": {"kind": "reduction", "series": "conv", "baseline": "FedAvg", "target": 0.95},
            "reported": 0.5,
        }
    },
}


def read(folder: Path, values: dict, series: dict | None = None) -> Paper:
    (folder / "p.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(values)), sort_keys=False), encoding="utf-8")
    named = {"series": dict.fromkeys(("FedAvg", "conv", "multi", "single"), {"name": "fedavg"}) | (series or {})}
    kinds = {"paper": "full", "small": "direction", "quick": "none"}
    scales = {name: {"seeds": [0], "compare": compare, "note": "n"} for name, compare in kinds.items()}
    values = {"scale": "paper", "scales": scales, "papers": {"p": {"first": named, "second": named}}}
    return spec.read("p", parse(Params, values, "test"), folder)


def store(found: Results, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(found.note), encoding="utf-8")
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(found.rows[0]))
        writer.writeheader()
        writer.writerows(found.rows)


def test_files_and_documents(tmp_path):
    given, data = read(tmp_path, SPEC), tmp_path / "p" / "data"
    store(own(made(SERIES, clients_per_round=5)), data, "first")
    store(B, data, "second")
    artifacts.make(given, given.artifacts, tmp_path / "p")
    page.compose({"p": given}, tmp_path, {})
    assert json.loads((tmp_path / "p" / "tables" / "verdicts.json").read_text())[0]["ours"] == "50.0 ± 0.0 % (n = 2)"
    with (tmp_path / "p" / "tables" / "table1.csv").open(encoding="utf-8", newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["a (%)"], first["a, paper (%)"]) == ("94.75 ± 0.35 (n = 2)", "89.89")  # 94.5 and 95
    text = (tmp_path / "p" / "tables" / "table1.tex").read_text(encoding="utf-8")
    assert text.startswith("% Ends. Mean of the last 2 rounds: the participants' mean") and text.count("\n%") == 0
    assert r"conv & 95.00 $\pm$ 0.00 (n = 2) * & 90.11 & 80.00 (n = 1) * & 92.53 * \\" in text
    assert r"a (\%) & a, paper (\%) & b (\%) & b, paper (\%) \\" in text
    shown = (tmp_path / "index.html").read_text(encoding="utf-8")
    for words in ("<td>66.0 %</td>", "Paper&#39;s rounds: as it prints them.", "<td>300000</td>", "Runs: "):
        assert words in shown
    assert r"\caption{Bytes. Weights: of the model that is sent. " in (tmp_path / "report.tex").read_text(encoding="utf-8")


def changed(table: str, **values) -> dict:
    return SPEC | {"tables": SPEC["tables"] | {table: SPEC["tables"][table] | values}}


@pytest.mark.parametrize(("values", "words"), [
    (changed("table1", last=None), "tables.table1: last: Input should be a valid integer"),
    (changed("table1", smooth=3), "tables.table1: smooth: unknown key: choose from kind, last, panels, reported, title"),
    (changed("table1", reported={"FedX": {"a": 0.9}}), "unknown series 'FedX': choose from FedAvg, conv"),
    (changed("table1", reported={"FedAvg": {"c": 0.9}}), "table1.reported: unknown panel of this table 'c': choose from a, b"),
    (changed("table1", reported={"FedAvg": {"a": 89.9}}), "table1.reported.FedAvg.a: own-test accuracy after local training i"),
    (changed("table1", reported={"FedAvg": [1]}), "tables.table1: reported.FedAvg: Input should be a valid dictionary"),
    (changed("table2", reported={"FedAvg": {"a": 1}}), "tables.table2: reported.FedAvg: Input should be a valid tuple"),
    (changed("table2", reported={"FedAvg": [100]}), "table2.reported.FedAvg: needs one number for each target at scale paper"),
    (changed("table2", reported={"FedAvg": [0, 1]}), "tables.table2: reported.FedAvg.0: Input should be greater than"),
    (changed("table2", panels=["first", "second"]), "reported: numbers of rounds need a table of one panel"),
    (changed("table2", targets={"papr": [0.9, 0.9]}), "tables.table2.targets: unknown scale 'papr'"),
    (changed("bytes", baseline=None), "tables.bytes: baseline: Input should be a valid string"),
    (changed("bytes", last=3), "tables.bytes: last: unknown key"),
], ids=lambda value: value[:60] if isinstance(value, str) else "")  # fmt: skip
def test_mistakes_in_tables(values, words, tmp_path):
    with pytest.raises(UserError) as caught:
        read(tmp_path, values)
    assert "p.yaml: " in str(caught.value) and words in str(caught.value)


def test_bytes_of_one_participant_need_one_number_of_them(tmp_path):
    other = {"two": {"name": "fedavg", "with": {"clients_per_round": 2}}}
    with pytest.raises(UserError, match="tables.bytes.panels: first: two has its own clients_per_round"):
        read(tmp_path, SPEC, other)


def test_identity_follows_what_is_drawn_and_the_curves(tmp_path):
    """An artifact is made anew for its own words, its experiments' and the curves; verdicts for the claims too."""
    digitised = tmp_path / "curves.json"
    digitised.write_text("{}", encoding="utf-8")
    old = paper().model_copy(update={"curves": digitised.name, "tables": {"t": table(**ROUNDS)}})
    other = {"a": old.figures["a"].model_copy(update={"title": "else"})}
    new = old.model_copy(update={"figures": old.figures | other})
    shown = {"a": old.experiments["a"].model_copy(update={"target": {"paper": 0.5}})}

    def same(new: Paper, keys: list[str] | None) -> bool:
        return spec.identity(old, keys, tmp_path) == spec.identity(new, keys, tmp_path)

    assert [same(new, keys) for keys in (["a"], ["b"], ["t"], None)] == [False, True, True, False]
    new = old.model_copy(update={"experiments": shown})
    assert [same(new, keys) for keys in (["a"], ["b"], ["t"], None)] == [False, True, False, False]
    before = spec.identity(old, ["b"], tmp_path)
    digitised.write_text('{"x": [[1], [0.5]]}', encoding="utf-8")
    assert spec.identity(old, ["b"], tmp_path) != before
