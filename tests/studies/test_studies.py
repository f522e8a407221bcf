"""Studies of finished runs: planned, made, interrupted, kept and pruned; replayed rounds are equal
to the bit."""

import json
import shutil
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fedrepro import studies
from fedrepro.cli import main
from fedrepro.config import registry
from fedrepro.config.inheritance import merge
from fedrepro.config.params import DeviceChoice, Params, RunConfig
from fedrepro.core import rng
from fedrepro.core.errors import Failures, UserError
from fedrepro.experiments import keep, prune, run_lookup, study_plan, study_runner
from fedrepro.experiments import plan as experiments
from fedrepro.experiments.cost import missing_work
from fedrepro.experiments.study_plan import StudyRun
from fedrepro.runs import gather, records
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind, MissingReason
from fedrepro.runs.run import Run
from fedrepro.studies import activations, same_class, tsne
from fedrepro.training import checkpoint, replay
from fedrepro.training.replay import Replay
from fedrepro.training.run import Limits
from support import settings
from support.experiments import without_times
from support.federation import (
    STATEFUL,
    a_run,
    advance,
    assert_same,
    config,
    federation,
    images,
    train_run,
)
from support.results import rows
from support.settings import PAPER, SETTINGS, fig
from support.studies import plans

CPU = torch.device("cpu")
FUSION = {"name": "fedfusion", "operator": "multi"}
NAMES = registry.names("studies")
EXAMPLES = {  # settings of a study that takes three units of a run of three rounds, and others
    "activations": ({"every": 1}, {"every": 2}),
    "clients": ({"rounds": [1, 2, 3]}, {"rounds": [1, 3]}),
    "preferences": ({"rounds": [1, 2, 3]}, {"rounds": [1, 2, 3], "over_images": "sum"}),
    "gates": ({"every": 1}, {"every": 2}),
    "same_class": ({"rounds": [1, 2, 3], "images": 2}, {"rounds": [1, 3], "images": 2}),
    "newcomers": (
        {"clients": 3, "target": 1.0, "epochs": 2},
        {"clients": 3, "target": 0.5, "epochs": 2},
    ),
    "tsne": ({"rounds": [1, 2, 3], "images": 4}, {"rounds": [1, 3], "images": 4}),
}


def permuted(**changes):
    changes = {"partition": {"name": "permuted", "clients": 4}, "algorithm": FUSION} | changes
    return config(**changes)


# ---- what each of them is


@pytest.mark.parametrize("name", NAMES)
def test_study_contract(name):
    study = studies.create(name, EXAMPLES[name][0], permuted())
    assert study.name == name and study.title and len(study.columns) > 1 and len(study.units()) == 3
    assert (
        studies.create(name, EXAMPLES[name][0], permuted())
        == study
        != studies.create(name, EXAMPLES[name][1], permuted())
    )
    assert study.snapshots() <= {1, 2, 3} and sys.modules[type(study).__module__].__doc__


# ---- what it leaves


def a_named_run(folder: Path, settings: RunConfig) -> Run:
    """In a folder that is named as its settings want it."""
    run = a_run(folder, settings)
    return replace(run, folder=folder / f"made-s0-{records.run_hash(run.config_record())}")


def table_of(case: StudyRun) -> list[dict[str, str]]:
    return records.rows(records.load_study(case.table)["columns"])


class Made:
    """A finished run on made images, for studies."""

    def __init__(self, folder: Path, monkeypatch, name: str, **changes) -> None:
        self.name, self.run = (
            name,
            a_named_run(folder / "results" / "runs" / "p", permuted(**changes)),
        )
        assert train_run(self.run)
        monkeypatch.setattr(study_runner.runner, "provide_dataset", lambda *arguments: images())
        self.paths = Paths(data=folder / "data", results=folder / "results")

    def case(self, example: int = 0) -> StudyRun:
        return study_plan.find_study(
            self.run, self.name, EXAMPLES[self.name][example], self.paths, "p"
        )

    def conduct(self, case: StudyRun, **options) -> list[StudyRun]:
        return study_runner.run_studies([case], self.paths, device=DeviceChoice("cpu"), **options)

    def patch(self, monkeypatch, changed) -> None:
        """Replace the rows of each unit by `changed(original, unit)`."""
        begin = type(self.case().study).begin

        def other(study, scene):
            answer = begin(study, scene)
            return lambda unit: changed(answer, unit)

        monkeypatch.setattr(type(self.case().study), "begin", other)


@pytest.fixture(params=NAMES)
def made(tmp_path, monkeypatch, request) -> Made:
    return Made(tmp_path, monkeypatch, request.param)


def test_a_study(made, monkeypatch):
    case = made.case()
    assert case.table.parent == made.run.folder and not case.done_file.exists()
    assert case.table.name.startswith(f"{made.name}-")
    assert made.conduct(case) == []
    found = table_of(case)
    assert tuple(found[0]) == case.study.columns
    assert list(dict.fromkeys(int(row[case.study.columns[0]]) for row in found)) == list(
        case.study.units()
    )
    note = json.loads(case.done_file.read_text())
    assert (
        note["settings"] == case.study.settings.model_dump(mode="json")
        and note["run"] == made.run.id
    )
    assert note["environment"]["device"] == "cpu" and note["code"]
    assert made.case(1).table != case.table
    monkeypatch.setattr(type(case.study), "begin", None)
    assert made.conduct(made.case()) == []  # done is done


def test_a_killed_study_resumes_to_the_same_table(made, monkeypatch):
    case = made.case()
    whole = made.conduct(case) or case.table.read_bytes()
    case.done_file.unlink()
    first, second, *_ = case.study.units()
    with monkeypatch.context() as patch:
        made.patch(
            patch,
            lambda answer, unit: (
                answer(unit) if unit != second else (_ for _ in ()).throw(KeyboardInterrupt)
            ),
        )
        with pytest.raises(KeyboardInterrupt):
            made.conduct(case)
    assert units(case) == [str(first)] and not case.done_file.exists()
    made.patch(
        monkeypatch, lambda answer, unit: answer(unit) if unit != first else pytest.fail("again")
    )
    assert (
        made.conduct(case) == []
        and case.table.read_bytes() == whole
        and not case.partial_file.exists()
    )


def failing(monkeypatch, case: StudyRun) -> None:
    """Make this study fail, and no other."""
    begin = type(case.study).begin
    fails = lambda study, scene: 1 / 0 if study == case.study else begin(study, scene)  # noqa: E731
    monkeypatch.setattr(type(case.study), "begin", fails)


@pytest.mark.parametrize("made", NAMES[:1], indirect=True)
def test_finished_studies_survive_a_failure_in_their_job(made, monkeypatch):
    first, second, failures = made.case(0), made.case(1), Failures()
    with monkeypatch.context() as patch:
        failing(patch, second)
        study_runner.run_studies(
            [first, second],
            made.paths,
            device=DeviceChoice("cpu"),
            together=True,
            failures=failures,
        )
    assert len(failures.by_name) == 1
    whole = first.table.read_bytes()
    first.done_file.unlink()  # so does Snakemake: it is an output of the job that failed
    with monkeypatch.context() as patch:
        made.patch(patch, lambda answer, unit: pytest.fail("again"))
        assert made.conduct(first) == [] and first.table.read_bytes() == whole
    assert not first.partial_file.exists()


def units(case) -> list[str]:
    """Return the units that an unfinished study has done."""
    return list(
        dict.fromkeys(
            row[0] for row in json.loads(case.partial_file.read_text(encoding="utf-8"))["rows"]
        )
    )


def test_a_deadline(made, monkeypatch):
    case = made.case()
    assert made.conduct(case, deadline=0.0) == [case] and not case.partial_file.exists()
    calls = []
    # before the work, before the first unit, before the second
    with monkeypatch.context() as patch:
        patch.setattr(
            Limits, "forbid", lambda self, seconds: calls.append(seconds) or len(calls) == 3
        )
        made.patch(patch, lambda answer, unit: [(0.5,) * (len(case.study.columns) - 1)])
        assert made.conduct(case) == [case]
    assert units(case) == [str(case.study.units()[0])]
    assert made.conduct(case) == [] and case.done_file.exists()


def test_other_data(made, monkeypatch):
    data = images()
    data.meta["identity"] = "other"
    monkeypatch.setattr(study_runner.runner, "provide_dataset", lambda *arguments: data)
    with pytest.raises(UserError, match="made-s0"):
        made.conduct(made.case())


def test_studies_use_the_runs_executor(made):
    """Another one rounds sums differently."""
    record = records.load(made.run.folder)
    for recorded, used in (
        ("stacked", "stacked"),
        ("sequential", "sequential"),
        ("stacked+graph", "auto"),
    ):
        records.write(
            made.run.summary,
            record | {"environment": record["environment"] | {"executor": recorded}},
        )
        assert study_runner.recorded_executor(made.run, CPU) == used


@pytest.mark.parametrize(
    ("name", "lr", "rounds"),
    [
        ("activations", 3e38, {"1"}),
        ("tsne", 1e30, set()),
        ("clients", 1e30, set()),
        ("same_class", 1e30, set()),
        ("gates", 1e30, set()),
    ],
)
def test_a_run_that_diverged_has_the_rounds_before(name, lr, rounds, tmp_path, monkeypatch):
    made = Made(tmp_path, monkeypatch, name, lr=lr)
    assert (
        made.conduct(made.case()) == []
        and {row["round"] for row in table_of(made.case())} == rounds
    )


# ---- rounds again


LIVELY = {
    "partition": {"name": "classes", "clients": 4, "redraw": True},
    "model": {"dropout": 0.2},
    "augment": ("crop", "flip"),
    "momentum": 0.9,
    "lr": 0.02,
    "precision": "float32",
}


def finished(folder: Path, executor: str, snapshots: frozenset[int], **changes):
    run = a_named_run(folder, config(**LIVELY | changes))
    assert train_run(run, executor, snapshots)
    return run


@pytest.mark.parametrize("name", STATEFUL)
def test_a_replayed_round_has_the_same_bits(name, tmp_path):
    run = finished(tmp_path, "auto", frozenset({3}), algorithm={"name": name}, precision="float64")
    again = Replay(federation(run.config), run.folder, {3})
    assert again.reach(3)
    found, (final, _) = (
        again.round().after,
        checkpoint.load(run.folder / "model.safetensors", run.id),
    )
    assert_same(found.weights, final.weights)
    assert_same(found.server, final.server)
    whole, _ = advance(federation(run.config))
    assert found.clients.keys() == whole.clients.keys() and not final.clients
    for number, state in whole.clients.items():
        assert_same(found.clients[number].tensors, state.tensors)


def test_storing_snapshots_does_not_change_a_run(tmp_path):
    plain, watched = (
        finished(tmp_path / name, "auto", frozenset(rounds))
        for name, rounds in (("a", ()), ("b", (1, 3)))
    )
    for round in (1, 3):
        state, stored = checkpoint.load(replay.snapshot_path(watched.folder, round), watched.id)
        expected, _ = advance(federation(watched.config), round - 1)
        assert_same(state.weights, expected.weights)
        assert (state.round, stored) == (round - 1, [])
    assert sorted(path.name for path in watched.folder.iterdir() if path.is_dir()) == ["snapshots"]
    assert without_times(plain.folder) == without_times(watched.folder)
    assert (plain.folder / "model.safetensors").read_bytes() == (
        watched.folder / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(("factor", "refused"), [(1 + 1e-5, False), (1.01, True)])
def test_rounds_that_are_not_those_of_the_run_are_refused(factor, refused, tmp_path):
    """As on a machine that rounds differently, if that changes the result."""
    run = finished(tmp_path, "sequential", frozenset())
    record = records.load(run.folder)
    record["columns"]["train_loss"][2] *= factor
    records.write(run.summary, record)
    again = Replay(federation(run.config, executor="sequential"), run.folder, {2, 3})
    with pytest.raises(UserError, match="round 2") if refused else nullcontext():
        assert again.reach(2) and again.round().round == 2
    # what was on the way is not the run's either
    assert replay.stored_rounds(run.folder) == ([] if refused else [2])


@pytest.mark.parametrize(("every", "stored", "over", "rounds"), [
    (1, (), False, 3),  # each round once
    (1, (), True, 3),
    (2, (), True, 3),  # 1, then 2 on the way to 3
    (2, (3,), True, 2),
    (2, (2,), True, 3),
    (2, (), False, 2),  # the run will store it
    (3, (2, 3), True, 1),
])  # fmt: skip
def test_cost_bounds_count_replayed_rounds(tmp_path, every, stored, over, rounds):
    for round in stored:
        path = replay.snapshot_path(tmp_path, round)
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    if over:
        (tmp_path / "record.json").write_text("")
    assert (
        studies.create("activations", {"every": every}, config()).cost_bound(tmp_path).rounds
        == rounds
    )


# ---- activations


def test_divergences_by_hand():
    """Two clients, two units. softmax (ln 3, 0) = (3/4, 1/4); the mean's, (ln 3 / 2, ln 3 / 2)
    here: (1/2, 1/2)."""
    three = torch.log(torch.tensor(3.0, dtype=torch.float64))
    means = torch.stack([torch.stack([three, 0 * three]), torch.stack([0 * three, three])])
    expected = (
        0.75 * torch.log(torch.tensor(1.5).double()) + 0.25 * torch.log(torch.tensor(0.5).double())
    ) / 2
    assert torch.allclose(activations.divergences(means), expected.expand(2), rtol=0, atol=1e-15)
    assert expected == pytest.approx(0.0654060, abs=1e-7)
    assert activations.divergences(means[:1].expand(3, 2)).abs().max() < 1e-16  # who agree


@pytest.mark.parametrize("augment", [(), ("flip",)], ids=["plain", "augmented"])
def test_a_mean_activation_is_over_the_clients_own_images(augment, monkeypatch):
    """Augmented once, as in training, by the client's network after training, independent of
    chunks."""
    monkeypatch.setattr(activations, "CHUNK", 7)
    algorithm = {"name": "fedfusion", "operator": "conv"}
    fed = federation(
        permuted(algorithm=algorithm, augment=augment, partition={"name": "iid", "clients": 4})
    )
    again = Replay(fed, Path("nowhere"), ())
    assert again.reach(1)
    trained = again.round().trainings[-1]
    client, own = (
        trained.client.number,
        fed.algorithm.personalised_weights(trained.weights, trained.received),
    )
    changes = rng.generator(fed.config.seed, "activations", 1, client) if augment else None
    chunks = fed.data.train_index(client, 1).split(7)
    seen = [
        fed.algorithm.forward(own, fed.data.images(chunk, client, changes)).penultimate
        for chunk in chunks
    ]
    found = activations.mean_activation(fed, 1, trained)
    assert (
        torch.allclose(found, torch.cat(seen).mean(0), rtol=1e-12, atol=1e-14)
        and found.abs().max() > 0
    )


# ---- accuracies of clients


@pytest.mark.parametrize("name", ["fedavg", "fedper", "fedfusion"])
def test_accuracies_of_clients(name, tmp_path, monkeypatch):
    """Their mean over all test images is the accuracy of the test set; own weights are those that a
    client starts from next."""
    measures = ["test_accuracy", "initial_accuracy_all"]
    settings = {
        "partition": {"name": "shards", "clients": 4},
        "algorithm": {"name": name},
        "measures": measures,
        "lr": 0.05,
    }
    made = Made(tmp_path, monkeypatch, "clients", **settings)
    made.conduct(made.case())
    found, fed = table_of(made.case()), federation(made.run.config)
    _, measured = advance(fed)
    for round in (1, 2):
        mine = {
            int(row["client"]): (int(row["images"]), float(row["accuracy"]))
            for row in found
            if row["round"] == str(round)
        }
        assert [mine[client][0] for client in range(4)] == [
            len(part) for part in fed.data.partition.test
        ]
        if name != "fedper":
            mean = sum(count * accuracy for count, accuracy in mine.values()) / sum(
                count for count, _ in mine.values()
            )
            assert mean == pytest.approx(measured[round]["test_accuracy"])
        if name != "fedfusion":  # which tests the global model with another extractor
            assert np.mean([accuracy for _, accuracy in mine.values()]) == pytest.approx(
                measured[round + 1]["initial_accuracy_all"]
            )


# ---- activations in a plane


def test_rows_of_tsne(tmp_path, monkeypatch):
    """Some images of the chosen clients, in rounds in which they take part, with coordinates in
    0..1 and the run's accuracy."""
    made = Made(tmp_path, monkeypatch, "tsne", **LIVELY)
    case = study_plan.find_study(
        made.run, "tsne", {"rounds": [1, 2, 3], "clients": [0, 2], "images": 6}, made.paths, "p"
    )
    made.conduct(case)
    found, fed = table_of(case), federation(made.run.config)
    for round in (1, 2, 3):
        mine = [row for row in found if row["round"] == str(round)]
        present = [client for client in fed.cohort(round) if client in (0, 2)]
        assert [int(row["client"]) for row in mine] == [
            client for client in present for _ in range(6)
        ]
        for axis in ("x", "y"):
            values = [float(row[axis]) for row in mine]
            assert not values or (min(values) == 0 and max(values) == 1)
        accuracy = records.load(made.run.folder)["columns"]["test_accuracy"][round]
        assert all(float(row["accuracy"]) == pytest.approx(accuracy) for row in mine)
    held = {
        client: set(fed.data.train_y[fed.data.train_index(client, 1)].tolist()) for client in (0, 2)
    }
    assert all(
        int(row["class"]) in held[int(row["client"])] for row in found if row["round"] == "1"
    )


def test_tsne_uses_weights_after_local_training(monkeypatch):
    """With what clients have besides their weights; the same images in every round, not augmented;
    the accuracy is that after the round."""
    settings = permuted(
        augment=("flip",), partition={"name": "iid", "clients": 4}, clients_per_round=4
    )
    fed, seen, tested = federation(settings), [], []
    monkeypatch.setattr(tsne, "embed", lambda rows: seen.append(rows) or np.zeros((len(rows), 2)))
    monkeypatch.setattr(
        fed, "evaluate_global", lambda *given: tested.append(given) or {"test_accuracy": 0.25}
    )
    again = Replay(fed, Path("nowhere"), ())
    assert again.reach(2)
    replayed = again.round()
    rows = list(
        studies.create("tsne", {"rounds": [2], "images": 5}, fed.config).measure(fed, replayed)
    )
    weights, server, _ = tested[-1]
    assert (
        weights is replayed.after.weights
        and server is replayed.after.server
        and all(row[-1] == 0.25 for row in rows)
    )
    last = min(replayed.trainings, key=lambda trained: trained.client.number)
    number, own = (
        last.client.number,
        fed.algorithm.personalised_weights(last.weights, last.received),
    )
    held = fed.data.train_index(number, 2)
    index = held[torch.randperm(len(held), generator=rng.generator(0, "tsne", client=number))[:5]]
    expected = fed.algorithm.forward(own, fed.data.images(index, number, None)).penultimate
    assert np.allclose(seen[0][:5], expected.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize(("points", "perplexity"), [(400, 30), (31, 10)])
def test_tsne_options_are_those_of_the_authors_code(points, perplexity, monkeypatch):
    asked = []

    class Recorded:
        def __init__(self, **options):
            asked.append(options)

        def fit_transform(self, rows):
            return rows[:, :2]

    monkeypatch.setattr("sklearn.manifold.TSNE", Recorded)
    tsne.embed(np.random.default_rng(0).normal(size=(points, 3)))
    assert asked == [
        {
            "init": "pca",
            "method": "exact",
            "perplexity": perplexity,
            "learning_rate": 200,
            "random_state": 0,
        }
    ]


# ---- activations by class


def test_distances_within_and_between_classes_by_hand():
    """Device 0 has (0, 0) for class 0 and (1, 1) for class 1, device 1 (3, 4) for class 0: 9 + 16
    within, 4 + 9 between."""
    means = torch.tensor([[0.0, 0], [1, 1], [3, 4]], dtype=torch.float64)
    devices, classes = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0])
    p, q = np.array([0.5, 0.5]), np.exp([3, 4]) / np.exp([3, 4]).sum()
    kl = ((p * np.log(p / q)).sum() + (q * np.log(q / p)).sum()) / 2 / 2  # both ways, of two units
    assert same_class.distances(means, devices, classes) == pytest.approx(
        (25, 13, np.log(25 / 13), kl), rel=1e-14
    )
    assert same_class.distances(10 * means, devices, classes)[2] == pytest.approx(
        np.log(25 / 13), rel=1e-14
    )
    # dead
    assert same_class.distances(0 * means, devices, classes) == (
        0,
        0,
        None,
        pytest.approx(0, abs=1e-15),
    )
    # a single device
    assert same_class.distances(means[:2], devices[:2], classes[:2]) == (None, None, None, None)
    # no class in common
    assert same_class.distances(means, devices, torch.tensor([0, 1, 2]))[0] is None


def test_activations_by_class_after_local_training():
    """In NumPy, pair by pair: of each device's own network, the same images of a class in every
    round, not augmented."""
    settings = permuted(
        augment=("flip",), partition={"name": "shards", "clients": 4}, clients_per_round=4, lr=0.02
    )
    fed = federation(settings)
    again = Replay(fed, Path("nowhere"), ())
    assert again.reach(2)
    replayed = again.round()
    means = {}
    for trained in replayed.trainings:
        number, own = (
            trained.client.number,
            fed.algorithm.personalised_weights(trained.weights, trained.received),
        )
        held = fed.data.train_index(number, 2)
        held = held[
            torch.randperm(len(held), generator=rng.generator(0, "same_class", client=number))
        ]
        for label in sorted({*fed.data.train_y[held].tolist()}):
            index = held[fed.data.train_y[held] == label][:3]
            found = fed.algorithm.forward(own, fed.data.images(index, number, None)).penultimate
            means[number, label] = found.detach().numpy().mean(0)
    same, other, kl = [], [], []
    for (device, label), one in means.items():
        for (peer, peers), two in means.items():
            if device != peer:
                (same if label == peers else other).append(((one - two) ** 2).sum())
            if device != peer and label == peers:
                p, q = (np.exp(values) / np.exp(values).sum() for values in (one, two))
                kl.append((p * np.log(p / q)).sum() / len(p))
    expected = np.mean(same), np.mean(other), np.log(np.mean(same) / np.mean(other)), np.mean(kl)
    [row] = studies.create("same_class", {"rounds": [2], "images": 3}, fed.config).measure(
        fed, replayed
    )
    assert (
        row == pytest.approx(expected, rel=1e-9)
        and len(same) >= 4
        and abs(row[2]) > 0.1
        and row[3] > 1e-6
    )


# ---- gates


@pytest.mark.parametrize(("every", "rounds"), [(1, [1, 2, 3]), (2, [2, 3]), (5, [3])])
def test_gates_are_the_servers_and_train_nothing_again(every, rounds, tmp_path, monkeypatch):
    run = finished(tmp_path / "results" / "runs" / "p", "auto", frozenset({2, 3}), algorithm=FUSION)
    data = images()
    monkeypatch.setattr(study_runner.runner, "provide_dataset", lambda *arguments: data)
    monkeypatch.setattr(Replay, "_advance", lambda *arguments: pytest.fail("trained again"))
    paths = Paths(data=tmp_path / "data", results=tmp_path / "results")
    case = study_plan.find_study(run, "gates", {"every": every}, paths, "p")
    assert study_runner.run_studies([case], paths, device=DeviceChoice("cpu")) == []
    fed, expected = federation(run.config), []
    for round in rounds:
        gates = advance(fed, round)[0].weights["fusion.gate"].flatten().tolist()
        expected += [(str(round), str(place), str(gate)) for place, gate in enumerate(gates)]
    assert [tuple(row.values()) for row in table_of(case)] == expected and len(expected) > len(
        rounds
    )
    assert case.study.snapshots() <= {2, 3} and min(abs(float(row[2])) for row in expected) > 1e-9


# ---- from settings to a kept result

SMALL = {
    "newcomers": {"clients": 2, "target": 0.9, "epochs": 1},
    "activations": {"every": 1},
    "clients": {"rounds": [1, 2]},
    "gates": {"every": 1},
    "preferences": {"rounds": [1, 2]},
    "same_class": {"rounds": [1, 2], "images": 3},
    "tsne": {"rounds": [1, 2], "images": 3},
}
MORE = {
    "newcomers": {"epochs": 2},
    "activations": {"every": 3},
    "clients": {"rounds": [1]},
    "gates": {"every": 2},
    "preferences": {"rounds": [1]},
    "same_class": {"rounds": [1]},
    "tsne": {"rounds": [1]},
}
# in place of the series of SETTINGS
GATED = {"FedAvg": FUSION, "Prox": FUSION | {"operator": "single"}}
BASE = {"partition": {"name": "permuted", "clients": 3}, "rounds": 2, "series": GATED}


def asked(name: str, **changes) -> dict:
    return BASE | {"studies": {name: SMALL[name] | changes}}


@pytest.fixture
def paths(tmp_path) -> Paths:
    return Paths(data=tmp_path / "data", results=tmp_path / "results")


def test_what_studies_cost(paths):
    """One of two rounds is trained again, on one core although runs have more; new clients train
    one after the other."""
    changes = BASE | {
        "studies": {"tsne": {"rounds": [1], "images": 3}, "newcomers": SMALL["newcomers"]}
    }
    for device, asked, cores in (("cpu", 1, 1), ("cpu", 2, 2), ("cuda", 2, 1)):
        machine = {"device": device, "cores_per_run": asked, "executor": "stacked"}
        params = settings.params(merge(merge(SETTINGS, fig(**changes)), machine))
        planned = experiments.planned_work(
            [experiments.plan_experiments(params, paths)["p"]["fig"]]
        )
        found = missing_work(planned, params, paths)
        assert [entry.is_study for entry in found] == [False] * 2 + [True] * 4 and found[
            0
        ].cost.cores == cores
        cost = {entry.group: entry.cost for entry in found}
        plane, new = (cost[f"{TITLES[name]} after them, at most"] for name in ("tsne", "newcomers"))
        assert plane.cores == new.cores == 1 and plane.samples == found[0].cost.samples / 2


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"newcomer": {}}, "unknown study 'newcomer'"),
        ({"newcomer": None}, "unknown study 'newcomer'"),
        ({"activations": {"evry": 1}}, "study activations: evry"),
        ({"activations": {"every": 0}}, "study activations: every"),
        ({"activations": 3}, "studies.activations"),
        ({"newcomers": {"clients": 3}}, "study newcomers: target"),
        # of 30 test images
        ({"newcomers": SMALL["newcomers"] | {"clients": 31}}, "studies.newcomers: clients"),
        ({"newcomers": SMALL["newcomers"] | {"images": 61}}, "studies.newcomers: images"),  # of 60
        ({"tsne": {"rounds": [2, 1]}}, "study tsne: rounds"),
        ({"tsne": {"rounds": []}}, "study tsne: rounds"),
        ({"tsne": {"rounds": [1, 3]}}, "studies.tsne: rounds"),  # of 2
        ({"tsne": {"images": 1}}, "study tsne: images"),
        ({"same_class": {}}, "studies.same_class: rounds"),  # of 2
        ({"gates": {"every": 0}}, "study gates: every"),
        ({"tsne": {"rounds": [1], "clients": [0, 3]}}, "studies.tsne: clients"),  # of 0 to 2
    ],
)
def test_errors_name_the_key(values, key, paths):
    """Before anything is trained."""
    with pytest.raises(UserError, match="workflow/papers/p/experiments.yaml: fig: ") as error:
        plans(BASE | {"studies": values}, paths)
    assert key in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"series": {"FedAvg": {"name": "fedavg", "overrides": {"studies": {}}}}},
        {
            "partition": {"name": "iid", "clients": 3},
            "studies": {"newcomers": {"clients": 2, "target": 0.9, "epochs": 1}},
        },
        {"studies": {"gates": {}}},
        {
            "studies": {"gates": {}},
            "series": {"FedAvg": FUSION | {"operator": "conv"}, "Prox": FUSION},
        },
    ],
)
def test_studies_that_do_not_suit_an_experiment(changes, paths):
    """One set for a single series; new clients if clients' pixel orders do not differ; gates of a
    method without any."""
    with pytest.raises(
        UserError, match=r"experiments\.yaml: fig: .*(overrides: |permute_pixels|gates: )"
    ):
        plans(changes, paths)


def gathered(name: str, changes: dict, out: Path) -> tuple[dict, list[dict[str, str]]]:
    params = settings.params(merge(SETTINGS, fig(**changes)))
    item = experiments.plan_experiments(params, Paths())["p"]["fig"]
    gather.gather(experiments.result_sources(item, name, params), out)
    return json.loads((out / f"fig-{name}.json").read_text()), rows(out / f"fig-{name}.csv")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("FEDREPRO_DATA_MIRROR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(changes: dict) -> Params:
    values = merge(SETTINGS, fig(**changes))
    return settings.params(values, Path())


ALL = BASE | {"studies": SMALL}
TITLES = {name: registry.find("studies", name).title for name in NAMES}


def made_in(folder: str) -> list[Path]:
    return sorted(path for name in NAMES for path in Path(folder).glob(f"p/*/{name}-*.json"))


def shelved() -> list[tuple[str, str]]:
    """List the kept studies: run and name."""
    return [
        (run, name)
        for run, record in records.load_kept(Paths().kept("p")).items()
        for name in record["studies"]
    ]


def test_from_the_command_line_to_kept_results(here, capsys):
    """Planned with their cost, trained, made, gathered, kept, found again without the weights, and
    pruned once nothing names them."""
    write(ALL)
    assert main.main(["plan", "--export", "runs.json"]) == 0
    output = capsys.readouterr().out
    assert all(f"{title} after them, at most" in output for title in TITLES.values())
    assert main.main(["train", "--runs", "runs.json", "--device", "cpu"]) == 0
    tables = made_in("results/runs")
    made = {path: path.stat().st_mtime_ns for path in tables}
    assert main.main(["train"]) == 0 and {path: path.stat().st_mtime_ns for path in tables} == made
    assert len(tables) == 2 * len(NAMES)
    assert [path.name for path in Path("results").glob("runs/p/*/snapshots/*")] == [
        "round-2.safetensors"
    ] * 2
    assert main.main(["plan"]) == 0
    output = capsys.readouterr().out
    assert not any(title in output for title in TITLES.values())
    assert main.main(["prune"]) == 0 and capsys.readouterr().err.startswith("nothing to prune: ")
    check_gathered(here)

    assert main.main(["keep"]) == 0 and capsys.readouterr().out.startswith("p digits-")
    assert main.main(["keep"]) == 0 and capsys.readouterr().out.startswith("nothing to keep: ")
    assert sorted(shelved()) == sorted((path.parent.name, path.stem) for path in tables)
    for path in tables:
        kept = records.load_study(Paths().kept("p") / path.parent.name / path.name)
        assert {"run": path.parent.name} | kept == records.load_study(path)
    found = plans(ALL, Paths())
    assert all(
        "kept" in case.table.parts for studied in found.values() for case in studied.study_runs
    )
    assert (
        experiments.planned_work(
            [
                experiments.plan_experiments(settings.params(merge(SETTINGS, fig(**ALL))), Paths())[
                    "p"
                ]["fig"]
            ]
        )
        == []
    )

    # other numbers: what they start from still lies in the runs' folders, which are needed for that
    more = {"studies": {name: SMALL[name] | MORE[name] for name in NAMES}}
    found = plans(BASE | more, Paths())
    assert all(
        "runs" in case.table.parts for studied in found.values() for case in studied.study_runs
    )
    reasons = {
        name: MissingReason(MissingKind.NOT_FINISHED, missing=2, total=2, study=title)
        for name, title in TITLES.items()
    }
    assert {
        name: item.skipped for name, item in plans(BASE | more, Paths(), report_only=True).items()
    } == reasons
    params = settings.params(merge(SETTINGS, fig(**BASE | more)))
    # the finished studies, kept meanwhile, and their snapshots; not the folders
    stale = prune.unused(params, Paths())
    assert sorted(path.name.partition("-")[0] for path in stale) == sorted(
        [*NAMES * 2, "round", "round"]
    )

    shutil.rmtree("results/runs/p")
    reasons = {
        name: MissingReason(MissingKind.WEIGHTS_GONE, missing=2, total=2, study=title)
        for name, title in TITLES.items()
    }
    assert {name: item.skipped for name, item in plans(BASE | more, Paths()).items()} == reasons
    write(BASE | more)
    settings.place_paper(Path(), PAPER)
    capsys.readouterr()
    assert main.main(["list"]) == 0
    listed = capsys.readouterr().out
    assert f"2 of {2 + len(NAMES)} runs" in listed and all(
        str(reason) in listed for reason in reasons.values()
    )
    assert {item.skipped for item in plans(ALL, Paths()).values()} == {None}


def check_gathered(out: Path) -> None:
    nothing = {"studies": dict.fromkeys(NAMES)}
    for name, found in plans(ALL, Paths()).items():
        note, table = gathered(name, ALL, out)
        study, config = (
            found.study_runs[0].study,
            found.study_runs[0].run.config.model_dump(mode="json"),
        )
        assert (note["study"], note["settings"]) == (name, study.settings.model_dump(mode="json"))
        assert (
            note["series"]["FedAvg"]["config"] == config
            and note["series"]["FedAvg"]["runs"][0]["seed"] == 0
        )
        assert tuple(table[0]) == ("series", "seed", "run", *study.columns)
        note, table = gathered(name, nothing, out)
        assert (note["settings"], note["series"], table) == (None, {}, [])
        assert note["reason"] == {"kind": "no study", "study": study.title}


def test_studies_of_kept_runs_are_kept_later(here, capsys):
    """Of runs that were kept before the studies were requested. Code without a commit is refused
    first, and a study follows the run that its note names."""
    write(BASE)
    assert main.main(["train"]) == 0 and main.main(["keep"]) == 0
    params = write(ALL)
    # of runs that are kept, where their weights lie
    assert main.main(["plan", "--export", "runs.json"]) == 0
    assert [sorted(record["studies"]) for record in json.loads(Path("runs.json").read_text())] == [
        NAMES
    ] * 2
    assert main.main(["train"]) == 0
    path = made_in("results/runs")[0]
    record = records.load_study(path)
    records.write(path, record | {"code": "other"})
    capsys.readouterr()
    assert main.main(["keep"]) == 2 and f"error: {path}: " in capsys.readouterr().err
    records.write(path, record)
    assert shelved() == []
    item = experiments.plan_experiments(params, Paths())["p"]["fig"]
    own = {("p", run_lookup.run_key(run.config, run.data)): run.id for run in item.runs}
    assert (
        list(keep.studies_to_keep(item, Paths(), dict.fromkeys(own, "digits-fedavg-s0-0123456789")))
        == []
    )
    assert main.main(["keep"]) == 0 and "kept 2 runs" in capsys.readouterr().out
    assert len(shelved()) == 2 * len(NAMES)
