"""FedAvg with the local softmax over a client's classes: by hand, beside Psi-Net's, and where it is FedAvg."""

import numpy as np
import pytest
import torch

from fedrepro.algorithms.base import Batch, Client
from fedrepro.core.errors import UserError
from fedrepro.models import Conv, Dense, Head, Outputs
from fedrepro.training.round import RoundExecution
from support.client_steps import Scene, check_client, none, outputs
from support.federation import advance, assert_close, assert_same, config, federation, images, local, normal, receive, scores
from support.networks import assembled, classifying
from support.server_steps import averaged, check_server

EXECUTORS = ("plain", "sequential", "stacked")
METHOD = {"name": "restricted_softmax"}
CLASSES = {"partition": {"name": "balanced_classes", "clients": 5, "classes_per_client": 2}, "clients_per_round": 5}


def restricted(w: dict, at: Scene) -> tuple:
    """The cross entropy over the classes among the labels, less that over all."""
    z, held = outputs(w, at.x)[0], np.unique(at.y)
    chances = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    own = np.zeros_like(z)
    own[:, held] = np.exp(z[:, held]) / np.exp(z[:, held]).sum(1, keepdims=True)
    value = np.mean([np.log(np.exp(row[held]).sum()) - np.log(np.exp(row).sum()) for row in z])
    return value, (own - chances) / len(z), 0.0, {}


@pytest.mark.parametrize(
    ("labels", "pull"),
    [((0, 2, 0, 2, 2, 0), restricted), ((1, 2, 1, 1, 2, 1), restricted), ((1,) * 6, restricted), ((0, 1, 2, 0, 1, 0), none)],
)
def test_a_client_by_hand(labels, pull):
    """One that lacks a class, two and none."""
    check_client("restricted_softmax", {}, pull, labels)


def test_the_server_by_hand():
    check_server("restricted_softmax", {}, averaged)


def test_the_loss_is_that_of_psi_net_with_a_group_for_each_class():
    counts = torch.tensor([3, 0, 0, 0, 1, 0, 0, 0, 0, 2])
    client = Client(0, 6, 1, 0.1, 0.0, {}, lambda: counts, lambda: iter(()))
    logits, labels = normal(6, 10), torch.tensor([0, 0, 4, 0, 9, 9])
    found = []
    for name in ("restricted_softmax", "psi_net"):
        method = classifying(name, {}, assembled([Conv("conv1", 5, 3), Dense("fc1", 10), Head(10)]))
        leaf = logits.clone().requires_grad_()
        loss = method.task_loss(Outputs(leaf, leaf, leaf, {}), Batch(logits, labels, constants=method.prepare({}, client)))
        found.append({"loss": loss.detach(), "slope": torch.autograd.grad(loss, leaf)[0]})
    assert_same(*found)
    assert ((found[0]["slope"] == 0).all(0) == (counts == 0)).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_clients_of_all_classes_are_fedavgs_to_the_bit(executor, precision):
    ours, fedavg = (
        advance(federation(config(algorithm={"name": name}, precision=precision), images(classes=2), executor))
        for name in ("restricted_softmax", "fedavg")
    )
    assert_same(ours[0].weights, fedavg[0].weights)
    assert [row["test_loss"] for row in ours[1]] == [row["test_loss"] for row in fedavg[1]]


def test_all_executors_agree_on_clients_of_two_classes():
    settings = config(algorithm=METHOD, momentum=0.9, **CLASSES)
    one, *others = (advance(federation(settings, executor=executor))[0].weights for executor in EXECUTORS)
    for other in others:
        assert_close(one, other, 1e-11)


def test_scores_of_absent_classes_do_not_move_but_are_tested():
    """Without weight decay. The network's loss on test images is that of FedAvg's with the same weights, over all classes."""
    fed, fedavg = (federation(config(algorithm=choice, momentum=0.9, **CLASSES)) for choice in (METHOD, {"name": "fedavg"}))
    state, _ = fed.start()
    received = receive(fed, state)
    held = RoundExecution(fed, state, {}).client(0).classes() > 0
    [(weights, _)] = local(fed, received, [0])
    moved = (weights["head.weight"] != received["head.weight"]).any(1)
    assert held.sum() == 2 and torch.equal(moved, held)
    test = fed.data.test_x, fed.data.test_y
    assert scores(fed, weights, *test) == scores(fedavg, weights, *test)


def test_a_task_without_scores_of_classes_is_refused():
    with pytest.raises(UserError, match="algorithm restricted_softmax: it needs a task with one score for each class"):
        federation(config(algorithm=METHOD, task={"name": "regression"}))
