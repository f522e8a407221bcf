"""Run folders -> gathered results."""

import json
import shutil
from pathlib import Path

import pytest

from fedrepro.core.errors import UserError
from fedrepro.core.files import digest, read_json, read_whole_json, write_json
from fedrepro.core.metrics import USUAL
from fedrepro.report.documents.dvc_files import write_plain
from fedrepro.report.inputs.gathered import load
from fedrepro.runs import gather, integrity, reasons
from fedrepro.runs.gather import Gathering
from fedrepro.runs.reasons import Kind, Reason
from support.experiments import listed
from support.results import OFFICIAL, made

COLUMNS = ("round", *USUAL, "train_loss", "bytes_down", "bytes_up", "lr")


def run_folder(folder: Path, seed: int = 0, accuracies: tuple = (0.1, 0.5), status: str = "finished") -> Path:
    """A finished run's folder: `folder`, with what it is named after."""
    config = {"algorithm": {"name": "fedavg"}, "seed": seed, "precision": "float32"}
    summary = {"status": status, "rounds": len(accuracies) - 1, "weights": 7, "bytes_down": 8, "bytes_up": 9}
    texts = {
        "config": {"config": config, "dataset": OFFICIAL, "data": "d", "code": "c"},
        "summary": summary | {"data": "d", "code": "c"},
        "environment": {
            "commit": "abcdef0",
            "device": "cpu",
            "executor": "sequential",
            "hardware": "a chip",
            "torch": "2.8",
            "python": "3",
        },
    }
    folder = folder.with_name(f"{folder.name}-{integrity.key(texts['config'])}")
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
    folders = [run_folder(tmp_path / "runs" / "a"), run_folder(tmp_path / "results" / "kept" / "p" / "b", 1, (0.2, "", 0.75))]
    listed(tmp_path / "results" / "kept")
    gone = run_folder(tmp_path / "runs" / "c", 0, (0.1, ""), "diverged at round 1")
    gather.gather(Gathering(NOTE, {"FedAvg": folders, "Gone": [gone]}), tmp_path / "out")
    found = load(tmp_path / "out", "fig")
    assert found.labels == ["FedAvg", "Gone"] and found.compare == "full" and found.skipped is None
    assert found.curves("FedAvg", "test_accuracy") == {0: [(0, 0.1), (1, 0.5)], 1: [(0, 0.2), (2, 0.75)]}
    assert found.curves("Gone", "test_accuracy") == {} and found.diverged("Gone") == ["seed 0 diverged at round 1"]
    assert found.curves("FedAvg", "personal_accuracy") == {}
    first, second = found.runs("FedAvg")
    assert (first["run"], first["kept"], second["run"], second["kept"]) == (folders[0].name, False, folders[1].name, True)
    told = {"dataset": OFFICIAL, "bytes_down": 8, "bytes_up": 9, "commit": "abcdef0", "device": "cpu", "code": "c", "data": "d"}
    assert told.items() <= first.items() and len(found.runs()) == 3
    assert found.note["series"]["FedAvg"] == ASKED | {"runs": [first, second]}


def test_gather_twice_gives_the_same_bytes(tmp_path):
    folder = run_folder(tmp_path / "a")
    for out in ("one", "two"):
        gather.gather(Gathering(NOTE, {"FedAvg": [folder]}), tmp_path / out)
    assert all(
        (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in ("fig.csv", "fig.json")
    )


def test_gather_runs_that_measured_other_columns(tmp_path):
    """A kept run lacks what was measured only later, another has what nobody else has: empty where it is missing."""
    old, new = run_folder(tmp_path / "old"), run_folder(tmp_path / "new", 1)
    (old / "metrics.csv").write_text("round,test_accuracy,gone\n0,0.1,7\n1,0.5,8\n", encoding="utf-8")
    (new / "metrics.csv").write_text("round,test_accuracy,test_macro_f1\n0,0.2,0.3\n1,0.4,0.5\n", encoding="utf-8")
    for name, folders in (("one", [old, new]), ("other", [new, old])):
        gather.gather(Gathering(NOTE, {"FedAvg": folders}), tmp_path / name)
        rows = {(row["seed"], row["round"]): row for row in load(tmp_path / name, "fig").rows}
        assert [rows["0", "1"][key] for key in ("test_accuracy", "gone", "test_macro_f1")] == ["0.5", "8", ""]
        assert [rows["1", "0"][key] for key in ("test_accuracy", "gone", "test_macro_f1")] == ["0.2", "", "0.3"]
    header = (tmp_path / "one" / "fig.csv").read_text().splitlines()[0]
    assert header == "series,seed,run,round,test_accuracy,gone,test_macro_f1"


def test_gather_anew_what_is_finished_while_others_wait(tmp_path):
    """Numbers stay where they would become fewer, not where they are others."""
    note = NOTE | {"series": {"FedAvg": ASKED}, "missing": ["Gone"]}
    for end in (0.5, 0.6):
        folder = run_folder(tmp_path / str(end), accuracies=(0.1, end))
        gather.gather(Gathering(note, {"FedAvg": [folder]}, waiting=("FedAvg", "Gone")), tmp_path / "out")
        assert load(tmp_path / "out", "fig").curves("FedAvg", "test_accuracy") == {0: [(0, 0.1), (1, end)]}


def test_gather_what_is_skipped(tmp_path):
    reason = Reason(Kind.LEFT_OUT, "no time")
    gather.gather(Gathering(NOTE | reasons.write(reason) | {"series": {}}, {}), tmp_path)
    found = load(tmp_path, "fig")
    assert found.skipped == reason and found.rows == [] and found.runs() == []


def test_what_earlier_code_gathered_has_a_sentence_alone(tmp_path):
    gather.gather(Gathering(NOTE | {"skipped": "1 of 2 runs is not finished", "series": {}}, {}), tmp_path)
    found = load(tmp_path, "fig").skipped
    assert found.kind == Kind.UNKNOWN and str(found) == "1 of 2 runs is not finished"


SENTENCES = {
    Reason(Kind.LEFT_OUT, "no time"): "no time",
    Reason(Kind.DATA_MISSING, "unpack it"): "data not available: unpack it",
    Reason(Kind.NOT_FINISHED, missing=1, total=4): "1 of 4 runs is not finished",
    Reason(Kind.NOT_FINISHED, missing=1, total=1): "1 of 1 run is not finished",
    Reason(Kind.NOT_FINISHED, missing=3, total=4): "3 of 4 runs are not finished",
    Reason(Kind.NOT_FINISHED, missing=2, total=2, study="t-SNE maps"): "2 of 2 studies of t-SNE maps are not finished",
    Reason(Kind.NOT_FINISHED, series=("FedAvg", "L2")): "the runs of FedAvg, L2 are not finished",
    Reason(Kind.NO_STUDY, study="t-SNE maps"): "no t-SNE maps at this scale",
    Reason(Kind.WEIGHTS_GONE, missing=2, total=3, study="maps"): "2 of 3 runs are kept without their weights, which maps need",
    Reason(Kind.NO_TARGET): "no target at this scale",
    Reason(Kind.NO_VALUES): "no finished run has what it shows",
    Reason(Kind.UNKNOWN, "as it was"): "as it was",
}


def test_a_reason_is_a_sentence_and_is_read_back_as_it_was():
    assert {reason.kind for reason in SENTENCES} == set(Kind)
    for reason, sentence in SENTENCES.items():
        note = json.loads(json.dumps(reasons.write(reason)))
        assert (str(reason), note["skipped"], reasons.read(note)) == (sentence, sentence, reason)
    assert reasons.read(reasons.write(None)) is None


def test_gather_what_is_not_finished(tmp_path):
    folder = run_folder(tmp_path / "a")
    (folder / "summary.json").unlink()
    with pytest.raises(UserError, match="a-.*: not finished; train it first"):
        gather.gather(Gathering(NOTE, {"FedAvg": [folder]}), tmp_path / "out")


DAMAGED = {
    "empty": (lambda text: "", "not one row for each of the rounds 0 to 1"),
    "halved": (lambda text: text[: len(text) // 2], "not one row for each of the rounds 0 to 1"),
    "a row less": (lambda text: text[: text.rindex("\n", 0, -1) + 1], "not one row for each of the rounds 0 to 1"),
    "a row twice": (lambda text: text + text.splitlines()[-1] + "\n", "not one row for each of the rounds 0 to 1"),
    "nan": (lambda text: text.replace("0.5", "nan"), "round 1: test_accuracy is nan, though the run did not diverge"),
    "seven": (lambda text: text.replace("0.5", "7.0"), "round 1: test_accuracy is 7.0, not from 0 to 1"),
    "less than nothing": (lambda text: text.replace("0.5", "-0.5"), "round 1: test_accuracy is -0.5, not from 0 to 1"),
    "a loss without end": (lambda text: text.replace("0.5,,", "0.5,inf,"), "round 1: test_loss is inf, though"),
    "a cell more": (lambda text: text.replace("0.5,", "0.5,,"), "round 1: not as many cells as columns"),
    "a word": (lambda text: text.replace("0.5", "half"), "round 1: test_accuracy is 'half'"),
    "cut cells": (lambda text: text.replace("1,0.5", "1").replace(",,,", ""), "round 0: not as many cells as columns"),
    "bytes": (lambda text: "\0" + text, "not one row for each of the rounds 0 to 1"),
    "no text": (lambda text: text.replace("lr", "l\udcff"), "damaged .'utf-8' codec"),
    "an open quote": (lambda text: text.rstrip() + '"0.1', "damaged .unexpected end of data"),
    "half a byte": (lambda text: text.replace("0.5,,,,,,,", "0.5,,,,,,8.5,"), "round 1: bytes_up is '8.5'"),
}


@pytest.mark.parametrize("digested", (False, True))
@pytest.mark.parametrize("damage", DAMAGED)
def test_numbers_that_the_run_did_not_write_are_not_shown(damage, digested, tmp_path):
    folder = run_folder(tmp_path / "results" / "runs" / "p" / "a")
    path, summary = folder / "metrics.csv", json.loads((folder / "summary.json").read_text())
    if digested:
        (folder / "summary.json").write_text(json.dumps(summary | {"metrics": digest(path.read_bytes())}))
    gather.gather(Gathering(NOTE, {"FedAvg": [folder]}), tmp_path / "out")
    done, words = DAMAGED[damage]
    path.write_text(done(path.read_text(encoding="utf-8")), encoding="utf-8", errors="surrogateescape")
    told = "changed since the run wrote it" if digested else words
    with pytest.raises(UserError, match=rf"metrics\.csv: {told}.*; delete .* to train the run anew"):
        gather.gather(Gathering(NOTE, {"FedAvg": [folder]}), tmp_path / "out")


@pytest.mark.parametrize(("status", "loss", "accuracies"), [
    ("finished", "9.5", (0.0, 1.0)),
    ("diverged at round 1", "inf", (0.1, 0.5)),
    ("diverged at round 1", "nan", (0.1, 0.5)),
])  # fmt: skip
def test_numbers_at_the_ends_of_their_range_are_shown(status, loss, accuracies, tmp_path):
    """Of earlier code, which left no digest."""
    folder = run_folder(tmp_path / "a", 0, accuracies, status)
    (folder / "metrics.csv").write_text(f"round,test_accuracy,test_loss\n0,{accuracies[0]},\n1,{accuracies[1]},{loss}\n")
    assert [row["test_loss"] for row in integrity.metrics(folder)] == ["", loss]


def test_files_of_another_run_are_refused(tmp_path):
    """Summary and numbers fit each other, and belong to somebody else; so do settings in a folder of another name."""
    folder = run_folder(tmp_path / "results" / "runs" / "p" / "a")
    copy = shutil.copytree(folder, folder.with_name(f"{folder.name}-old"))
    with pytest.raises(UserError, match=r"config\.json: not the settings that its folder is named after; delete .*-old "):
        integrity.settings(copy)
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(summary | {"run": "mnist-fedavg-s1-0123456789"}))
    with pytest.raises(
        UserError, match=r"summary\.json: of another run, mnist-fedavg-s1-0123456789; delete .* to train the run anew"
    ):
        gather.gather(Gathering(NOTE, {"FedAvg": [folder]}), tmp_path / "out")


@pytest.mark.parametrize(("damaged", "text", "words"), [
    ("study.csv", None, "study.csv: not there"),
    ("study.csv", "y", "study.csv: changed since it was written"),
    ("study.json", None, "study.json: not there"),
    ("study.json", "{", "study.json: damaged"),
    ("study.json", '{"run": "other"}', "study.json: of another run, other"),
])  # fmt: skip
def test_a_damaged_study_costs_no_training(damaged, text, words, tmp_path):
    """Its two files go, or come back where they were committed; the run stays."""
    for shelf, then in (("runs", "delete .*/study.csv and study.json to make the study anew"), ("kept", "git restore .*/r")):
        folder = tmp_path / shelf / "p" / "r"
        folder.mkdir(parents=True)
        (folder / "study.csv").write_text("unit,x\n1,2\n")
        for note in ({}, {"run": "r", "table": digest("unit,x\n1,2\n")}):  # earlier code told neither
            (folder / "study.json").write_text(json.dumps(note))
            listed(tmp_path / shelf)
            assert integrity.table(folder / "study.csv") == [{"unit": "1", "x": "2"}]
        (folder / damaged).unlink() if text is None else (folder / damaged).write_text(text)
        if shelf == "kept" and text is not None:
            words = f"{damaged}: changed since it was kept"
        with pytest.raises(UserError, match=rf"{words}.*; {then}"):
            integrity.table(folder / "study.csv")


@pytest.mark.parametrize(("right", "wrong"), [
    ({"final": {"test_accuracy": 0.5}}, {"final": {"test_accuracy": 0.4}}),
    ({"test_accuracy": 0.5}, {"test_accuracy": 0.4}),  # as the oldest told it
    ({"rounds": 1}, {"rounds": 2}),
], ids=str)  # fmt: skip
def test_numbers_that_the_summary_does_not_tell_of(right, wrong, tmp_path):
    folder = run_folder(tmp_path / "results" / "kept" / "p" / "a")
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(summary | right))
    listed(tmp_path / "results" / "kept")
    assert len(integrity.metrics(folder)) == 2
    (folder / "summary.json").write_text(json.dumps(summary | wrong))
    listed(tmp_path / "results" / "kept")
    with pytest.raises(UserError, match=r"metrics\.csv: .*; git restore .*kept/p/a-.* brings back what was committed"):
        gather.gather(Gathering(NOTE, {"FedAvg": [folder]}), tmp_path / "out")


@pytest.mark.parametrize(("sent", "way"), [("7,9", "down"), ("9,9", "down"), ("8,8", "up"), ("8,10", "up"), ("8,", "up")])
def test_bytes_that_do_not_add_up(sent, way, tmp_path):
    folder, sums = run_folder(tmp_path / "a"), "round,bytes_down,bytes_up\n0,0,0\n1,8,9\n"
    (folder / "metrics.csv").write_text(sums, encoding="utf-8")
    assert len(integrity.metrics(folder)) == 2
    (folder / "metrics.csv").write_text(sums.replace("8,9", sent), encoding="utf-8")
    with pytest.raises(UserError, match=rf"metrics\.csv: bytes_{way} does not add up to that of summary\.json"):
        integrity.metrics(folder)


@pytest.mark.parametrize("text", ("", "{", "{}", "[]", "null", "3", "\x80"))
@pytest.mark.parametrize("name", ("summary", "config", "environment"))
def test_a_damaged_file_of_a_run_is_named(name, text, tmp_path):
    folder = run_folder(tmp_path / "results" / "runs" / "p" / "a")
    (folder / f"{name}.json").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=rf"{name}\.json: damaged.*; delete .* to train the run anew"):
        gather.gather(Gathering(NOTE, {"FedAvg": [folder]}), tmp_path / "out")


@pytest.mark.parametrize("name", ("summary", "config", "environment"))
def test_a_file_of_a_run_that_lacks_a_key_is_damaged(name, tmp_path):
    folder = run_folder(tmp_path / "results" / "runs" / "p" / "a")
    whole = json.loads((folder / f"{name}.json").read_text())
    for lost in whole.keys() - {"python"}:  # which is told, and nowhere asked for
        (folder / f"{name}.json").write_text(json.dumps({key: value for key, value in whole.items() if key != lost}))
        with pytest.raises(UserError, match=rf"{name}\.json: damaged, lacks {lost}; delete .* to train the run anew"):
            gather.gather(Gathering(NOTE, {"FedAvg": [folder]}), tmp_path / "out")


def test_a_file_that_changed_since_it_was_written(tmp_path):
    """Each digit and each letter of a value; what earlier code wrote has no seal and is read as it is."""
    path, values = tmp_path / "x.json", {"by": {7: None}, "commit": "abc", "mean": [0.1307, float("nan")], "weights": 5310}
    write_json(path, values)
    whole = path.read_text(encoding="utf-8")
    assert str(read_json(path, "weights")) == str(values).replace("7:", "'7':")
    for old, new in (("5310", "5311"), ("0.1307", "0.1306"), ("abc", "abd"), ('"7"', '"8"'), ("NaN", "0.0"), ("mean", "meam")):
        path.write_text(whole.replace(old, new), encoding="utf-8")
        with pytest.raises(UserError, match=r"x\.json: changed since it was written; delete it and run again"):
            read_json(path, "weights")
    path.write_text('{"weights": 7}', encoding="utf-8")
    assert read_json(path, "weights") == {"weights": 7}
    path.unlink()
    with pytest.raises(UserError, match=r"x\.json: not there; run again$"):  # there is nothing to delete
        read_whole_json(path)


def test_committed_results_are_as_their_runs_wrote_them():
    kept = sorted((Path(__file__).parents[2] / "results" / "kept").glob("*/*/metrics.csv"))
    assert kept and all(integrity.metrics(path.parent) for path in kept)


def test_plain_files(tmp_path):
    good = made({"FedAvg": {0: [0.1, 0.5], 1: [0.2, 0.8]}, "L2": {0: [0.1, 0.9]}}, lost={("L2", 0): "diverged at round 1"})
    write_plain({"p": {"fig": good, "none": made({}, skipped="no time")}}, {"p": {}}, tmp_path)
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"p": {"fig": {"FedAvg": 0.65}}}
    lines = (tmp_path / "curves.csv").read_text().splitlines()
    told = ["p,fig: FedAvg,test_accuracy,0,0.15", "p,fig: FedAvg,test_accuracy,1,0.65"]
    assert lines == ["paper,series,measure,round,value", *told]
