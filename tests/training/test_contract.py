"""The contract between a method and the engine: inputs of hooks, kept state, phases of rounds,
measures."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedrepro.algorithms import fednova
from fedrepro.algorithms.base import Client, ClientOutput, FedAvg
from fedrepro.config.types import Choice
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.core.metrics import MEASURES
from fedrepro.experiments.resolve import resolve
from fedrepro.models import tasks
from fedrepro.training import schedules
from fedrepro.training.evaluation import macro_f1
from fedrepro.training.federation import columns
from fedrepro.training.round import OTHERS, RoundExecution, message_bytes, run_round
from support.federation import (
    advance,
    assert_close,
    assert_same,
    config,
    federation,
    images,
    scores,
    train_part,
)

UNEVEN = {"name": "dirichlet_by_class", "clients": 4, "alpha": 0.1, "min_size": 2}


def slope(fed, weights, x, y):
    leaves = {key: tensor.clone().requires_grad_() for key, tensor in weights.items()}
    loss = F.cross_entropy(fed.algorithm.forward(leaves, x).logits, y)
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


# SCAFFOLD and FedNova


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("rho", [0.0, 0.9, 1.0])
def test_fednova_counts_the_gradients_in_a_momentum(rho, nesterov):
    """|a|_1 is how often each gradient enters the sum of all steps."""
    velocity, moved = np.zeros(5), np.zeros(5)
    for step in range(5):
        velocity = rho * velocity + np.eye(5)[step]
        moved += np.eye(5)[step] + rho * velocity if nesterov else velocity
    client = Client(0, 1, 5, 0.1, rho, {}, lambda: None, lambda: iter(()), nesterov)
    assert fednova.norm(client) == pytest.approx(moved.sum(), rel=1e-12)


# Adam


@pytest.mark.parametrize("executor", ["sequential", "stacked", "plain"])
def test_adam_by_hand(executor):
    """Algorithm 1 of Kingma and Ba on each client's batches, of which clients have unlike numbers;
    every round begins anew."""
    adam = {"name": "adam", "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3}
    settings = {
        "optimizer": adam,
        "weight_decay": 0.1,
        "partition": UNEVEN,
        "batch_size": 7,
        "local_epochs": 2,
        "lr": 0.02,
    }
    fed = federation(
        config(clients_per_round=4, weighting="samples", **settings), executor=executor
    )
    state, _ = fed.start()
    x, steps = {key: tensor.numpy() for key, tensor in state.weights.items()}, set()
    for round in (1, 2):
        work, total = RoundExecution(fed, state, {}), dict.fromkeys(x, 0.0)
        task = work.create_task(state.weights)
        members = [work.client(number, task) for number in fed.cohort(round)]
        for client in members:
            batches, y = work.client_batches(client, task), dict(x)
            mean, square = dict.fromkeys(x, 0.0), dict.fromkeys(x, 0.0)
            steps.add(len(batches.sizes))
            for t in range(1, len(batches.sizes) + 1):
                images, labels, *_ = batches.batch(t - 1)
                g = slope(
                    fed, {key: torch.tensor(value) for key, value in y.items()}, images, labels
                )
                for key in y:
                    gradient = g[key].numpy() + 0.1 * y[key]
                    mean[key] = 0.8 * mean[key] + 0.2 * gradient
                    square[key] = 0.95 * square[key] + 0.05 * gradient**2
                    root = np.sqrt(square[key] / (1 - 0.95**t)) + 1e-3
                    y[key] = y[key] - 0.02 * mean[key] / (1 - 0.8**t) / root
            total = {key: total[key] + client.images * y[key] for key in x}
        x = {key: value / sum(client.images for client in members) for key, value in total.items()}
        state, _ = run_round(fed, state)
        assert_close(state.weights, {key: torch.tensor(value) for key, value in x.items()}, 1e-11)
    assert len(steps) > 1


def test_adam_is_refused_where_it_has_no_meaning():
    for name in ("scaffold", "fednova"):
        with pytest.raises(UserError, match=f"optimizer: {name} "):
            resolve(config(algorithm={"name": name}, optimizer="adam"))
    with pytest.raises(UserError, match="momentum: .*beta1"):
        config(optimizer="adam", momentum=0.9)
    assert (
        "optimizer" not in config().model_dump()
        and config(optimizer="adam").optimizer.beta2 == 0.999
    )


# What is kept


# Weights that stay with clients


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
@pytest.mark.parametrize(
    ("name", "own"), [("fedper", ("head.",)), ("lg_fedavg", ("extractor.", "hidden."))]
)
def test_own_weights_by_hand(name, own, executor):
    """Three rounds with full batches, two of four clients in each: what is trained, sent, averaged,
    and measured of all."""
    measures = [
        f"{when}_accuracy{over}" for when in ("initial", "personal") for over in ("", "_all")
    ]
    settings = {
        "measures": measures,
        "clients_per_round": 2,
        "batch_size": 100,
        "local_epochs": 3,
        "lr": 0.2,
    }
    fed = federation(config(algorithm={"name": name}, **settings), executor=executor)
    state, _ = fed.start()
    x, kept = dict(state.weights), {client: dict(state.weights) for client in range(4)}
    for round in (1, 2, 3):
        before = {
            client: {key: (kept[client] if key.startswith(own) else x)[key] for key in x}
            for client in range(4)
        }
        after, cohort = {}, fed.cohort(round)
        for client, start in before.items():
            y = start
            for _ in range(3):
                g = slope(fed, y, *train_part(fed, client))
                y = {key: y[key] - 0.2 * g[key] for key in y}
            after[client] = y
        x = {key: sum(after[client][key] for client in cohort) / 2 for key in x}
        kept |= {client: after[client] for client in cohort}
        state, row = run_round(fed, state)
        assert_close(state.weights, x, 1e-12)
        for client in cohort:
            wanted = {
                f"own/{key}": tensor for key, tensor in kept[client].items() if key.startswith(own)
            }
            assert_close(state.clients[client].tensors, wanted, 1e-12)
        sent = message_bytes({key: tensor for key, tensor in x.items() if not key.startswith(own)})
        assert (row["bytes_down"], row["bytes_up"]) == (2 * sent, 2 * sent)
        for key, weights in {"initial": before, "personal": after}.items():
            found = {
                client: scores(fed, weights[client], *fed.data.test_part(client, round))[0]
                for client in range(4)
            }
            assert row[f"{key}_accuracy"] == pytest.approx(
                np.mean([found[client] for client in cohort])
            )
            assert row[f"{key}_accuracy_all"] == pytest.approx(np.mean(list(found.values())))


class Pulled(FedAvg):
    """FedProx whose batch normalisation stays with clients."""

    def own_weights(self):
        return [name for name in self.net.state_dict() if ".norm." in name]

    def loss(self, weights, received, batch):
        return super().loss(weights, received, batch) + sum(
            (weights[n] - received[n]).square().sum() for n in self.trained
        )


def test_an_objective_sees_a_clients_own_weights_as_received():
    ends = []
    for executor in ("plain", "sequential", "stacked"):
        settings = config(
            model={"norm": "batch"},
            clients_per_round=3,
            momentum=0.5,
            keep_momentum=True,
            partition=UNEVEN,
        )
        fed = federation(settings, executor=executor, recordings={})
        fed.algorithm.__class__ = Pulled
        fed.algorithm.__init__(fed.algorithm.params, fed.algorithm.net, None, fed.algorithm.task)
        fed.initial_own = {name: fed.algorithm.net.state_dict()[name] for name in fed.algorithm.own}
        ends.append(advance(fed)[0])
        statistics = ends[-1].clients[0].tensors["own/extractor.conv1.norm.running_mean"]
        assert not torch.equal(
            statistics, ends[-1].clients[1].tensors["own/extractor.conv1.norm.running_mean"]
        )
    for end in ends[1:]:
        assert_close(end.weights, ends[0].weights, 1e-11)
        for number, client in end.clients.items():
            assert_close(client.tensors, ends[0].clients[number].tensors, 1e-11)


# What is known


class Curious(FedAvg):
    """Looks at everything that it is given; trains as FedAvg."""

    def server_prepare(self, weights, server):
        self.seen = {"server": server, "proxy": list(server.proxy())}
        return {"count": torch.tensor(float(len(self.seen["proxy"])))}

    def broadcast(self, weights, server):
        self.seen["state"] = server.state
        return weights

    def prepare(self, received, client):
        self.seen[client.number] = (client, list(client.estimation_batches()), client.classes())
        return {"mark": torch.tensor(float(client.number))}

    def loss(self, weights, received, batch):
        return super().loss(weights, received, batch) + 0 * batch.constants["mark"]

    def finish(self, weights, received, client):
        return ClientOutput(weights, {"times": client.state.get("times", 0) + torch.ones(1)})


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_inputs_of_a_methods_hooks(executor):
    fed = federation(
        config(partition=UNEVEN, proxy={"share": 0.1, "batch_size": 3}, clients_per_round=4),
        executor=executor,
    )
    fed.algorithm.__class__ = Curious
    plain, _ = advance(
        federation(config(partition=UNEVEN, clients_per_round=4), executor=executor), 2
    )
    state, _ = advance(fed, 2)
    assert_same(state.weights, plain.weights)  # looking draws nothing that training needs
    seen = fed.algorithm.seen
    assert (seen["server"].round, seen["server"].clients, seen["server"].share) == (2, 4, 1)
    assert [len(batch.labels) for batch in seen["proxy"]] == [3, 3, 2] and seen["state"][
        "count"
    ] == 3
    for number in range(4):
        client, batches, classes = seen[number]
        x, y = train_part(fed, number, 2)
        assert (client.images, client.steps) == (len(y), 2 * -(-len(y) // 8)) and client.state[
            "times"
        ] == 1
        assert classes.tolist() == y.bincount(minlength=10).tolist()
        assert sorted(torch.cat([batch.labels for batch in batches]).tolist()) == sorted(y.tolist())
        assert torch.cat([batch.images for batch in batches]).sum().item() == pytest.approx(
            x.sum().item()
        )
        assert state.clients[number].tensors["times"] == 2


# A round of its own


class TwoPhases(FedAvg):
    """All train the head at half the rate, then the first participant trains the rest for one
    epoch."""

    def round(self, weights, server, work):
        head = [name for name in self.trained if name.startswith("head")]
        first = super().aggregate(weights, server, work.train(weights, lr=0.05, trained=head))[0]
        rest = [name for name in self.trained if name not in head]
        [back] = work.train(first, work.clients[:1], epochs=1, trained=rest)
        work.count_bytes(up=1000)
        return back.message, {}


@pytest.mark.parametrize("executor", ["sequential", "stacked", "plain"])
def test_a_method_may_own_its_round(executor):
    fed = federation(config(momentum=0.5), executor=executor)
    start, _ = fed.start()
    fed.algorithm.__class__ = TwoPhases
    state, row = run_round(fed, start)
    model = message_bytes(start.weights)
    assert (row["bytes_down"], row["bytes_up"]) == (4 * model, 4 * model + 1000)
    rounds = RoundExecution(fed, start, {})
    heads = [
        message
        for _, _, message in rounds.train(
            start.weights, lr=0.05, trained=["head.weight", "head.bias"]
        )
    ]
    assert all(
        torch.equal(message["hidden.fc1.layer.weight"], start.weights["hidden.fc1.layer.weight"])
        for message in heads
    )
    assert all(
        not torch.equal(message["head.weight"], start.weights["head.weight"]) for message in heads
    )
    mean = sum(message["head.weight"] for message in heads) / 3
    assert torch.allclose(state.weights["head.weight"], mean, rtol=1e-12)
    assert not torch.equal(
        state.weights["hidden.fc1.layer.weight"], start.weights["hidden.fc1.layer.weight"]
    )


def test_phases_keep_the_momentum_of_what_they_do_not_train():
    """And the method's own state, if `finish` returns none."""

    class Keeping(TwoPhases):
        def finish(self, weights, received, client):
            return ClientOutput(weights, {"own": weights["head.bias"]} if client.lr == 0.05 else {})

    fed = federation(config(momentum=0.5, keep_momentum=True))
    start, _ = fed.start()
    fed.algorithm.__class__ = Keeping
    state, _ = run_round(fed, start)
    first, others = fed.cohort(1)[0], fed.cohort(1)[1:]
    head = {"momentum/head.weight", "momentum/head.bias", "own"}
    assert state.clients[first].tensors.keys() == {
        *head,
        *(f"momentum/{name}" for name in fed.algorithm.trained),
    }
    assert all(state.clients[number].tensors.keys() == head for number in others)


# What is measured


def test_every_measure_has_its_column_and_value():
    settings = {"partition": {"name": "classes", "clients": 4}, "lr": 0.05}
    settings["validation"] = {"share": 0.1, "per_client": True}
    fed = federation(config(measures=list(MEASURES), **settings))
    state, row = advance(fed, 1)[0], None
    after, row = run_round(fed, state)
    assert (
        tuple(row)
        == columns(fed.config)
        == ("round", *MEASURES, "train_loss", "bytes_down", "bytes_up", "lr")
    )
    own = {number: fed.data.test_part(number, 2) for number in range(4)}
    before = {number: scores(fed, state.weights, *part)[0] for number, part in own.items()}
    cohort = fed.cohort(2)
    assert row["initial_accuracy"] == pytest.approx(np.mean([before[number] for number in cohort]))
    assert row["initial_accuracy_all"] == pytest.approx(np.mean(list(before.values())))
    work = RoundExecution(fed, state, {})
    trainings = [
        work.client_batches(work.client(number), work.create_task(state.weights, phase=phase))
        for number in range(4)
        for phase in ([""] if number in cohort else [OTHERS])
    ]
    ends = fed.executor.train(trainings, fed.lr(2), fed.algorithm.trained)
    found = [scores(fed, weights, *own[number])[0] for number, (weights, *_) in enumerate(ends)]
    assert row["personal_accuracy_all"] == pytest.approx(np.mean(found)) and np.mean(
        found
    ) > np.mean(list(before.values()))
    assert row["personal_accuracy"] == pytest.approx(np.mean([found[number] for number in cohort]))
    plain = federation(config(**settings))
    same = run_round(plain, advance(plain, 1)[0])
    # measuring others changes nothing, and costs no bytes
    assert_same(same[0].weights, after.weights)
    assert {key: row[key] for key in same[1]} == same[1]


def test_macro_f1_is_scikit_learns_and_is_taken_over_all_images_or_batches():
    from sklearn.metrics import f1_score

    draw = np.random.default_rng(0)
    for classes, count in ((2, 50), (5, 32), (10, 7)):
        truth, decided = draw.integers(0, classes, (2, count))
        ours = macro_f1(torch.from_numpy(decided), torch.from_numpy(truth))
        assert ours == pytest.approx(f1_score(truth, decided, average="macro"), rel=1e-12)
    fed = federation(
        config(measures=["test_accuracy", "test_macro_f1", "test_macro_f1_batches"]),
        images(test=70),
    )
    state, row = fed.start()
    decided = fed.algorithm.forward(state.weights, fed.data.test_x).logits.argmax(1)
    parts = zip(decided.split(32), fed.data.test_y.split(32), strict=True)
    assert row["test_macro_f1_batches"] == pytest.approx(
        np.mean([macro_f1(*part) for part in parts])
    )
    assert row["test_macro_f1"] == pytest.approx(macro_f1(decided, fed.data.test_y))
    assert (
        len({row[name] for name in ("test_accuracy", "test_macro_f1", "test_macro_f1_batches")})
        == 3
    )


# Tasks, schedules


def test_regression_by_hand():
    loss = tasks.create(Choice(name="regression"), 3).loss(
        torch.tensor([[0.5], [3.0]]), torch.tensor([1, 1])
    )
    assert loss.item() == pytest.approx((0.25 + 4) / 2)
    outputs = torch.tensor([[-3.0], [0.49], [0.5], [1.6], [9.0]])
    assert tasks.create(Choice(name="regression"), 3).predict(outputs).tolist() == [0, 0, 1, 2, 2]
    assert tasks.create(Choice(name="regression", thresholds=[1.0, 2.0]), 3).predict(
        outputs
    ).tolist() == [0, 0, 0, 1, 2]
    for wrong in ([1.0], [2.0, 1.0], [1.0, 1.0]):
        with pytest.raises(UserError, match="task regression: thresholds: "):
            tasks.create(Choice(name="regression", thresholds=wrong), 3)


def rates(rounds, **choice):
    rate = schedules.create(Choice(**choice), 0.5, rounds)
    return [rate(round) for round in range(1, rounds + 1)]


def test_cross_entropy_on_cuda_is_that_of_a_processor():
    """Value and slope of the sum over places that are not the label's, by the definition; log 0
    elsewhere does no harm."""
    outputs, labels = (
        torch.randn(5, 3, generator=rng.generator(0, "x"), dtype=torch.float64),
        torch.tensor([2, 0, 1, 1, 2]),
    )
    outputs = outputs.requires_grad_()
    share = np.exp(outputs.detach().numpy()) / np.exp(outputs.detach().numpy()).sum(
        1, keepdims=True
    )
    loss = tasks.masked_loss(outputs.log_softmax(1), labels)
    assert loss.item() == pytest.approx(-np.log(share[range(5), labels]).mean(), rel=1e-14)
    assert np.allclose(
        torch.autograd.grad(loss, outputs)[0], (share - np.eye(3)[labels]) / 5, rtol=1e-13, atol=0
    )
    assert tasks.masked_loss(torch.tensor([[0.0, -torch.inf]]), torch.tensor([0])) == 0


def test_schedules():
    assert rates(3, name="constant") == [0.5] * 3
    assert rates(4, name="exponential", decay=0.5, floor=0.2) == [0.5, 0.25, 0.125, 0.125]
    # on the floor it stays
    assert rates(4, name="exponential", decay=0.5, floor=0.25) == [0.5, 0.25, 0.25, 0.25]
    half = 0.2 * 2**-0.5
    assert rates(5, name="cosine", floor=0.1, period=4) == pytest.approx(
        [0.5, 0.3 + half, 0.3, 0.3 - half, 0.1]
    )
    # over the whole run
    assert rates(4, name="cosine", floor=0.1) == pytest.approx([0.5, 0.3 + half, 0.3, 0.3 - half])
    # over, without restarts
    assert rates(9, name="cosine", floor=0.1, period=4)[4:] == pytest.approx([0.1] * 5)
    late = rates(5, name="cosine", floor=0.1, period=4, late=True)
    assert late[:2] == [0.5, 0.5] and late[1:] == rates(5, name="cosine", floor=0.1, period=4)[:4]


@pytest.mark.parametrize("name", ["fedavg", "fednova", "scaffold", "psi_net"])
def test_frozen_weights_keep_every_bit(name):
    fed = federation(
        config(
            algorithm={"name": name},
            model={"frozen": ["conv1"]},
            weighting="samples",
            partition=UNEVEN,
        )
    )
    start, _ = fed.start()
    state, _ = advance(fed)
    frozen = [key for key in start.weights if key.startswith("extractor.conv1")]
    assert frozen and set(frozen) == set(fed.algorithm.fixed)
    for key in start.weights:
        assert torch.equal(start.weights[key], state.weights[key]) == (key in frozen)
