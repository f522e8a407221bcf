"""FedAvg with the local softmax over a client's classes: by hand, beside Psi-Net's, and where it is
FedAvg."""

import numpy as np
import pytest
import torch

from fedrepro.core.errors import UserError
from fedrepro.training.round import RoundExecution
from support.client_steps import Scene, check_client, none, outputs
from support.federation import config, federation, local, receive, scores
from support.server_steps import averaged, check_server

METHOD = {"name": "restricted_softmax"}
CLASSES = {
    "partition": {"name": "balanced_classes", "clients": 5, "classes_per_client": 2},
    "clients_per_round": 5,
}


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
    [
        ((0, 2, 0, 2, 2, 0), restricted),
        ((1, 2, 1, 1, 2, 1), restricted),
        ((1,) * 6, restricted),
        ((0, 1, 2, 0, 1, 0), none),
    ],
)
def test_a_client_by_hand(labels, pull):
    """One that lacks a class, two and none."""
    check_client("restricted_softmax", {}, pull, labels)


def test_the_server_by_hand():
    check_server("restricted_softmax", {}, averaged)


def test_scores_of_absent_classes_do_not_move_but_are_tested():
    """Without weight decay. The network's loss on test images is that of FedAvg's with the same
    weights, over all classes."""
    fed, fedavg = (
        federation(config(algorithm=choice, momentum=0.9, **CLASSES))
        for choice in (METHOD, {"name": "fedavg"})
    )
    state, _ = fed.start()
    received = receive(fed, state)
    held = RoundExecution(fed, state, {}).client(0).classes() > 0
    [(weights, _)] = local(fed, received, [0])
    moved = (weights["head.weight"] != received["head.weight"]).any(1)
    assert held.sum() == 2 and torch.equal(moved, held)
    test = fed.data.test_x, fed.data.test_y
    assert scores(fed, weights, *test) == scores(fedavg, weights, *test)


def test_a_task_without_scores_of_classes_is_refused():
    with pytest.raises(UserError, match="^algorithm restricted_softmax: "):
        federation(config(algorithm=METHOD, task={"name": "regression"}))
