"""Run folders -> gathered results."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fedrepro.core.errors import UserError
from fedrepro.core.files import read_json, read_required_json, write_json
from fedrepro.report.inputs.gathered import load
from fedrepro.runs import gather, reasons, records
from fedrepro.runs.gather import ResultSources
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind, MissingReason
from fedrepro.runs.run import Run
from support.experiments import finish
from support.federation import config
from support.results import OFFICIAL


def run_folder(
    folder: Path, seed: int = 0, text: str = "round,test_accuracy\n0,0.1\n1,0.5\n", **changes
) -> Path:
    """A finished run's folder: `folder`, with what it is named after."""
    run = Run(folder, config(seed=seed), "d", "c")
    run = replace(
        run, folder=folder.with_name(f"{folder.name}-{records.run_hash(run.config_record())}")
    )
    return finish(run, text, dataset=OFFICIAL, commit="abcdef0", **changes).folder


ASKED = {"algorithm": {"name": "fedavg"}, "config": {"lr": 0.1, "algorithm": {"name": "fedavg"}}}
NOTE = {"paper": "p", "experiment": "fig", "compare": "full", "scale": "paper", "skipped": None}
NOTE |= {"series": {"FedAvg": ASKED, "Gone": ASKED}}


def test_gather_and_load(tmp_path):
    second = "round,test_accuracy\n0,0.2\n1,\n2,0.75\n"
    folders = [
        run_folder(tmp_path / "runs" / "a"),
        run_folder(Paths(results=tmp_path).kept("p") / "b", 1, second),
    ]
    gone = run_folder(
        tmp_path / "runs" / "c", 0, "round,test_accuracy\n0,0.1\n1,\n", status="diverged at round 1"
    )
    gather.gather(ResultSources(NOTE, {"FedAvg": folders, "Gone": [gone]}), tmp_path / "out")
    found = load(tmp_path / "out", "fig")
    assert (
        found.labels == ["FedAvg", "Gone"]
        and found.compare == "full"
        and found.missing_reason is None
    )
    assert found.curves("FedAvg", "test_accuracy") == {
        0: [(0, 0.1), (1, 0.5)],
        1: [(0, 0.2), (2, 0.75)],
    }
    assert found.curves("Gone", "test_accuracy") == {} and found.diverged_runs("Gone") == [
        "seed 0 diverged at round 1"
    ]
    assert found.curves("FedAvg", "personal_accuracy") == {}
    first, second = found.runs("FedAvg")
    assert (first["run"], first["kept"], second["run"], second["kept"]) == (
        folders[0].name,
        False,
        folders[1].name,
        True,
    )
    part = {
        "dataset": OFFICIAL,
        "bytes_down": 8,
        "bytes_up": 9,
        "commit": "abcdef0",
        "device": "cpu",
        "code": "c",
        "data": "d",
    }
    assert part.items() <= first.items() and len(found.runs()) == 3
    assert found.note["series"]["FedAvg"] == ASKED | {"runs": [first, second]}


def test_gather_runs_that_measured_other_columns(tmp_path):
    """A kept run lacks what was measured only later, another has what nobody else has: empty where
    it is missing."""
    old = run_folder(tmp_path / "old", 0, "round,test_accuracy,gone\n0,0.1,7\n1,0.5,8\n")
    new = run_folder(
        tmp_path / "new", 1, "round,test_accuracy,test_macro_f1\n0,0.2,0.3\n1,0.4,0.5\n"
    )
    for name, folders in (("one", [old, new]), ("other", [new, old])):
        gather.gather(ResultSources(NOTE, {"FedAvg": folders}), tmp_path / name)
        rows = {(row["seed"], row["round"]): row for row in load(tmp_path / name, "fig").rows}
        assert [rows["0", "1"][key] for key in ("test_accuracy", "gone", "test_macro_f1")] == [
            "0.5",
            "8",
            "",
        ]
        assert [rows["1", "0"][key] for key in ("test_accuracy", "gone", "test_macro_f1")] == [
            "0.2",
            "",
            "0.3",
        ]
    header = (tmp_path / "one" / "fig.csv").read_text().splitlines()[0]
    assert header == "series,seed,run,round,test_accuracy,gone,test_macro_f1"


def test_gather_what_is_skipped(tmp_path):
    reason = MissingReason(MissingKind.LEFT_OUT, "no time")
    gather.gather(ResultSources(NOTE | reasons.to_note(reason) | {"series": {}}, {}), tmp_path)
    found = load(tmp_path, "fig")
    assert found.missing_reason == reason and found.rows == [] and found.runs() == []


SENTENCES = {
    MissingReason(MissingKind.LEFT_OUT, "no time"): "no time",
    MissingReason(MissingKind.DATA_MISSING, "unpack it"): "data not available: unpack it",
    MissingReason(MissingKind.NOT_FINISHED, missing=1, total=4): "1 of 4 runs is not finished",
    MissingReason(MissingKind.NOT_FINISHED, missing=1, total=1): "1 of 1 run is not finished",
    MissingReason(MissingKind.NOT_FINISHED, missing=3, total=4): "3 of 4 runs are not finished",
    MissingReason(
        MissingKind.NOT_FINISHED, missing=2, total=2, study="t-SNE maps"
    ): "2 of 2 studies of t-SNE maps are not finished",
    MissingReason(
        MissingKind.NOT_FINISHED, series=("FedAvg", "L2")
    ): "the runs of FedAvg, L2 are not finished",
    MissingReason(MissingKind.NO_STUDY, study="t-SNE maps"): "no t-SNE maps at this scale",
    MissingReason(
        MissingKind.WEIGHTS_GONE, missing=2, total=3, study="maps"
    ): "2 of 3 runs are kept without their weights, which maps need",
    MissingReason(
        MissingKind.NOT_TUNED, "fedrepro tune", series=("A", "B", "C", "D")
    ): "no values are chosen with these settings for A, B, C and 1 more. Choose them: fedrepro "
    "tune",
    MissingReason(MissingKind.NO_TARGET): "no target at this scale",
    MissingReason(MissingKind.NO_VALUES): "no finished run has what it shows",
}


def test_a_reason_is_a_sentence_and_is_read_back_as_it_was():
    assert {reason.kind for reason in SENTENCES} == set(MissingKind)
    for reason, sentence in SENTENCES.items():
        note = json.loads(json.dumps(reasons.to_note(reason)))
        assert (str(reason), note["skipped"], reasons.from_note(note)) == (
            sentence,
            sentence,
            reason,
        )
    assert reasons.from_note(reasons.to_note(None)) is None


def test_gather_what_is_not_finished(tmp_path):
    folder = run_folder(tmp_path / "a")
    (folder / "record.json").unlink()
    with pytest.raises(UserError, match="a-.*: not finished; train it first"):
        gather.gather(ResultSources(NOTE, {"FedAvg": [folder]}), tmp_path / "out")


@pytest.mark.parametrize("text", ("", "{", "{}", "[]", "null", "3", "\x80"))
def test_a_damaged_record_is_named(text, tmp_path):
    folder = run_folder(tmp_path / "results" / "runs" / "p" / "a")
    (folder / "record.json").write_text(text, encoding="latin-1")
    with pytest.raises(
        UserError, match=r"record\.json: (changed|damaged).*; delete .* to train the run again"
    ):
        gather.gather(ResultSources(NOTE, {"FedAvg": [folder]}), tmp_path / "out")


def test_a_damaged_study_costs_no_training(tmp_path):
    """Its file goes, the run stays."""
    path = tmp_path / "study-1.json"
    study = {
        "settings": {},
        "code": "c",
        "environment": {"commit": "abcdef0"},
        "columns": {"unit": [1], "x": [2]},
    }
    records.write(path, {"run": tmp_path.name} | study)
    whole = path.read_text()
    assert records.rows(records.load_study(path)["columns"]) == [{"unit": "1", "x": "2"}]
    for damage, words in (
        (path.unlink, "not there"),
        (lambda: path.write_text(whole.replace("[2]", "[3]")), "changed"),
    ):
        damage()
        with pytest.raises(
            UserError,
            match=rf"study-1\.json: {words}.*; delete .*/study-1\.json to repeat the study",
        ):
            records.load_study(path)
    records.write(path, {"run": "other"} | study)
    with pytest.raises(UserError, match=r"study-1\.json: of another run, other; delete"):
        records.load_study(path)


def test_a_file_that_changed_since_it_was_written(tmp_path):
    """Each digit and each letter of a value; what a user wrote has no seal and is read as it is."""
    path, values = (
        tmp_path / "x.json",
        {"by": {7: None}, "commit": "abc", "mean": [0.1307, float("nan")], "weights": 5310},
    )
    write_json(path, values)
    whole = path.read_text(encoding="utf-8")
    assert str(read_json(path, "weights")) == str(values).replace("7:", "'7':")
    for old, new in (
        ("5310", "5311"),
        ("0.1307", "0.1306"),
        ("abc", "abd"),
        ('"7"', '"8"'),
        ("NaN", "0.0"),
        ("mean", "meam"),
    ):
        path.write_text(whole.replace(old, new), encoding="utf-8")
        with pytest.raises(
            UserError, match=r"x\.json: changed since it was written; delete it and run again"
        ):
            read_json(path, "weights")
    path.write_text('{"weights": 7}', encoding="utf-8")
    assert read_json(path, "weights") == {"weights": 7}
    path.unlink()
    # there is nothing to delete
    with pytest.raises(UserError, match=r"x\.json: not there; run again$"):
        read_required_json(path)
