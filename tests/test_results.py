"""Run folders -> gathered results -> verdicts. Every verdict below follows from numbers that are worked out by hand."""

import csv
import json
from pathlib import Path

import pytest

from fedrepro import results
from fedrepro.errors import UserError
from fedrepro.measures import MEASURES, USUAL
from fedrepro.report import cells, spec
from fedrepro.report.loading import Results, load
from fedrepro.report.plain import write_plain
from fedrepro.report.verdicts import decide

OFFICIAL = "MNIST (official release)"
COLUMNS = ("round", *USUAL, "train_loss", "bytes_down", "bytes_up", "lr")
ALGORITHMS = {"FedMMD": "fedmmd", "FedAvg": "fedavg", "L2": "l2"}


def made(series: dict[str, dict[int, list[float]]], compare: str = "full", lost: dict | None = None, **changes) -> Results:
    """Results of label -> seed -> test accuracies from round 0 on; `lost`: (label, seed) -> status of a run that diverged."""
    scale = {"none": "quick", "direction": "small", "full": "paper"}[compare]
    dataset, skipped = changes.pop("dataset", OFFICIAL), changes.pop("skipped", None)
    note = {"paper": "p", "experiment": "fig", "scale": scale, "scale_note": f"how scale {scale} is", "compare": compare}
    note |= {"skipped": skipped, "training": {"evaluate_every": 1, "rounds": 20} | changes, "series": {}}
    rows = []
    for label, seeds in series.items():
        algorithm = ALGORITHMS.get(label, label)
        runs = [record(algorithm, seed, curve, (lost or {}).get((label, seed)), dataset) for seed, curve in seeds.items()]
        note["series"][label] = {"algorithm": {"name": algorithm}, "runs": runs}
        for run, curve in zip(runs, seeds.values(), strict=True):
            rows += [
                {"series": label, "seed": str(run["seed"]), "run": run["run"], "round": str(r), "test_accuracy": str(value)}
                for r, value in enumerate(curve)
            ]
    return Results(note, rows)


def record(algorithm: str, seed: int, curve: list[float], status: str | None, dataset: str) -> dict:
    rounds = len(curve) - 1
    told = {"run": f"mnist-{algorithm}-s{seed}-abc", "kept": False, "dataset": dataset, "seed": seed, "rounds": rounds}
    told |= {"status": status or "finished", "weights": 10, "bytes_down": 1_500_000 * rounds, "bytes_up": 500_000 * rounds}
    told |= {"data": "d" * 64, "code": "c0de", "commit": "c0ffee", "device": "cpu", "hardware": "a chip", "torch": "2.8"}
    return told | {"precision": "float32", "executor": "sequential"}


def store(found: Results, folder: Path, experiment: str) -> None:
    """As `results.gather` leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{experiment}.json").write_text(json.dumps(found.note), encoding="utf-8")
    with (folder / f"{experiment}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file, list(found.rows[0]) if found.rows else ["series", "seed", "run", "round", "test_accuracy"]
        )
        writer.writeheader()
        writer.writerows(found.rows)


def a_run(folder: Path, seed: int = 0, accuracies: tuple = (0.1, 0.5), status: str = "finished") -> Path:
    """A finished run's folder."""
    config = {"algorithm": {"name": "fedavg"}, "seed": seed, "precision": "float32"}
    summary = {"status": status, "rounds": len(accuracies) - 1, "weights": 7, "bytes_down": 8, "bytes_up": 9}
    texts = {
        "config": {"config": config, "dataset": OFFICIAL, "data": "d", "code": "c"},
        "summary": summary | {"data": "d", "code": "c"},
        "environment": {
            "commit": "x",
            "device": "cpu",
            "executor": "sequential",
            "hardware": "a chip",
            "torch": "2.8",
            "python": "3",
        },
    }
    folder.mkdir(parents=True)
    for name, values in texts.items():
        (folder / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    rows = [dict.fromkeys(COLUMNS, "") | {"round": r, "test_accuracy": value} for r, value in enumerate(accuracies)]
    lines = [",".join(COLUMNS), *(",".join(str(row[column]) for column in COLUMNS) for row in rows)]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


ASKED = {"algorithm": {"name": "fedavg"}, "config": {"lr": 0.1, "algorithm": {"name": "fedavg"}}}
NOTE = {"paper": "p", "experiment": "fig", "compare": "full", "scale": "paper", "skipped": None}
NOTE |= {"series": {"FedAvg": ASKED, "Gone": ASKED}}


def test_gather_and_load(tmp_path):
    folders = [a_run(tmp_path / "runs" / "a"), a_run(tmp_path / "results" / "kept" / "p" / "b", 1, (0.2, "", 0.75))]
    gone = a_run(tmp_path / "runs" / "c", 0, (0.1, ""), "diverged at round 1")
    results.gather(NOTE, {"FedAvg": folders, "Gone": [gone]}, tmp_path / "out")
    found = load(tmp_path / "out", "fig")
    assert found.labels == ["FedAvg", "Gone"] and found.compare == "full" and found.skipped is None
    assert found.curves("FedAvg", "test_accuracy") == {0: [(0, 0.1), (1, 0.5)], 1: [(0, 0.2), (2, 0.75)]}
    assert found.curves("Gone", "test_accuracy") == {} and found.diverged("Gone") == ["seed 0 diverged at round 1"]
    assert found.curves("FedAvg", "personal_accuracy") == {}
    first, second = found.runs("FedAvg")
    assert (first["run"], first["kept"], second["run"], second["kept"]) == ("a", False, "b", True)
    told = {"dataset": OFFICIAL, "bytes_down": 8, "bytes_up": 9, "commit": "x", "device": "cpu", "code": "c", "data": "d"}
    assert told.items() <= first.items() and len(found.runs()) == 3
    assert found.note["series"]["FedAvg"] == ASKED | {"runs": [first, second]}


def test_gather_twice_gives_the_same_bytes(tmp_path):
    folder = a_run(tmp_path / "a")
    for out in ("one", "two"):
        results.gather(NOTE, {"FedAvg": [folder]}, tmp_path / out)
    assert all(
        (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in ("fig.csv", "fig.json")
    )


def test_gather_runs_that_measured_other_columns(tmp_path):
    """A kept run lacks what was measured only later, another has what nobody else has: empty where it is missing."""
    old, new = a_run(tmp_path / "old"), a_run(tmp_path / "new", 1)
    (old / "metrics.csv").write_text("round,test_accuracy,gone\n0,0.1,7\n1,0.5,8\n", encoding="utf-8")
    (new / "metrics.csv").write_text("round,test_accuracy,test_macro_f1\n0,0.2,0.3\n", encoding="utf-8")
    for name, folders in (("one", [old, new]), ("other", [new, old])):
        results.gather(NOTE, {"FedAvg": folders}, tmp_path / name)
        rows = {(row["seed"], row["round"]): row for row in load(tmp_path / name, "fig").rows}
        assert [rows["0", "1"][key] for key in ("test_accuracy", "gone", "test_macro_f1")] == ["0.5", "8", ""]
        assert [rows["1", "0"][key] for key in ("test_accuracy", "gone", "test_macro_f1")] == ["0.2", "", "0.3"]
    header = (tmp_path / "one" / "fig.csv").read_text().splitlines()[0]
    assert header == "series,seed,run,round,test_accuracy,gone,test_macro_f1"


def test_gather_what_is_skipped(tmp_path):
    results.gather(NOTE | {"skipped": "no time", "series": {}}, {}, tmp_path)
    found = load(tmp_path, "fig")
    assert found.skipped == "no time" and found.rows == [] and found.runs() == []


def test_gather_what_is_not_finished(tmp_path):
    folder = a_run(tmp_path / "a")
    (folder / "summary.json").unlink()
    with pytest.raises(UserError, match="a: not finished; train it first"):
        results.gather(NOTE, {"FedAvg": [folder]}, tmp_path / "out")


def test_plain_files(tmp_path):
    good = made({"FedAvg": {0: [0.1, 0.5], 1: [0.2, 0.8]}, "L2": {0: [0.1, 0.9]}}, lost={("L2", 0): "diverged at round 1"})
    write_plain({"p": {"fig": good, "none": made({}, skipped="no time")}}, tmp_path)
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"p": {"fig": {"FedAvg": 0.65}}}
    lines = (tmp_path / "curves.csv").read_text().splitlines()
    assert lines == ["paper,series,round,test_accuracy", "p,fig: FedAvg,0,0.15", "p,fig: FedAvg,1,0.65"]


# ---- verdicts


def arrives(round: int | None, rounds: int = 20) -> list[float]:
    """Reaches 90 % in this round, to stay there."""
    return [0.95 if round and r >= round else 0.5 for r in range(rounds + 1)]


def ends(value: float, rounds: int = 20) -> list[float]:
    return [0.1] + [value] * rounds


def verdict(cell: dict, method: dict, baseline: dict | None = None, compare: str = "full", lost: dict | None = None, **claim):
    """The verdict on a claim about FedMMD, with FedAvg as its baseline."""
    cell = {"series": "FedMMD", **({"baseline": "FedAvg"} if baseline is not None else {}), **cell}
    claim = spec.claim({"text": "t", "source": "s", "experiment": "f", "cell": cell, **claim}, "test")
    series = {"FedMMD": method} | ({"FedAvg": baseline} if baseline is not None else {})
    return decide("key", claim, made(series, compare, lost), "test_accuracy")


ROUNDS = {"kind": "rounds_to", "target": 0.9}
NEVER = {"kind": "never", "target": 0.9}


@pytest.mark.parametrize(("arrivals", "status", "why", "ours"), [
    ((12,), "reproduced", "2 rounds from the reported value, 2 rounds allowed; one seed", "12 rounds (1 seed)"),
    ((13,), "not reproduced", "3 rounds from the reported value, 2 rounds allowed", "13 rounds (1 seed)"),
    ((7,), "not reproduced", "3 rounds from", "7 rounds (1 seed)"),
    ((9, 13), "reproduced", "1 rounds from", "11 ± 25.4 rounds (n = 2)"),  # 12.706 x 2.828 / sqrt 2
    ((9, 10, 12), "reproduced", "0.3 rounds from", "10.3 ± 3.8 rounds (n = 3)"),  # 4.303 x 1.528 / sqrt 3
    ((None,), "not reproduced", "seed 0: FedMMD does not reach 90 % within 20 rounds", "-"),
    ((10, None, None), "not reproduced", "seed 1: FedMMD does not reach 90 % within 20 rounds; seed 2: ", "-"),
])  # fmt: skip
def test_rounds_to(arrivals, status, why, ours):
    found = verdict(ROUNDS, {seed: arrives(round) for seed, round in enumerate(arrivals)}, reported=10, tolerance=2)
    assert (found.status, found.found, found.reported) == (status, ours, "10 rounds") and why in found.why


HALF = {"reported": 0.5, "tolerance": 0.1}


@pytest.mark.parametrize(("method", "baseline", "full", "direction", "why"), [
    ((5,), (10,), "reproduced", "direction agrees", "one seed, so without an interval"),
    ((8,), (10,), "partly", "direction agrees", ""),  # 20 %
    ((10,), (10,), "not reproduced", "direction disagrees", ""),
    ((20,), (10,), "not reproduced", "direction disagrees", ""),
    ((10, 9, 11), (20, 20, 20), "reproduced", "direction agrees", ""),  # 50 %, 55 %, 45 %
    ((5, 9), (10, 10), "partly", "direction agrees", ""),  # 50 % and 10 %: the interval contains zero
    ((5,), (None,), "partly", "direction agrees", "FedAvg does not reach 90 % within 20 rounds; FedMMD does at 5"),
    ((None,), (5,), "not reproduced", "direction disagrees", "FedMMD does not reach 90 % within 20 rounds"),
    ((None,), (None,), "not reproduced", "not compared", "FedMMD does not reach 90 % within 20 rounds"),
    ((5, 5), (None, 10), "partly", "direction agrees", "seed 0: FedAvg does not reach"),
    ((5, 10), (None, 5), "not reproduced", "not compared", "seed 0: FedAvg does not reach"),
    ((5, None), (None, 5), "not reproduced", "not compared", "; seed 1: FedMMD does not reach"),
    ((None, 5), (5, None), "not reproduced", "not compared", "; seed 1: FedAvg does not reach"),
    ((5, None), (None, None), "not reproduced", "not compared", "; seed 1: FedMMD does not reach"),
    ((None, None), (5, None), "not reproduced", "direction disagrees", "seed 0: FedMMD does not reach"),
])  # fmt: skip
def test_reduction(method, baseline, full, direction, why):
    """1 - rounds / the baseline's rounds, with the same seed. Reported: 50 %."""
    curves = [dict(enumerate(map(arrives, rounds))) for rounds in (method, baseline)]
    for compare, status in (("full", full), ("direction", direction)):
        found = verdict({"kind": "reduction", "target": 0.9}, *curves, compare=compare, **HALF)
        assert found.status == status and why in found.why


def test_reduction_by_hand():
    method, baseline = ({seed: arrives(round) for seed, round in enumerate(rounds)} for rounds in ((10, 9, 11), (20, 20, 20)))
    found = verdict({"kind": "reduction", "target": 0.9}, method, baseline, **HALF)
    assert found.found == "50.0 ± 12.4 % (n = 3)" and found.reported == "50.0 %"  # 4.303 x 5 / sqrt 3
    assert found.why == "0.0 % from the reported value, 10.0 % allowed"
    assert (
        "the interval contains zero; 20.0 % from"
        in verdict(
            {"kind": "reduction", "target": 0.9}, {0: arrives(5), 1: arrives(9)}, {0: arrives(10), 1: arrives(10)}, **HALF
        ).why
    )


def test_a_reported_loss_is_judged_by_its_own_sign():
    cell, slow, fast = {"kind": "reduction", "target": 0.9}, {0: arrives(20)}, {0: arrives(10)}
    claim = {"reported": -1, "tolerance": 0.1}
    assert verdict(cell, slow, fast, **claim).status == "reproduced"
    assert verdict(cell, {0: arrives(None)}, fast, **claim).status == "partly"
    assert verdict(cell, fast, {0: arrives(None)}, **claim).status == "not reproduced"
    assert verdict(cell, fast, {0: arrives(None)}, "direction", **claim).status == "direction disagrees"


def test_edge_of_the_tolerance():
    """0.8 - 0.7 is a little more than 0.1 in binary; the last bit decides nothing."""
    cell = {"kind": "reduction", "target": 0.9}
    assert verdict(cell, {0: arrives(4)}, {0: arrives(20)}, reported=0.7, tolerance=0.1).status == "reproduced"
    assert verdict(cell, {0: arrives(3)}, {0: arrives(20)}, reported=0.7, tolerance=0.1).status == "partly"


@pytest.mark.parametrize(("differences", "reported", "full", "direction"), [
    ((-0.08,), -0.09, "reproduced", "direction agrees"),
    ((-0.03,), -0.09, "partly", "direction agrees"),
    ((0.05,), -0.09, "not reproduced", "direction disagrees"),
    ((-0.09, -0.09), -0.09, "reproduced", "direction agrees"),
    ((-0.14, -0.04), -0.09, "partly", "direction agrees"),  # half the interval: 12.706 x 0.0707 / sqrt 2 = 0.64
    ((0.01,), 0, "reproduced", "not compared"),
    ((0.02,), 0, "not reproduced", "not compared"),
    ((-0.02,), 0, "not reproduced", "not compared"),
    ((0.001, 0.002), 0, "reproduced", "not compared"),  # 0.0015 +- 0.0064
    ((0.1, -0.1), 0, "partly", "not compared"),  # no difference on average, but nothing is shown by it
])  # fmt: skip
def test_difference(differences, reported, full, direction):
    method = {seed: ends(0.5 + value) for seed, value in enumerate(differences)}
    baseline = {seed: ends(0.5) for seed in method}
    for compare, status in (("full", full), ("direction", direction)):
        cell = {"kind": "difference", "last": 5}
        assert verdict(cell, method, baseline, compare, reported=reported, tolerance=0.015).status == status


def test_seeds_are_paired():
    """Seeds far apart, the same gain for each: its interval is narrow. In another order of the seeds too."""
    method, baseline = {0: ends(0.3), 1: ends(0.9)}, {1: ends(0.8), 0: ends(0.2)}
    found = verdict({"kind": "difference", "last": 5}, method, baseline, reported=0.1, tolerance=0.01)
    assert (found.status, found.found) == ("reproduced", "+10.0 ± 0.0 points (n = 2)")


def test_difference_at_a_round():
    method, baseline = [0.1, 0.2, 0.6, 0.9], [0.1, 0.1, 0.3, 0.9]
    cell = {"kind": "difference", "round": 2}
    assert verdict(cell, {0: method}, {0: baseline}, reported=0.3, tolerance=0.01).found == "+30.0 points (1 seed)"
    assert verdict(cell | {"smooth": 2}, {0: method}, {0: baseline}, reported=0.3).found == "+20.0 points (1 seed)"


@pytest.mark.parametrize(("accuracies", "compare", "status", "why"), [
    ((0.9,), "full", "reproduced", "0.11 points from the reported value, 0.50 points allowed; one seed"),
    ((0.88,), "full", "not reproduced", "1.89 points from the reported value"),
    ((0.89, 0.91), "full", "reproduced", "0.11 points from"),
    ((0.9,), "direction", "not compared", "an accuracy is compared at scale paper only"),
    ((0.9,), "none", "not compared", "scale quick is never held against a paper"),
])  # fmt: skip
def test_an_accuracy_itself(accuracies, compare, status, why):
    method = {seed: ends(value) for seed, value in enumerate(accuracies)}
    found = verdict({"kind": "accuracy", "last": 5}, method, compare=compare, reported=0.8989, tolerance=0.005)
    assert (found.status, found.reported) == (status, "89.89 %") and why in found.why
    assert found.found.startswith(f"{100 * sum(accuracies) / len(accuracies):.2f} ") and " %" in found.found
    early = verdict({"kind": "accuracy", "round": 2}, {0: [0.1, 0.2, 0.6, 0.9]}, reported=0.6)
    assert (early.status, early.found) == ("reproduced", "60.00 % (1 seed)")


@pytest.mark.parametrize(("curves", "cell", "status", "why"), [
    ((ends(0.8),), {}, "reproduced", "best value 80.0 % over 1 seed(s)"),
    ((ends(0.8), arrives(7)), {}, "partly", "reached: seed 1 at round 7"),
    ((arrives(3), arrives(7)), {}, "not reproduced", "reached: seed 0 at round 3, seed 1 at round 7"),
    (([0.95] + [0.5] * 20,), {}, "reproduced", ""),  # round 0 is no training
    (([0.5] * 10 + [0.95] + [0.5] * 10,), {"smooth": 5}, "reproduced", ""),  # a spike
    ((arrives(18),), {"round": 15}, "reproduced", "best value 50.0 %"),
    ((ends(0.8, 10),), {"round": 15}, "not compared", "our runs end at round 10, the claim is about round 15"),
])  # fmt: skip
def test_never(curves, cell, status, why):
    found = verdict(NEVER | cell, dict(enumerate(curves)), reported="never")
    assert found.status == status and why in found.why and found.found == "-" and found.reported == "never"


def test_runs_that_are_too_short_say_nothing():
    short = {0: ends(0.5, 8)}
    found = verdict(ROUNDS, short, reported=10, tolerance=2)
    assert (found.status, found.why) == ("not compared", "our runs end at round 8, the claim is about round 12")
    found = verdict({"kind": "difference", "round": 10}, short, short, reported=0.1)
    assert found.status == "not compared"


def test_numbers_of_rounds_are_not_compared_at_a_smaller_scale():
    for cell, reported in ((ROUNDS, 10), (NEVER, "never")):
        found = verdict(cell, {0: arrives(10)}, compare="direction", reported=reported)
        assert found.status == "not compared" and "at scale paper only" in found.why


def test_quick_scale_is_shown_and_not_compared():
    found = verdict(ROUNDS, {0: arrives(10)}, compare="none", reported=10)
    assert (found.status, found.why, found.found) == (
        "not compared",
        "scale quick is never held against a paper",
        "10 rounds (1 seed)",
    )
    assert verdict(ROUNDS, {0: arrives(None)}, compare="none", reported=10).status == "not compared"
    assert verdict(NEVER, {0: arrives(None)}, compare="none", reported="never").status == "not compared"


def test_not_run():
    cell = {"kind": "rounds_to", "series": "FedMMD", "target": 0.9}
    claim = spec.claim({"text": "t", "source": "s", "experiment": "f", "cell": cell, "reported": 3}, "test")
    found = decide("key", claim, made({}, skipped="2 of 4 runs are not finished"), "test_accuracy")
    assert (found.status, found.why, found.found) == ("not run", "2 of 4 runs are not finished", "-")


@pytest.mark.parametrize("label", ["FedMMD", "FedAvg"])
@pytest.mark.parametrize(("compare", "status"), [("full", "not reproduced"), ("direction", "not compared")])
def test_one_of_several_seeds_diverged(label, compare, status):
    """The seeds that are left do not speak for the one that is lost."""
    curves = {0: arrives(5), 1: arrives(5)}, {0: arrives(10), 1: arrives(10)}
    lost = {(label, 1): "diverged at round 3"}
    found = verdict({"kind": "reduction", "target": 0.9}, *curves, compare, lost, **HALF)
    assert (found.status, found.found) == (status, "-") and f"{label}, seed 1 diverged at round 3" in found.why
    if label == "FedMMD":
        for cell, reported in ((ROUNDS, 5), (NEVER, "never")):
            assert verdict(cell, curves[0], None, compare, lost, reported=reported).status == status


@pytest.mark.parametrize("kind", [{"kind": "reduction", "target": 0.9}, {"kind": "difference", "last": 1}])
def test_a_seed_that_one_series_lacks(kind):
    both, one = {0: arrives(5), 1: arrives(5)}, {0: arrives(10)}
    found = verdict(kind, both, one, **HALF)
    assert (found.status, found.why) == ("not reproduced", "seed 1: no run of FedAvg with this seed")
    found = verdict(kind, one, both, compare="direction", **HALF)
    assert (found.status, found.why) == ("not compared", "seed 1: no run of FedMMD with this seed")


def test_a_metric_that_was_not_measured():
    cell = {"kind": "rounds_to", "series": "FedMMD", "target": 0.9}
    claim = spec.claim({"text": "t", "source": "s", "experiment": "f", "cell": cell, "reported": 3}, "test")
    found = made({"FedMMD": {0: arrives(3)}})
    found = Results(found.note, [row | {"personal_accuracy": ""} for row in found.rows])
    assert "FedMMD has no values of personal_accuracy" in decide("key", claim, found, "personal_accuracy").why


def test_target_of_a_smaller_scale():
    curves = {0: [0.1, 0.3, 0.5]}, {0: [0.1, 0.2, 0.3, 0.5]}
    claim = {"reported": 0.2, "tolerance": 0.1, "scale_targets": {"small": 0.4}}
    found = verdict({"kind": "reduction", "target": 0.9}, *curves, "direction", **claim)
    assert found.status == "direction agrees" and "at 40 % accuracy" in found.why and found.found.startswith("33.3 %")
    assert verdict({"kind": "reduction", "target": 0.9}, *curves, "full", **claim).status == "not reproduced"


def test_other_data_than_the_official_are_named():
    cell = {"kind": "rounds_to", "series": "FedMMD", "target": 0.9}
    claim = spec.claim({"text": "t", "source": "s", "experiment": "f", "cell": cell, "reported": 5}, "test")
    mirror = "MNIST (mirror; differs from the official release)"
    found = decide("key", claim, made({"FedMMD": {0: arrives(5)}}, dataset=mirror), "test_accuracy")
    assert found.status == "reproduced" and found.why.endswith(f"; on {mirror}")


@pytest.mark.parametrize(("kind", "value", "text"), [
    ("rounds_to", 260, "260 rounds"),
    ("rounds_to", 259.96, "260.0 rounds"),
    ("reduction", 0.438, "43.8 %"),
    ("reduction", -0.0001, "0.0 %"),
    ("difference", -0.0924, "-9.2 points"),
    ("difference", 0.0, "+0.0 points"),
    ("difference", -0.0001, "+0.0 points"),
    ("never", "never", "never"),
])  # fmt: skip
def test_how_values_are_shown(kind, value, text):
    values = {"kind": kind, "series": "a", "baseline": "b", "target": 0.9, "last": 1}
    allowed = {"difference": {"target"}, "reduction": {"last"}}.get(kind, {"baseline", "last"})
    cell = cells.read({key: item for key, item in values.items() if key not in allowed}, "test")
    assert cell.show(value, MEASURES["test_accuracy"]) == text
