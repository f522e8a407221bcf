"""Planning: which runs are trained, under which names, and which are kept or outdated."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fedrepro.config.params import Params
from fedrepro.core import provenance
from fedrepro.core.errors import UserError
from fedrepro.data import datasets
from fedrepro.experiments import keep, prune, resolve, run_list, run_lookup
from fedrepro.experiments import plan as experiments
from fedrepro.experiments.plan import all_experiments, plan_experiments, planned_work, unique_runs
from fedrepro.runs import records
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind, MissingReason
from fedrepro.runs.records import run_hash
from fedrepro.runs.run import Run
from support.code import change, forget
from support.experiments import finish, one, params, shelve, unshelve
from support.files import declare, mnist_files, write_all

OLDER, OTHER = "01de700000", "07e4000000"  # code, and the commit that has it


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    monkeypatch.delenv("FEDREPRO_DATA_MIRROR", raising=False)


@pytest.fixture
def history(monkeypatch) -> None:
    """Pretend a history in which every code has a commit of the same name."""
    monkeypatch.setattr(provenance, "committed_digest", lambda commit, *executed: commit)
    monkeypatch.setattr(provenance, "commit_date", lambda commit: "2020-02-02")


def test_experiments_on_unavailable_data_are_left_out(paths, tmp_path):
    """With advice on how to get the data; the others are planned, and invalid settings are errors
    all the same."""
    (tmp_path / "mirror").mkdir()

    def of(dataset, mirror=None):
        changes = {
            "data_mirror": mirror and str(tmp_path / mirror),
            "papers": {"p": {"one": {"dataset": dataset}}},
        }
        return plan_experiments(params(**changes), paths)["p"]

    for found, words in (
        (of("aptos"), "no folders aptos2019.*www.kaggle.com"),
        (of("emnist_letters", "mirror"), "gzip.zip is not there.*Put the files"),
        (of({"name": "folders", "path": "pictures"}), "path: pictures: no such folder"),
    ):
        assert found["one"].runs == () and found["one"].blocked
        assert re.search(words, found["one"].skipped.text)
        assert found["two"].skipped is None and len(found["two"].runs) == 4
    with pytest.raises(UserError, match="experiments.yaml: one: series.FedMMD: .*width: "):
        plan_experiments(one(dataset="aptos", model={"width": -1}), paths)
    resolve.check_other_scales(one(dataset={"name": "folders", "path": "pictures"}))
    assert re.search(
        "mnist is not available: data mirror .*absent", of("mnist", "absent")["one"].warnings[0]
    )


def ids(settings: Params, paths: Paths) -> dict[tuple, str]:
    return {
        (name, series.label, run.config.seed): run.id
        for name, item in plan_experiments(settings, paths)["p"].items()
        for series in item.series
        for run in series.runs
    }


def asked(
    run: Run, folder: Path, name: str, data: str | None = None, code: str = OLDER, **changes
) -> Run:
    """Finish a run with the config of `run` in another folder, by other code and, if given, on
    other data."""
    other = Run(folder, run.config, data or run.data, code)
    return finish(
        replace(other, folder=folder / f"{name}-{run_hash(other.config_record())}"), **changes
    )


def kept(run: Run, paths: Paths, name: str, data: str | None = None, code: str = OLDER) -> Run:
    """Finish a run as `asked` does, and keep it."""
    return asked(run, paths.kept("p"), name, data, code)


def test_one_run_per_series_and_seed(paths):
    planned = plan_experiments(params(), paths)["p"]
    assert (
        list(planned) == ["one", "two"]
        and len(planned["one"].runs) == len(planned["two"].runs) == 4
    )
    first = planned["one"].series[0]
    assert first.label == "FedMMD" and [run.config.seed for run in first.runs] == [0, 1]
    run = first.runs[0]
    assert run.folder.parent == paths.results / "runs" / "p" and run.id.startswith(
        "digits-fedmmd-s0-"
    )
    # defaults written out
    assert (
        run.config.algorithm.options["weight"] == 0.1 and run.config.model.options["width"] == 0.05
    )
    assert not paths.results.exists() and not paths.data.exists()  # a plan writes nothing


def test_a_shared_baseline_is_trained_once(paths):
    planned = plan_experiments(params(), paths)
    assert len(unique_runs(all_experiments(planned))) == 6
    assert planned["p"]["one"].series[1].runs == planned["p"]["two"].series[0].runs
    planned_runs = experiments.planned_runs(all_experiments(planned))
    assert {path for path, *_ in planned_runs} == {"p"} and len(planned_runs) == 8


def test_planned_work_never_repeats_a_run(paths):
    planned = plan_experiments(params(), paths)
    found = planned_work(all_experiments(planned))
    assert [f"{piece.experiment}_{piece.series}" for piece in found] == [
        f"p_{name}_s{seed}" for name in ("one_FedMMD", "one_FedAvg", "two_Prox") for seed in (0, 1)
    ]
    assert [piece.item for piece in found] == unique_runs(all_experiments(planned))
    kept(planned["p"]["two"].series[1].runs[0], paths, "old")
    left = planned_work(all_experiments(plan_experiments(params(), paths)))[4:]
    assert [(piece.experiment, piece.series) for piece in left] == [("p_two", "Prox_s1")]


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"lr": 0.2}, {"FedAvg again", "Prox"}),
        ({"partition": {"clients": 5}}, {"FedAvg again", "Prox"}),
        ({"series": {"FedMMD": {"weight": 0.5}}}, {"FedAvg", "FedAvg again", "Prox"}),
        ({"series": {"FedAvg": {"overrides": {"lr": 0.2}}}}, {"FedMMD", "FedAvg again", "Prox"}),
        # what is the default anyway
        ({"schedule": {"name": "constant"}}, {"FedMMD", "FedAvg", "FedAvg again", "Prox"}),
        ({"seeds": [1, 0]}, {"FedMMD", "FedAvg", "FedAvg again", "Prox"}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_changed_number_changes_what_depends_on_it(changes, same, paths):
    before, after = ids(params(), paths), ids(one(**changes), paths)
    assert {
        label for key, label, seed in before if before[key, label, seed] == after[key, label, seed]
    } == same
    assert all((before[key] == after[key]) == (key[1] in same) for key in before)


def test_a_changed_line_of_code_changes_what_runs_it(paths, tmp_path, monkeypatch):
    before = ids(params(), paths)
    copy = tmp_path / "fedrepro"
    shutil.copytree(provenance.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "PACKAGE", copy)
    try:
        path = copy / "algorithms" / "fedmmd.py"
        path.write_text("# a comment\n" + path.read_text() + "\n\n# the end\n")
        forget()
        assert ids(params(), paths) == before
        change(path, "1e-6, 1e-5", "2e-6, 1e-5")
        forget()
        after = ids(params(), paths)
        assert {key[1] for key in before if before[key] != after[key]} == {"FedMMD"}
    finally:
        monkeypatch.undo()
        forget()


def test_kept_results_replace_runs_with_the_same_config_and_data(paths):
    run = plan_experiments(params(), paths)["p"]["one"].series[0].runs[0]
    old = kept(run, paths, "from-older-code")
    planned = plan_experiments(params(), paths)["p"]["one"].series[0].runs
    assert (
        planned[0].folder == old.folder
        and planned[0].code == OLDER
        and planned[1].folder.parent != old.folder.parent
    )
    other = plan_experiments(one(lr=0.2), paths)["p"]["one"].series[0].runs[0]
    assert other.folder.parent == paths.runs("p")
    unshelve(old)
    kept(run, paths, "other", "other pixels", run.code)
    assert plan_experiments(params(), paths)["p"]["one"].series[0].runs[0] == run


@pytest.mark.parametrize(
    "changes", [{}, {"data_mirror": "absent"}, {"report_only": True, "data_mirror": "absent"}]
)
def test_kept_runs_answer_whatever_copy_of_the_data_they_are_of(paths, changes):
    """Nothing is fetched, and the mirror may lack the data. The official release comes first, if
    all of its runs are kept."""
    settings = one(dataset="mnist").model_copy(update=changes)
    runs = plan_experiments(one(dataset="mnist"), paths)["p"]["one"].runs
    others = [kept(run, paths, f"other{place}", "other pixels") for place, run in enumerate(runs)]
    for place, run in enumerate(runs):
        found = experiments.plan_training(settings, paths)["p"]["one"]
        assert (
            found.runs == found.of_other_data == tuple(others)
            and not found.warnings
            and found.skipped is None
        )
        kept(run, paths, f"zz-official{place}")
    found = plan_experiments(settings, paths)["p"]["one"]
    assert {run.data for run in found.runs} == {
        datasets.pinned("mnist")
    } and not found.of_other_data
    assert not paths.data.exists()


def test_kept_runs_of_other_data_do_not_answer_if_the_settings_ask_for_the_same(paths):
    runs = plan_experiments(params(), paths)["p"]["one"].runs
    for run in runs:
        kept(run, paths, f"other-{run.id}", "other pixels", run.code)
    same = [kept(runs[0], paths, "same")]
    for value, expected in (("same_data", (*same, *runs[1:])), (False, runs)):
        assert plan_experiments(params(use_kept_results=value), paths)["p"]["one"].runs == expected


def test_runs_of_two_copies_are_never_mixed(paths):
    """The whole experiment is to be trained on the data at hand; until then what is finished of one
    copy is reported."""
    three = {
        "FedMMD": {"name": "fedmmd"},
        "FedAvg": {"name": "fedavg"},
        "Prox": {"name": "fedprox", "mu": 0.1},
    }
    runs = plan_experiments(one(series=three), paths)["p"]["one"].runs
    others = [kept(run, paths, f"other-{run.id}", "other pixels", run.code) for run in runs[:5]]
    finish(runs[5])
    for data, shown in ((None, others[:4]), ("report_only", others[:4])):
        found = plan_experiments(
            one(series=three).model_copy(update={data: True} if data else {}), paths
        )["p"]["one"]
        part = found if data else experiments.reported(found, params(), paths)
        assert (
            part.runs == part.of_other_data == tuple(shown)
            and part.requested_series == tuple(three)
            and [run.data for run in part.unfinished] == ["other pixels"]
        )
        assert data or found.runs == runs
        assert any("4 of 4 runs are kept" in warning for warning in experiments.warnings([part]))
    unshelve(others[0])  # one series is left, which is compared with nothing
    part = plan_experiments(one(series=three).model_copy(update={"report_only": True}), paths)
    assert part["p"]["one"].skipped and not part["p"]["one"].of_other_data
    assert "are kept" not in "".join(experiments.warnings([part["p"]["one"]]))
    for run in runs:
        finish(run)
    assert plan_experiments(one(series=three), paths)["p"]["one"].runs == runs


def test_report_only_prefers_own_runs_to_kept_ones_of_other_data(paths):
    item = plan_experiments(params(), paths)["p"]["one"]
    for run in item.runs:
        kept(run, paths, f"other-{run.id}", "other pixels", run.code)
        finish(run)
    assert plan_experiments(params(report_only=True), paths)["p"]["one"].runs == item.runs


def test_todays_code_is_preferred_among_finished_runs(paths):
    """Whichever folder comes first."""
    runs = plan_experiments(one(dataset="mnist"), paths)["p"]["one"].runs
    own = [asked(run, paths.runs("p"), "own", "m", run.code) for run in runs]
    for name in ("a-older", "z-older"):
        asked(runs[0], paths.runs("p"), name, "m")
    assert {run.id for run in run_lookup.stored_runs(paths.runs("p")).values()} == {
        run.id for run in own
    }


def test_planning_says_of_which_other_data_runs_are_kept(paths):
    item = plan_experiments(params(), paths)["p"]["one"]
    for run in item.runs:
        asked(
            run,
            paths.kept("p"),
            f"other-{run.id}",
            "other pixels",
            run.code,
            dataset="Digits (mirror)",
        )
    planned = plan_experiments(params(), paths)
    assert experiments.warnings(all_experiments(planned)) == [
        "4 of 8 runs are kept, made from Digits (mirror); use_kept_results=same_data trains them "
        "on the data here"
    ]
    for run in item.runs:
        finish(run)
    assert experiments.warnings(all_experiments(plan_experiments(params(), paths))) == []


def test_unavailable_data_do_not_stop_planning(paths, tmp_path):
    """Only training on them fails; the plan warns of it."""
    settings = one(dataset="mnist").model_copy(update={"data_mirror": str(tmp_path / "absent")})
    planned = plan_experiments(settings, paths)
    (remark,) = experiments.warnings([planned["p"]["one"]])
    assert remark.startswith("p one: mnist is not available: ") and "absent" in remark
    assert experiments.warnings([planned["p"]["two"]]) == []
    item = planned["p"]["one"]
    (message,) = experiments.warnings([item, replace(item, name="again"), replace(item, paper="q")])
    # once, however many wait for it
    assert message == remark.replace("p one: ", "p one, p again, q one: ")
    lacking = replace(
        item, warnings=(), skipped=MissingReason(MissingKind.DATA_MISSING, "unpack it")
    )
    assert experiments.warnings([item, lacking, replace(lacking, name="two")]) == [
        remark, "p one, p two: data not available: unpack it",
    ]  # fmt: skip
    assert (
        planned["p"]["one"].runs == plan_experiments(one(dataset="mnist"), paths)["p"]["one"].runs
    )


def test_planning_warns_of_a_copy_used_without_a_mirror(paths, tmp_path):
    mirror = tmp_path / "mirror"
    write_all(mirror / "mnist", mnist_files())
    declare(mirror)
    raw, prepared = paths.raw, paths.prepared("mnist")
    datasets.provide("mnist", raw, prepared, str(mirror))
    copied = datasets.planned_identity("mnist", raw, prepared)
    delete = f"delete {raw / 'mnist'} and {prepared} to train on that"
    message = f"p one: mnist is a copy that differs from the official release; {delete}"
    for given, expected in ((None, [message]), (str(mirror), [])):
        planned = plan_experiments(
            one(dataset="mnist").model_copy(update={"data_mirror": given}), paths
        )
        assert {run.data for run in planned["p"]["one"].runs} == {copied}
        assert experiments.warnings([planned["p"]["one"]]) == expected


def test_identities_come_from_the_mirror_or_the_official_release(paths, tmp_path):
    """Nothing is fetched to learn them, even if training follows."""
    for name in ("mnist", "fashion_mnist"):
        write_all(tmp_path / "mirror" / name, mnist_files())
    copied = declare(tmp_path / "mirror")
    sets = {"one": {"dataset": "mnist"}, "two": {"dataset": "fashion_mnist"}}
    settings = params(data_mirror=str(tmp_path / "mirror"), papers={"p": sets})
    for planned in (plan_experiments(settings, paths), experiments.plan_training(settings, paths)):
        for name, identity in (("one", copied), ("two", datasets.pinned("fashion_mnist"))):
            assert {run.data for run in planned["p"][name].runs} == {identity} and not planned["p"][
                name
            ].warnings
    assert not paths.data.exists()


def test_runs_on_unidentified_data_are_named_by_training(paths):
    options = {"name": "synthetic", "devices": 2, "train": 40, "side": 16, "hidden": 4}
    settings = one(dataset=options, pixel_scaling="raw")
    (remark,) = plan_experiments(settings, paths)["p"]["one"].warnings
    assert remark.startswith("synthetic/") and remark.endswith(
        "its runs get their names once it is; training prepares it first"
    )
    [run, *_] = experiments.plan_training(settings, paths)["p"]["one"].runs
    assert run.data == datasets.load(paths.prepared(run.config.dataset)).meta["identity"]
    assert plan_experiments(settings, paths)["p"]["one"].runs[0] == run


NARROW = [
    ({"floor": 0}, "float32", 1),
    ({"floor": 0}, "float64", 0),
    ({"floor": 0, "weight": 0}, "float32", 0),
    ({}, "float32", 0),
]


@pytest.mark.parametrize(("options", "precision", "said"), NARROW)
def test_planning_warns_of_narrow_kernels_without_a_floor(paths, options, precision, said):
    series = {"A": {"name": "fedmmd", **options}}
    remarks = plan_experiments(one(series=series, precision=precision), paths)["p"]["one"].warnings
    assert [remark.split(":")[0] for remark in remarks] == ["floor 0 in float32"] * said


def test_a_kept_result_that_todays_settings_cannot_express(paths, caplog):
    run = plan_experiments(params(), paths)["p"]["one"].series[0].runs[0]
    old = kept(run, paths, "old")
    record = dict(records.load(old.folder))
    record["config"] = record["config"] | {"gone": 1}
    gone = replace(old, folder=old.folder.with_name(f"old-{run_hash(record)}"))
    unshelve(old)
    shelve(gone, record | {"run": gone.id})
    assert plan_experiments(params(), paths)["p"]["one"].series[0].runs[0] == run
    assert "stored result left out" in caplog.text and "gone: unknown key" in caplog.text


def test_a_kept_result_under_anothers_name_is_refused(paths):
    """It would replace a run that nobody trained."""
    first = plan_experiments(params(), paths)["p"]["one"].runs[0]
    finish(replace(first, folder=paths.kept("p") / "b-0123456789"))
    with pytest.raises(
        UserError, match=r"p\.jsonl: line 1: not the settings that b-0123456789 is named after"
    ):
        plan_experiments(params(report_only=True), paths)


def test_report_only(paths):
    item = plan_experiments(params(), paths)["p"]["one"]
    for run in item.runs[:3]:
        finish(run)
    planned = plan_experiments(params(report_only=True), paths)["p"]
    assert (
        planned["one"].skipped == MissingReason(MissingKind.NOT_FINISHED, missing=1, total=4)
        and planned["one"].runs == ()
    )
    assert planned["one"].requested_series == ("FedMMD", "FedAvg")
    assert "missing" not in experiments.experiment_note(planned["one"], params())
    assert planned["two"].skipped == MissingReason(
        MissingKind.NOT_FINISHED, missing=3, total=4
    )  # one of the shared baseline is there
    finish(item.runs[3])
    planned = plan_experiments(params(report_only=True), paths)["p"]
    assert planned["one"].skipped is None and len(planned["one"].runs) == 4


def test_one_seed_decides_nothing(paths):
    """The warning is given if claims are judged and there is something to train."""
    chosen = [plan_experiments(one(seeds=[3]), paths)["p"]["one"]]
    (message,) = experiments.warnings(chosen, "full")
    assert (
        message.startswith("1 of 1 experiment to be trained has one seed, which decides no claim")
        and "`seeds`" in message
    )
    assert experiments.warnings(chosen, "none") == []
    for run in chosen[0].runs:
        finish(run)
    assert experiments.warnings(chosen, "full") == []


def test_report_only_series(paths):
    """Two series can be compared; a single one is not shown."""
    three = {
        "FedMMD": {"name": "fedmmd"},
        "FedAvg": {"name": "fedavg"},
        "Prox": {"name": "fedprox", "mu": 0.1},
    }
    settings = one(series=three)
    item = plan_experiments(settings, paths)["p"]["one"]
    labels = [series.label for series in item.series]
    for run in item.runs[:5]:
        finish(run)
    found = plan_experiments(settings.model_copy(update={"report_only": True}), paths)["p"]["one"]
    assert found.skipped is None and [series.label for series in found.series] == labels[:2]
    assert found.requested_series == tuple(labels) and found.training and len(found.runs) == 4
    note = experiments.experiment_note(found, settings)
    assert note["missing"] == labels[2:] and list(note["series"]) == labels[:2]
    finish(item.runs[5])
    found = plan_experiments(settings.model_copy(update={"report_only": True}), paths)["p"]["one"]
    assert found.requested_series == () and "missing" not in experiments.experiment_note(
        found, settings
    )


def test_overlays(paths):
    planned = plan_experiments(params(scale="long"), paths)["p"]
    assert [run.config.rounds for run in planned["one"].runs] == [9, 9]
    left_out = MissingReason(MissingKind.LEFT_OUT, "not part of scale long; run it at scale quick")
    assert planned["two"].skipped == left_out and planned["two"].series == ()
    found = experiments.experiment_note(planned["two"], params(scale="long"))
    assert (found["skipped"], found["training"], found["compare"]) == (left_out.text, None, "full")
    assert found["reason"] == {"kind": "left out", "text": left_out.text}
    found = experiments.experiment_note(planned["one"], params(scale="long"))
    assert (
        found["training"]["rounds"] == 9
        and "series" not in found["training"]
        and found["scale_note"] == "l"
    )
    first = planned["one"].series[0].runs[0].config.model_dump(mode="json")
    assert found["series"]["FedMMD"] == {"algorithm": first["algorithm"], "config": first}
    assert list(found["series"]) == ["FedMMD", "FedAvg"]
    assert (
        experiments.experiment_note(planned["two"], params(scale="long"))["series"] == {}
        and "scale_like" not in found
    )
    mine = params(scale="mine", scales={"mine": {"like": "long", "seeds": [5]}})
    alike = plan_experiments(mine, paths)["p"]
    assert [(run.config.rounds, run.config.seed) for run in alike["one"].runs] == [(9, 5), (9, 5)]
    assert alike["two"].skipped.kind == MissingKind.LEFT_OUT
    assert experiments.experiment_note(alike["one"], mine)["scale_like"] == ["long"]
    overlay = {
        "scales": {
            "quick": {
                "experiments": {
                    "p": {"one": {"model": {"name": "cifar_cnn"}, "dataset": "digits_rgb"}}
                }
            }
        }
    }
    run = plan_experiments(params(**overlay), paths)["p"]["one"].runs[0]
    assert run.config.model.options["width"] == 1.0  # another name drops the old one's options


def test_with_overrides_one_series(paths):
    series = {
        "A": {"name": "fedavg", "overrides": {"lr": 0.5, "model": {"width": 0.1}}},
        "B": {"name": "fedavg"},
    }
    found = {
        item.label: item.runs[0].config
        for item in plan_experiments(one(series=series), paths)["p"]["one"].series
    }
    assert (found["A"].lr, found["A"].model.options["width"], found["A"].model.options["arch"]) == (
        0.5,
        0.1,
        "paper",
    )
    assert found["B"].lr == 0.1 and found["A"].algorithm == found["B"].algorithm


PERMUTED = {"partition": {"name": "permuted", "clients": 4}}
MISTAKES = pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dataset": "mnst"}, "unknown dataset 'mnst': choose from aptos, chest_xray, cifar10"),
        ({"partition": {"name": "random"}}, "unknown partition 'random': choose from "),
        ({"model": {"name": "resnet"}}, "unknown model 'resnet': choose from "),
        ({"series": {"X": {"name": "fedx"}}}, "series.X: unknown algorithm 'fedx': choose from "),
        ({"series": {"FedMMD": {"wait": 1}}}, "wait: unknown key: choose from "),
        ({"series": {"FedMMD": {"weight": -1}}}, "weight: "),
        (
            {"series": {"FedAvg": {"overrides": 3}}},
            "series.FedAvg.overrides: Input should be a valid dictionary (got 3)",
        ),
        (
            {"series": {"FedAvg": {"overrides": {"seed": 3}}}},
            "overrides: seed cannot be set for one series",
        ),
        ({"series": {"FedAvg": {"overrides": {"rate": 3}}}}, "rate: unknown key: choose from "),
        ({"rounds": -3}, "rounds: "),
        (
            {"partition": {"name": "balanced_classes", "clients": 20, "classes_per_client": 12}},
            "classes_per_client: at most 10 ",
        ),
        (
            {"partition": {"name": "balanced_classes", "clients": 4, "classes_per_client": 3}},
            "must be a multiple of 10 classes",
        ),
        (
            {"partition": {"name": "classes", "clients": 20}},
            "clients: 20 clients cannot split 10 classes; at most 10",
        ),
        (
            {"partition": {"name": "classes", "clients": 4, "groups": [[0, 1]]}},
            "groups: need 4 groups that hold each of the 10 ",
        ),
        (
            {"partition": {"name": "class_shards", "clients": 4, "classes_per_client": 5}},
            "pieces: expected 5 to 10",
        ),
        (
            {"partition": {"name": "shards", "clients": 4, "shards": 400}},
            "4 clients x 400 shards need 1600 images, got 1438",
        ),
        (
            {"measures": ["validation_loss"]},
            "measures: validation_loss needs validation, e.g. {share: 0.1}",
        ),
        (
            {"measures": ["validation_personal_accuracy"], "validation": {"share": 0.1}},
            "measures: validation_personal_accuracy needs validation.per_client: true",
        ),
        (
            {"validation": {"share": 0.999}},
            "validation.share: leaves 1 images for 4 clients (got 0.999)",
        ),
        (
            PERMUTED | {"validation": {"share": 0.1}},
            "validation: its images have a pixel order that no client has. Set",
        ),
        (
            {"series": {"FedCL": {"name": "fedcl"}}},
            "algorithm fedcl: needs proxy images: set proxy, e.g. {share: 0.01}",
        ),
        (
            {"model": {"name": "logistic"}, "series": {"X": {"name": "fedmax"}}},
            "fedmax: model logistic: it needs a hidden layer",
        ),
        (
            {"clients_per_round": 9},
            "clients_per_round: at most the 4 clients of the partition (got 9)",
        ),
    ],
    ids=str,
)


@MISTAKES
def test_errors_name_file_and_key(changes, words, paths):
    with pytest.raises(UserError) as caught:
        plan_experiments(one(**changes), paths)
    assert words in str(caught.value) and "/workflow/papers/p/experiments.yaml: one: " in str(
        caught.value
    )


@MISTAKES
def test_errors_at_other_scales_are_found_early(changes, words, paths):
    later = {
        "seeds": [0],
        "compare": "full",
        "note": "later",
        "experiments": {"p": {"one": changes}},
    }
    settings = params(scales={"later": later})
    assert plan_experiments(settings, paths)["p"]["one"].runs
    with pytest.raises(UserError) as caught:
        resolve.check_other_scales(settings)
    assert words in str(caught.value) and "/workflow/papers/p/scales.yaml: later.one: " in str(
        caught.value
    )


def test_invalid_studies_at_other_scales_are_found_early():
    def check(**changes):
        later = {
            "seeds": [0],
            "compare": "full",
            "note": "later",
            "experiments": {"p": {"one": changes}},
        }
        resolve.check_other_scales(params(scales={"later": later}))

    asked = {"tsne": {"rounds": [9], "images": 4}}
    with pytest.raises(
        UserError, match=r"p/scales.yaml: later.one: studies.tsne: rounds: .* 3 \(got 9\)$"
    ):
        check(studies=asked)
    check(studies=asked, rounds=9)
    check(studies={"tsne": None})


def test_run_lists_are_written_and_read(paths, tmp_path):
    runs = unique_runs(all_experiments(plan_experiments(params(), paths)))
    finish(runs[0])
    run_list.write(runs, [], tmp_path / "runs.json")
    elsewhere = Paths(results=tmp_path / "elsewhere")
    found = list(run_list.read(tmp_path / "runs.json", elsewhere))
    assert [run.folder for run in found] == [elsewhere.runs("p") / run.id for run in runs[1:]]
    assert [run.config_record() for run in found] == [run.config_record() for run in runs[1:]]
    records = json.loads((tmp_path / "runs.json").read_text())
    for wrong in ([], {"newcomers": 7}):
        (tmp_path / "runs.json").write_text(json.dumps([records[0] | {"studies": wrong}]))
        with pytest.raises(
            UserError, match="runs.json: .*: studies: expected name -> list of settings"
        ):
            run_list.read(tmp_path / "runs.json", elsewhere)
    records[0]["code"] = "older"
    (tmp_path / "runs.json").write_text(json.dumps(records))
    with pytest.raises(UserError, match="planned with other code than this machine has"):
        run_list.read(tmp_path / "runs.json", elsewhere)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        *(
            ("folder", folder, "is not that of its run")
            for folder in ("../..", "..", "/", "", "x", "p/x", "P\0/NAME", 3)
        ),
        ("folder", "../NAME", "is not that of its run"),
        ("config", {"model": "huge"}, "unknown model 'huge'"),
        ("config", {"model": {"name": "../x"}}, "unknown model"),
        ("config", {"seed": None}, "seed: "),
        ("data", None, "is not that of its run"),
    ],
)
def test_run_lists_with_other_folders_are_refused(key, value, words, paths, tmp_path):
    runs = experiments.unique_runs(
        experiments.all_experiments(experiments.plan_experiments(params(), paths))
    )[:1]
    run_list.write(runs, [], tmp_path / "runs.json")
    [record] = json.loads((tmp_path / "runs.json").read_text())
    changed = record[key] | value if key == "config" else value
    changed = changed.replace("NAME", runs[0].id) if isinstance(changed, str) else changed
    (tmp_path / "runs.json").write_text(json.dumps([record | {key: changed}]))
    with pytest.raises(UserError, match=words):
        run_list.read(tmp_path / "runs.json", paths)


@pytest.mark.parametrize("text", ["", "{}", "{}}", "null", '{"a": 1}', "[1]", '[{"config": {}}]'])
def test_invalid_run_lists_are_refused(text, paths, tmp_path):
    (tmp_path / "runs.json").write_text(text)
    with pytest.raises(
        UserError, match="runs.json: damaged.*; write it with: fedrepro plan --export"
    ):
        run_list.read(tmp_path / "runs.json", paths)


def test_files_that_cannot_be_read_or_written(paths, tmp_path):
    with pytest.raises(UserError, match="absent.json: cannot be read"):
        run_list.read(tmp_path / "absent.json", paths)
    with pytest.raises(UserError, match="runs.json: cannot be written"):
        run_list.write([], [], tmp_path / "absent" / "runs.json")


def test_a_partitions_file_is_named_by_what_it_depends_on(paths):
    run = plan_experiments(params(), paths)["p"]["one"].runs[0]
    stored = paths.partition(run.config, run.data)
    assert stored.name.startswith("digits-iid-s0-") and stored.parent == paths.data / "partitions"
    assert stored == paths.partition(
        run.config.model_copy(update={"lr": 9.0, "rounds": 1}), run.data
    )
    others = [
        run.config.model_copy(update={key: value})
        for key, value in (("seed", 1), ("train_images", 50), ("test_images", 9))
    ]
    assert (
        len(
            {
                stored,
                *(paths.partition(config, run.data) for config in others),
                paths.partition(run.config, "x"),
            }
        )
        == 5
    )


# ---- what is kept


def test_keep_copies_the_small_files_of_finished_runs(paths, history):
    planned = plan_experiments(params(), paths)["p"]
    run = finish(planned["one"].runs[0])
    assert keep.keep([planned["one"]], paths) == [paths.kept("p") / run.id]
    local, shelf = (records.load(folder) for folder in (run.folder, paths.kept("p") / run.id))
    assert shelf == local | {"studies": {}, "environment": shelf["environment"]}
    assert shelf["environment"] == local["environment"] | {"commit_date": "2020-02-02"}
    again = plan_experiments(params(), paths)["p"]
    assert again["one"].runs[0].folder == paths.kept("p") / run.id
    assert keep.keep(list(again.values()), paths) == []


def test_a_shared_run_is_kept_once(paths, history):
    planned = plan_experiments(params(), paths)["p"]
    finish(planned["one"].series[1].runs[0])
    assert len(keep.keep(list(planned.values()), paths)) == 1


def test_keep_replaces_kept_runs_by_those_of_todays_code(paths, history):
    today = plan_experiments(params(), paths)["p"]["one"].runs[0]
    old = kept(today, paths, "old")
    assert keep.keep(
        [plan_experiments(params(), paths)["p"]["one"]], paths
    ) == [] and old.id in records.load_kept(paths.kept("p"))
    finish(today, "round,test_accuracy\n0,0.9\n")
    assert keep.keep([plan_experiments(params(), paths)["p"]["one"]], paths) == [
        paths.kept("p") / today.id
    ]
    (record,) = records.load_kept(paths.kept("p")).values()
    assert (record["run"], record["columns"]) == (today.id, {"round": [0], "test_accuracy": [0.9]})


def test_keep_refuses_to_lose_a_study_of_the_run_that_it_replaces(paths, history):
    today = plan_experiments(params(), paths)["p"]["one"].runs[0]
    old = kept(today, paths, "old")
    study = {
        "code": "c",
        "settings": {},
        "columns": {"round": [], "client": []},
        "environment": {"commit": "abcdef0"},
    }
    shelve(old, records.load(old.folder) | {"studies": {"activations-0123456789": study}})
    finish(today, "round,test_accuracy\n0,0.9\n")
    with pytest.raises(
        UserError, match=f"replaces the kept run {old.id}, but lacks its study activations"
    ):
        keep.keep([plan_experiments(params(), paths)["p"]["one"]], paths)
    assert list(records.load_kept(paths.kept("p"))) == [old.id]


def test_keep_takes_runs_of_older_code_without_newer_ones(paths, history):
    run = plan_experiments(params(), paths)["p"]["one"].runs[0]
    older = asked(run, paths.runs("p"), "own")
    assert keep.keep([plan_experiments(params(), paths)["p"]["one"]], paths) == [
        paths.kept("p") / older.id
    ]
    shutil.rmtree(older.folder)
    asked(run, paths.runs("p"), "own", code=OTHER)  # which is not today's either
    assert keep.keep(
        [plan_experiments(params(), paths)["p"]["one"]], paths
    ) == [] and older.id in records.load_kept(paths.kept("p"))


def test_keep_refuses_code_that_was_not_committed(paths, history):
    """All or nothing, in one message that names the runs."""
    first, second, third, _ = plan_experiments(params(), paths)["p"]["one"].runs
    for run, commit in ((first, f"{first.code}-dirty"), (second, f"{OTHER}-dirty"), (third, OTHER)):
        finish(run, commit=commit)
    with pytest.raises(UserError) as caught:
        keep.keep([plan_experiments(params(), paths)["p"]["one"]], paths)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2 and str(second.folder) in lines[0] and str(third.folder) in lines[1]
    assert (
        f"its code digest is not that of commit {OTHER}" in lines[0]
        and not paths.kept("p").exists()
    )
    shutil.rmtree(second.folder)
    shutil.rmtree(third.folder)
    (new,) = keep.keep([plan_experiments(params(), paths)["p"]["one"]], paths)
    assert records.load(new)["environment"]["commit"] == first.code


def test_keep_names_the_commit_that_has_the_code_by_now(paths, history, monkeypatch):
    """The run was trained before the commit. A recorded commit without a mark of changes is the
    only one that is compared."""
    first, second, *_ = plan_experiments(params(), paths)["p"]["one"].runs
    for run, commit in ((first, f"{OTHER}-dirty"), (second, OTHER)):
        finish(run, commit=commit)
    monkeypatch.setattr(provenance, "current_commit", lambda *modules: f"{first.code}-dirty")
    with pytest.raises(UserError) as caught:
        keep.keep([plan_experiments(params(), paths)["p"]["one"]], paths)
    (lines,) = str(caught.value).splitlines()
    assert str(second.folder) in lines and "or delete it, commit the code and run again" in lines
    shutil.rmtree(second.folder)
    (new,) = keep.keep([plan_experiments(params(), paths)["p"]["one"]], paths)
    assert records.load(new)["environment"]["commit"] == first.code


def test_keep_names_todays_commit_where_the_run_names_none(paths, history, monkeypatch):
    """The run was trained outside a checkout, by the code that is committed here."""
    run = finish(plan_experiments(params(), paths)["p"]["one"].runs[0], commit="unknown")
    monkeypatch.setattr(provenance, "current_commit", lambda *modules: OTHER)
    with pytest.raises(UserError, match=f"its code digest is not that of commit {OTHER}"):
        keep.keep([plan_experiments(params(), paths)["p"]["one"]], paths)
    monkeypatch.setattr(provenance, "current_commit", lambda *modules: run.code)
    (new,) = keep.keep([plan_experiments(params(), paths)["p"]["one"]], paths)
    assert records.load(new)["environment"]["commit"] == run.code


def test_keep_refuses_numbers_that_are_not_the_runs(paths, history):
    """As after copying one machine's folder over another's."""
    run = finish(plan_experiments(params(), paths)["p"]["one"].runs[0])
    run.summary.write_text(run.summary.read_text().replace("0.25", "0.26"))
    with pytest.raises(
        UserError,
        match=r"record\.json: changed since it was written; delete .* to train the run again",
    ):
        keep.keep([plan_experiments(params(), paths)["p"]["one"]], paths)
    assert not paths.kept("p").exists()


def test_prune_lists_what_no_scale_names(paths):
    everything = {
        run
        for scale in ("quick", "long")
        for run in unique_runs(all_experiments(plan_experiments(params(scale=scale), paths)))
    }
    for run in everything:
        finish(run)
    some = next(iter(everything))
    older = Run(paths.runs("p"), some.config, some.data, "older")
    stale = finish(
        replace(older, folder=older.folder / f"digits-fedavg-s0-{run_hash(older.config_record())}")
    )
    safe = kept(some, paths, "x", "other")
    drawn = paths.partition(some.config, some.data)
    drawn.parent.mkdir(parents=True)
    for path in (
        drawn,
        drawn.with_suffix(".png"),
        drawn.with_name("digits-iid-s9-gone.npz"),
        drawn.with_name(".gitignore"),
    ):
        path.write_text("")
    for run in (stale, some):
        shutil.copytree(run.folder, paths.stored("p") / run.id)
    expected = sorted(
        [stale.folder, paths.stored("p") / stale.id, drawn.with_name("digits-iid-s9-gone.npz")]
    )
    for settings in (params(), params(report_only=True), params(scale="long")):
        assert prune.unused(settings, paths, other_code=True) == expected
    assert not {safe.folder, *(run.folder for run in everything)} & {*expected}


def test_folders(paths):
    planned = plan_experiments(params(), paths)["p"]["one"]
    assert experiments.run_folders(planned)["FedAvg"] == [
        run.folder for run in planned.series[1].runs
    ]
    assert Paths().raw == Path("data/raw") and Paths().prepared("mnist") == Path(
        "data/prepared/mnist"
    )


def test_a_scale_cannot_change_an_unknown_series(paths):
    """A new series names its method; without a name the label is misspelt."""
    changed = params(
        scales={"quick": {"experiments": {"p": {"one": {"series": {"FedPrx": {"weight": 2}}}}}}}
    )
    with pytest.raises(
        UserError,
        match=r"p/scales\.yaml: quick\.one: unknown series 'FedPrx': choose from FedMMD, FedAvg",
    ):
        plan_experiments(changed, paths)
