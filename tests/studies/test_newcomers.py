"""New clients of a finished run: how they are drawn and train, the rows of the study, and reports
on it."""

import numpy as np
import pytest
import torch

from fedrepro.algorithms._importance import importance
from fedrepro.algorithms.fedcl import OMEGA
from fedrepro.core.errors import UserError
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.quantities.studies import epochs_to_target
from fedrepro.report.verdicts import claim as claims
from fedrepro.report.verdicts.decide import decide
from fedrepro.runs import reasons
from fedrepro.runs.paths import Paths
from fedrepro.runs.reasons import MissingKind, MissingReason
from fedrepro.studies.newcomers import Adaptation, Newcomers, draw_new_clients
from fedrepro.training.evaluation import evaluate
from fedrepro.training.federation import Federation
from support.federation import (
    advance,
    assert_close,
    config,
    federation,
    images,
    local,
    partition,
    scores,
)
from support.results import OFFICIAL, record
from support.studies import plans

CPU = torch.device("cpu")
NEVER = 1.0  # a target that nobody reaches in the few epochs below


def settings(**changes) -> Newcomers.Params:
    return Newcomers.Params(**{"clients": 3, "target": 0.9, "epochs": 4} | changes)


def permuted(**changes):
    algorithm = {"name": "fedfusion", "operator": "conv"}
    changes = {
        "partition": {"name": "permuted", "clients": 4},
        "algorithm": algorithm,
        "rounds": 1,
    } | changes
    return config(**changes)


def adaptation(chosen: Newcomers.Params, **changes) -> Adaptation:
    """Return the adaptation of new clients after one round of a run."""
    run = permuted(**changes)
    state, _ = advance(federation(run))
    return Adaptation(chosen, run, images(), (state.weights, state.server), CPU)


# ---- who they are


def test_fresh_pixel_orders():
    run = permuted()
    new, old = draw_new_clients(settings(clients=5), run, images()), partition(run, images())
    orders = [tuple(order) for order in (*new.permutations, *old.permutations)]
    assert len(set(orders)) == 5 + 4
    assert all(sorted(order) == list(range(144)) for order in orders)


def test_training_and_test_parts_of_new_clients():
    """As many training images as a client of the run, each at most once; the test images are
    split."""
    new = draw_new_clients(settings(), permuted(), images())
    assert [len(part) for part in new.train] == [20] * 3 and all(
        len(set(part)) == 20 for part in new.train
    )
    assert not np.array_equal(new.train[0], new.train[1])
    assert sorted(np.concatenate(new.test)) == list(range(40)) and [
        len(part) for part in new.test
    ] == [14, 13, 13]
    assert [
        len(part) for part in draw_new_clients(settings(images=50), permuted(), images()).train
    ] == [50] * 3
    cut = draw_new_clients(settings(), permuted(train_images=40, test_images=30), images())
    assert [len(part) for part in cut.train] == [10] * 3 and sum(map(len, cut.test)) == 30
    assert max(map(max, cut.train)) < 40
    whole = permuted(partition={"name": "permuted", "clients": 4, "whole": True})
    assert [len(part) for part in draw_new_clients(settings(), whole, images()).train] == [80] * 3


@pytest.mark.parametrize("removed", [False, True])
def test_new_clients_leave_the_proxy_images_to_the_server(removed):
    run = permuted(train_images=80, proxy={"share": 0.25, "removed": removed})
    new, old = draw_new_clients(settings(clients=9), run, images()), partition(run, images())
    assert np.array_equal(new.proxy, old.proxy) and len(new.proxy) == 20
    # as many as a client of the run
    assert [len(part) for part in new.train] == [15 if removed else 20] * 9
    assert bool(np.intersect1d(np.concatenate(new.train), new.proxy).size) == (not removed)
    Newcomers(settings(images=60), run).check()
    if removed:
        with pytest.raises(UserError, match="^images: .*61"):
            Newcomers(settings(images=61), run).check()


def test_the_same_for_every_series_of_a_seed():
    """So that differences between the methods are paired; another seed has other clients."""
    one, same = (
        draw_new_clients(settings(), permuted(), images()),
        draw_new_clients(settings(), permuted(algorithm={"name": "fedavg"}), images()),
    )
    other = draw_new_clients(settings(), permuted(seed=1), images())
    for mine, equal in (
        (one.permutations, same.permutations),
        (one.train[1], same.train[1]),
        (one.test[1], same.test[1]),
    ):
        assert np.array_equal(mine, equal)
    assert not np.array_equal(one.permutations, other.permutations) and not np.array_equal(
        one.train[1], other.train[1]
    )
    # more clients do not change the first
    many = draw_new_clients(settings(clients=6), permuted(), images())
    assert np.array_equal(one.permutations, many.permutations[:3]) and np.array_equal(
        one.train[1], many.train[1]
    )


# ---- how they train


@pytest.mark.parametrize(
    "algorithm",
    [{"name": "fedfusion", "operator": "multi"}, {"name": "fedprox", "mu": 1.0}],
    ids=str,
)
def test_new_clients_train_as_clients_of_a_round(algorithm, monkeypatch):
    """As in one local training of all epochs: one optimiser, the received model frozen, the first
    learning rate."""
    changes = {
        "algorithm": algorithm,
        "momentum": 0.9,
        "weight_decay": 0.001,
        "lr": 0.01,
        "local_epochs": 1,
    }
    changes |= {"schedule": {"name": "exponential", "decay": 0.5}}
    chosen = settings(target=NEVER, epochs=3)
    found, tested = adaptation(chosen, **changes), []

    def seen(algorithm, measures, weights, *rest):
        tested.append({name: tensor.clone() for name, tensor in weights.items()})
        return evaluate(algorithm, measures, weights, *rest)

    monkeypatch.setattr("fedrepro.studies.newcomers.evaluate", seen)
    curve = list(found.train_client(2))
    assert [epoch for epoch, _ in curve] == [0, 1, 2, 3]
    run = permuted(**changes | {"local_epochs": 3})
    fed = Federation(
        run.model_copy(update={"clients_per_round": 1}),
        images(),
        draw_new_clients(chosen, run, images()),
        CPU,
    )
    ((weights, _),) = local(fed, found.received, [2], run.rounds + 1, 0.01)
    assert_close(tested[-1], fed.algorithm.personalised_weights(weights, found.received), 1e-12)
    part = fed.data.test_part(2, 0)
    assert (
        curve[-1][1]
        == scores(fed, fed.algorithm.personalised_weights(weights, found.received), *part)[0]
    )
    assert curve[0][1] == scores(fed, found.received, *part)[0]


def test_new_clients_get_the_importance_of_the_final_weights():
    """FedCL's server estimates it on the run's final weights, as it would for a next round."""
    changes = {"algorithm": {"name": "fedcl", "importance": "fisher"}, "proxy": {"share": 0.25}}
    run = permuted(**changes)
    fed = federation(run)
    state, _ = advance(fed)
    found = Adaptation(settings(), run, images(), (state.weights, state.server), CPU)
    server = fed.server_view(state)
    omega = importance("fisher", fed.algorithm, state.weights, server.proxy())
    assert omega and all(
        torch.equal(found.received[OMEGA + name], value) for name, value in omega.items()
    )
    # that of the round before
    assert any(not torch.equal(state.server[OMEGA + name], value) for name, value in omega.items())
    without = adaptation(settings(), algorithm={"name": "fedcl", "every": 2}, proxy={"share": 0.25})
    # in a round in which none is sent
    assert without.received.keys() == set(without.federation.algorithm.names)


def test_adaptation_ends_at_the_target():
    apt = {"model": {"width": 0.25}, "lr": 0.02, "momentum": 0.9}
    curve = list(adaptation(settings(target=0.6, epochs=60, images=80), **apt).train_client(0))
    assert (
        curve[-1][1] >= 0.6 > max(accuracy for _, accuracy in curve[:-1]) and 0 < curve[-1][0] < 60
    )
    assert (
        list(adaptation(settings(target=1e-9, epochs=60, images=80), **apt).train_client(0))
        == curve[:2]
    )
    reached = settings(target=curve[-1][1], epochs=60, images=80)
    assert list(adaptation(reached, **apt).train_client(0)) == curve  # at the target is served


# ---- from settings to work


PERMUTED = {"name": "permuted", "clients": 3}


def asked(**changes) -> dict:
    return {
        "partition": PERMUTED,
        "studies": {"newcomers": {"clients": 2, "target": 0.9, "epochs": 1} | changes},
    }


def test_an_estimate_is_of_all_epochs(tmp_path):
    """60 training images: a client of the run has 20; one with 30 costs as much as one of two
    clients."""
    paths = Paths(data=tmp_path / "data", results=tmp_path / "results")
    for held, clients in ((None, 3), (30, 2)):
        given = asked(images=held, epochs=7) | {"measures": ["personal_accuracy_all"]}
        case = plans(given, paths)["newcomers"].study_runs[0]
        run = case.study.cost_bound(case.run.folder)
        assert (run.rounds, run.clients_per_round, run.local_epochs) == (7, 2, 1)
        # nobody else trains, whatever the run measures
        assert run.measures == ("personal_accuracy",)
        assert run.partition.options == case.run.config.partition.options | {"clients": clients}


# ---- reports


def results_of(
    series: dict[str, dict[int, list[int | None]]],
    compare: str = "full",
    skipped: MissingReason | None = None,
) -> Results:
    """Return results of label -> seed -> epochs of each new client; None: not within 4 epochs, with
    an accuracy of at most 60 %."""
    scale = {"none": "quick", "direction": "small", "full": "paper"}[compare]
    note = {
        "paper": "p",
        "experiment": "fig-newcomers",
        "scale": scale,
        "scale_note": "as given",
        "compare": compare,
    }
    note |= reasons.to_note(skipped) | {"training": {}, "series": {}}
    note["settings"] = {"clients": 2, "images": None, "target": 0.9, "epochs": 4}
    found = []
    for label, seeds in series.items():
        algorithm = "fedavg" if label == "None" else "fedfusion"
        runs = [record(algorithm, seed, [0.1], None, OFFICIAL) for seed in seeds]
        note["series"][label] = {"algorithm": {"name": algorithm}, "runs": runs}
        for seed, clients in seeds.items():
            for client, epochs in enumerate(clients):
                curve = [0.6] * 5 if epochs is None else [0.6] * epochs + [0.95]
                found += [
                    {
                        "series": label,
                        "seed": str(seed),
                        "run": "r",
                        "client": str(client),
                        "epoch": str(e),
                        "accuracy": str(a),
                    }
                    for e, a in enumerate(curve)
                ]
    return Results(note, found)


def test_arrivals():
    found = results_of({"Conv": {0: [1, None], 1: [3, 0]}, "None": {0: [4, 4], 1: [2, 2]}})
    assert epochs_to_target(found, "Conv") == {0: {0: 1, 1: None}, 1: {0: 3, 1: 0}}
    found.rows[-1]["accuracy"] = "nan"
    assert epochs_to_target(found, "None")[1] == {0: 2, 1: None}


SAVED = {"kind": "epochs", "series": "Conv", "baseline": "None"}


EPOCHS = {"kind": "epochs", "series": "Conv"}


def of_seeds(conv: list, none: list, compare: str = "full") -> Results:
    """One list of new clients' epochs for each seed."""
    return results_of({"Conv": dict(enumerate(conv)), "None": dict(enumerate(none))}, compare)


@pytest.mark.parametrize(("cell", "conv", "none", "reported", "status"), [
    (EPOCHS, [[1, 2]], [[4, 4]], 2, "open"),  # 1.5 of one seed
    (EPOCHS, [[1, 2], [2, 1]], [[4, 4]] * 2, 2, "supported"),
    (EPOCHS, [[1, None]], [[4, 4]], 2, "open"),
    (EPOCHS, [[None, None]] * 2, [[4, 4]] * 2, 2, "contradicted"),
    (SAVED, [[1, 1]], [[4, 4]], 0.5, "open"),  # 75 % of one seed
    (SAVED, [[1, 1]] * 2, [[4, 4]] * 2, 0.75, "supported"),
    (SAVED, [[1, 1], [2, 2]], [[2, 2], [4, 4]], 0.5, "supported"),  # in pairs
    (SAVED, [[4, 4]] * 2, [[2, 2]] * 2, 0.75, "contradicted"),  # the other direction
    (SAVED, [[1, 1]] * 2, [[None, 4]] * 2, 0.75, "open"),
    (SAVED, [[1, 1]], [[None, 4]], 0.75, "open"),
    (SAVED, [[None, 1]], [[None, 4]], 0.75, "open"),
    (SAVED, [[1, 1]], [[0, 0]], 0.75, "not tested"),  # those of None need no training
    (SAVED, [[1, 1]] * 2, [[4, 4]], 0.75, "not tested"),  # no seed 1 of None
])  # fmt: skip
def test_verdicts(cell, conv, none, reported, status):
    values = {
        "text": "t",
        "source": "s",
        "experiment": "fig",
        "quantity": cell,
        "reported": reported,
    }
    claim = claims.parse_claim(values | {"tolerance": 0.5 if cell == EPOCHS else 0.2}, "test")
    assert decide("key", claim, of_seeds(conv, none), "test_accuracy").status == status


def test_only_the_direction_at_a_smaller_scale():
    values = {"text": "t", "source": "s", "experiment": "fig", "reported": 0.3, "tolerance": 0.1}
    saved, epochs = (
        claims.parse_claim(values | {"quantity": cell}, "t") for cell in (SAVED, EPOCHS)
    )
    found = of_seeds([[1, 1]] * 2, [[4, 4]] * 2, "direction")
    assert decide("key", saved, found, "test_accuracy").status == "supported"
    assert decide("key", epochs, found, "test_accuracy").status == "not tested"
    left_out = results_of({}, skipped=MissingReason(MissingKind.LEFT_OUT, "no"))
    assert decide("key", saved, left_out, "test_accuracy").why == "no"
