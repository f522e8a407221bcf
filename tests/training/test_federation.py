"""The round loop: who takes part, what they see, what is sent, measured and written down."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from fedrepro import models
from fedrepro.config import registry
from fedrepro.config.params import PixelScaling
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.core.metrics import MEASURES
from fedrepro.data import datasets, partitions
from fedrepro.training.batches import augmentation
from fedrepro.training.batches.client_batches import ClientBatches, batch_sizes, shuffled
from fedrepro.training.evaluation import flops
from fedrepro.training.federation import Federation, columns
from fedrepro.training.round import RoundExecution, message_bytes, run_round
from support.federation import (
    advance,
    assert_close,
    assert_same,
    config,
    federation,
    images,
    local,
    partition,
    scores,
    train_part,
)

# Randomness


def draw(*coordinates):
    return torch.rand(4, generator=rng.generator(*coordinates)).tolist()


def test_a_draw_is_a_function_of_its_coordinates():
    everyone = [
        (0, "a"),
        (1, "a"),
        (0, "b"),
        (0, "a", 1),
        (0, "a", 0, 1),
        (0, "a", 1, 1),
        (0, "a", 11),
        (0, "a", 1, 10),
    ]
    assert len({tuple(draw(*coordinates)) for coordinates in everyone}) == len(everyone)
    assert all(draw(*coordinates) == draw(*coordinates) for coordinates in everyone)
    assert (
        rng.numpy_generator(3, "a").random()
        == rng.numpy_generator(3, "a").random()
        != rng.numpy_generator(4, "a").random()
    )


def test_cohort_is_a_function_of_seed_and_round():
    one = federation(config(partition={"clients": 20}, clients_per_round=5))
    other = federation(
        config(
            partition={"clients": 20}, clients_per_round=5, lr=1.0, algorithm={"name": "fedprox"}
        )
    )
    seeded = federation(config(partition={"clients": 20}, clients_per_round=5, seed=1))
    cohorts = [one.cohort(round) for round in range(1, 9)]
    assert cohorts == [other.cohort(round) for round in range(1, 9)]
    assert cohorts != [seeded.cohort(round) for round in range(1, 9)]
    assert all(sorted(set(cohort)) == cohort and len(cohort) == 5 for cohort in cohorts)
    assert len({tuple(cohort) for cohort in cohorts}) > 4


def test_batches_are_shuffled_epochs():
    settings = config(batch_size=8, local_epochs=2)
    assert batch_sizes(settings, 20) == [8, 8, 4] * 2 and batch_sizes(settings, 16) == [8] * 4
    drawn = shuffled(20, 2, rng.generator(0, "batches")).tolist()
    first, second = drawn[:20], drawn[20:]
    assert sorted(first) == sorted(second) == list(range(20)) and first != second
    fed = federation(settings)
    orders = [
        torch.cat(ClientBatches(fed.algorithm, settings, fed.data, {}, *place).index).tolist()
        for place in ((2, 1), (2, 1), (2, 2))
    ]
    assert orders[0] == orders[1] != orders[2]


# Schedules, weights, bytes, measurements


@pytest.mark.parametrize(("precision", "width"), [("float32", 4), ("float64", 8)])
def test_bytes_are_participants_times_the_model(precision, width):
    fed = federation(config(precision=precision))
    state, rows = advance(fed, 1)
    model = width * sum(tensor.numel() for tensor in fed.algorithm.net.parameters())
    assert message_bytes(state.weights) == model
    assert [(row["bytes_down"], row["bytes_up"]) for row in rows] == [
        (0, 0),
        (3 * model, 3 * model),
    ]


def test_evaluates_every_second_round_and_at_the_end():
    """Measuring changes nothing."""
    measured = ("test_accuracy", "test_loss", "initial_accuracy", "personal_accuracy")
    settings = {"rounds": 5, "local_epochs": 1}
    state, rows = advance(federation(config(evaluate_every=2, **settings)))
    assert [row["round"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert all(tuple(row) == columns(config()) for row in rows)
    for row in rows[1:]:
        assert all((row[key] is not None) == (row["round"] in (2, 4, 5)) for key in measured)
        assert row["train_loss"] > 0
    assert_same(advance(federation(config(**settings)))[0].weights, state.weights)


def test_evaluation_by_hand():
    fed = federation(config(), images(test=1201))
    fed.chunk = 500  # three, the last not full
    state, row = fed.start()
    logits = fed.algorithm.forward(state.weights, fed.data.test_x).logits
    chances = logits.softmax(1)[torch.arange(1201), fed.data.test_y]
    assert row["test_accuracy"] == (logits.argmax(1) == fed.data.test_y).double().mean().item()
    assert row["test_loss"] == pytest.approx(-chances.log().mean().item(), rel=1e-12)


def test_clients_without_test_images_are_left_out_of_the_mean(monkeypatch):
    """There is one test image; the client that has it determines the mean."""
    fed = federation(
        config(test_images=1, partition={"name": "classes", "clients": 4}, clients_per_round=4)
    )
    right = {"head.bias": 1e6 * torch.eye(10).double()[fed.data.test_y[0]]}
    monkeypatch.setattr(
        fed.algorithm, "personalised_weights", lambda weights, received: weights | right
    )
    _, row = run_round(fed, fed.start()[0])
    assert row["initial_accuracy"] in (0.0, 1.0) and row["personal_accuracy"] == 1.0


def test_weighting():
    uneven = {"name": "dirichlet_by_class", "clients": 4, "alpha": 0.5, "min_size": 5}
    results = {}
    for weighting in ("samples", "uniform"):
        fed = federation(config(partition=uneven, weighting=weighting))
        start, _ = fed.start()
        results[weighting] = run_round(fed, start)[0].weights
        cohort = fed.cohort(1)
        sizes = [len(fed.data.partition.train[client]) for client in cohort]
        shares = [count / sum(sizes) for count in sizes] if weighting == "samples" else [1 / 3] * 3
        trained = [weights for weights, _ in local(fed, start.weights, cohort)]
        expected = {
            key: sum(s * client[key] for s, client in zip(shares, trained, strict=True))
            for key in start.weights
        }
        assert_close(results[weighting], expected, 1e-14)
        assert len(set(sizes)) > 1
    assert any(
        not torch.equal(results["samples"][key], results["uniform"][key]) for key in start.weights
    )


@pytest.mark.parametrize("name", ["fedavg", "fedma", "fedopt", "scaffold"])
def test_divergence_keeps_the_last_good_weights(name):
    """Whoever makes the new weights, a run ends and is marked as diverged if weights are not
    finite."""
    fed = federation(config(algorithm={"name": name}, lr=1e12, precision="float32", rounds=9))
    states = [fed.start()[0]]
    while not states[-1].diverged:
        states.append(run_round(fed, states[-1])[0])
        assert len(states) < 9
    assert_same(states[-1].weights, states[-2].weights)
    assert all(tensor.isfinite().all() for tensor in states[-1].weights.values())


@pytest.mark.parametrize("name", registry.names("algorithms"))
def test_operations_are_those_that_torch_counts(name):
    one = federation(config(algorithm={"name": name}))
    algorithm, shape = one.algorithm, one.data.train_x.shape[1:]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        algorithm.forward(algorithm.net.state_dict(), torch.zeros(1, *shape, dtype=torch.float64))
    assert flops(algorithm, shape) == counter.get_total_flops() > 0


def test_too_many_participants():
    with pytest.raises(UserError, match="clients_per_round: .*5"):
        config(clients_per_round=5)
    dataset, good = images(), config()
    with pytest.raises(UserError, match="clients_per_round: "):
        Federation(
            good.model_copy(update={"clients_per_round": 5}),
            dataset,
            partition(good, dataset),
            torch.device("cpu"),
        )


# Images


PERMUTED = {"name": "permuted", "clients": 4}


def test_an_augmented_batch_by_hand():
    """Changed as pixels, then scaled, then in the client's own order; the received network sees the
    same; every batch and every round draws again."""
    settings = config(
        augment=("crop", "flip"),
        pixel_scaling="normalised",
        algorithm={"name": "l2"},
        partition=PERMUTED,
    )
    dataset, fed = images(), federation(settings)
    received, order = fed.start()[0].weights, fed.data.partition.permutations[2]
    for round in (1, 2):
        batches, draws = (
            ClientBatches(fed.algorithm, settings, fed.data, received, 2, round),
            rng.generator(0, "augment", round, 2),
        )
        assert len(batches.index) > 1
        for step, index in enumerate(batches.index):
            pixels = augmentation.apply(dataset.train_x[index].double(), settings.augment, draws)
            seen, batch = (
                augmentation.scale(pixels, PixelScaling(name="normalised"), dataset),
                batches.batch(step),
            )
            assert torch.equal(batch.images.flatten(2), seen.flatten(2)[:, :, order])
            assert torch.equal(
                batch.reference_outputs[0], fed.algorithm.forward(received, batch.images).logits
            )


def test_what_a_client_looks_at_is_augmented_and_in_its_own_order():
    """The batches on which it estimates importance."""
    fed = federation(
        config(augment=("flip",), partition=PERMUTED, proxy={"share": 0.1, "batch_size": 100})
    )
    parts, held = fed.data.partition, 20
    index = parts.train[2][
        torch.randperm(held, generator=rng.generator(0, "batches looked at", 3, 2)).numpy()
    ]
    pixels = augmentation.apply(
        images().train_x[index].double(), ("flip",), rng.generator(0, "augment looked at", 3, 2)
    )
    [batch] = (
        RoundExecution(fed, replace(fed.start()[0], round=2), {}).client(2).estimation_batches()
    )
    assert torch.equal(
        batch.images.flatten(2), (pixels / 255).flatten(2)[:, :, parts.permutations[2]]
    )


def test_every_step_and_every_round_has_new_dropout_masks():
    fed = federation(config(model={"dropout": 0.5}))
    weights = fed.start()[0].weights
    trainings = [
        ClientBatches(fed.algorithm, fed.config, fed.data, weights, 0, round) for round in (1, 1, 2)
    ]
    (first, second), (again, _), (later, _) = (
        [batches.masks(step)[0] for step in (0, 1)] for batches in trainings
    )
    assert (
        torch.equal(first, again)
        and not torch.equal(first, second)
        and not torch.equal(first, later)
    )
    (alone,) = models.dropout_masks(fed.algorithm.net, 8, rng.generator(0, "dropout", 1, 0))
    assert torch.equal(first, alone)  # from a generator of their own, not that of the batches


def test_each_seed_has_its_own_start_and_its_own_draws():
    """On the same partition too: seeds whose weights or batches agree would be no independent
    repetitions."""
    settings = [
        config(algorithm={"name": "fedfusion"}, model={"dropout": 0.5}, seed=seed)
        for seed in (0, 1)
    ]
    one, other = (federation(each) for each in settings)
    starts = [fed.start()[0].weights for fed in (one, other)]
    for name in ("extractor.conv1.layer.weight", "head.weight", "fusion.convolution.weight"):
        assert not torch.equal(starts[0][name], starts[1][name]), name
    trainings = [ClientBatches(one.algorithm, each, one.data, starts[0], 0, 1) for each in settings]
    orders = [torch.cat(batches.index) for batches in trainings]
    assert torch.equal(*(order.sort().values for order in orders)) and not torch.equal(*orders)
    assert not torch.equal(*(batches.masks(0)[0] for batches in trainings))


@pytest.mark.parametrize(
    ("change", "border"), [("crop", "constant"), ("reflected_crop", "reflect"), ("flip", None)]
)
def test_crops_and_flips(change, border):
    """Every window and either side; that one of 81 is missing has a chance of 81 (80/81)^2000, some
    1e-9."""
    x = torch.arange(1, 82).view(1, 1, 9, 9).double()
    found = [
        tuple(image.flatten().tolist())
        for image in augmentation.apply(
            x.expand(2000, 1, 9, 9), (change,), rng.generator(0, "augment")
        )
    ]
    whole = x[0, 0].numpy()
    if border is None:
        expected = {tuple(sides.flatten().tolist()) for sides in (whole, whole[:, ::-1])}
        # half: four deviations of 22
        assert 910 < found.count(tuple(whole.flatten().tolist())) < 1090
    else:
        padded = np.pad(whole, 4, mode=border)
        expected = {
            tuple(padded[r : r + 9, c : c + 9].flatten().tolist())
            for r in range(9)
            for c in range(9)
        }
    assert set(found) == expected


def test_brightness_and_contrast():
    x = (torch.rand(500, 3, 4, 4, generator=rng.generator(0, "x")) * 255).double()
    shift = (augmentation.apply(x, ("brightness",), rng.generator(0, "augment")) - x).flatten(1)
    assert shift.std(1).max() < 1e-9 and -63 <= shift.min() < -60 and 60 < shift.max() <= 63
    changed = augmentation.apply(x, ("contrast",), rng.generator(0, "augment"))
    assert torch.allclose(changed.mean((2, 3)), x.mean((2, 3)))
    factor = changed.std((2, 3)) / x.std((2, 3))
    assert (
        (factor.amax(1) - factor.amin(1)).max() < 1e-9
        and 0.2 <= factor.min() < 0.25
        and 1.75 < factor.max() <= 1.8
    )


def test_scaling():
    dataset = images(shape=(3, 6, 6))
    x = dataset.train_x.double()
    assert torch.equal(augmentation.scale(x, PixelScaling(name="unit"), dataset), x / 255)
    assert torch.equal(augmentation.scale(x, PixelScaling(name="half"), dataset), x / 255 - 0.5)
    assert torch.allclose(
        augmentation.scale(x, PixelScaling(name="normalised"), dataset), (x / 255 - 0.5) / 0.2
    )
    own = PixelScaling(name="normalised", mean=(0.4, 0.5, 0.6), std=(0.1, 0.2, 0.4))
    by_hand = [
        (x[:, c] / 255 - mean) / std
        for c, (mean, std) in enumerate([(0.4, 0.1), (0.5, 0.2), (0.6, 0.4)])
    ]
    assert torch.allclose(augmentation.scale(x, own, dataset), torch.stack(by_hand, 1), rtol=1e-12)
    with pytest.raises(UserError, match="pixel_scaling: .*3"):
        augmentation.check(config(pixel_scaling=own), 1, real=False)
    flat = augmentation.scale(x, PixelScaling(name="standardised"), dataset).flatten(1)
    assert flat.mean(1).abs().max() < 1e-12 and (flat.std(1, correction=0) - 1).abs().max() < 1e-12
    assert (
        augmentation.scale(
            torch.full((1, 3, 6, 6), 7.0), PixelScaling(name="standardised"), dataset
        )
        == 0
    ).all()
    dim = torch.full((1, 1, 2, 2), 7.0)
    dim[0, 0, 0, 0] = 7.4  # deviation below 1/sqrt(4): divided by that
    assert augmentation.scale(
        dim, PixelScaling(name="standardised"), dataset
    ).max().item() == pytest.approx(0.3 * 2, rel=1e-4)


def test_real_numbers_are_taken_as_they_are(tmp_path):
    chosen = {
        "name": "synthetic",
        "devices": 4,
        "train": 20,
        "test": 10,
        "side": 12,
        "hidden": 16,
        "beta": 0.5,
    }
    datasets.identify(chosen, tmp_path, tmp_path / "out")
    data, natural = datasets.load(tmp_path / "out"), {"name": "natural", "clients": 4}
    settings = config(dataset=chosen, pixel_scaling="raw", partition=natural)
    fed = federation(settings, data)
    assert torch.equal(fed.data.test_x, data.test_x.double()) and torch.equal(
        fed.data.test_part(2, 1)[1], data.test_y[20:30]
    )
    assert torch.equal(train_part(fed, 3)[0], data.train_x[60:].double())
    _, rows = advance(fed, 2)
    assert all(np.isfinite(row["test_loss"]) for row in rows)
    for changes, words in (
        ({"pixel_scaling": PixelScaling(name="unit")}, "pixel_scaling: synth"),
        ({"augment": ("flip",)}, "augment: synth"),
    ):
        with pytest.raises(UserError, match=words):
            federation(settings.model_copy(update=changes), data)
    pixels = images()
    assert torch.equal(federation(config(pixel_scaling="raw")).data.test_x, pixels.test_x.double())


@pytest.mark.parametrize("whole", [False, True])
def test_permuted_images(whole):
    """Each client sees its images in its own order, for training, in its own test and in the global
    one; also where all have every image."""
    settings = config(
        partition={"name": "permuted", "clients": 3, "whole": whole}, local_epochs=1, rounds=1
    )
    dataset, fed = images(), federation(settings)
    parts, orders = fed.data.partition, fed.data.partition.permutations
    train, test = (pixels.double().flatten(2) / 255 for pixels in (dataset.train_x, dataset.test_x))
    for client in range(3):
        own = slice(None) if whole else parts.test[client]
        assert torch.equal(
            train_part(fed, client)[0].flatten(2), train[parts.train[client]][:, :, orders[client]]
        )
        x, labels = fed.data.test_part(client, 1)
        assert torch.equal(x.flatten(2), test[own][:, :, orders[client]]) and torch.equal(
            labels, dataset.test_y[own]
        )
        assert torch.equal(fed.data.test_x[parts.test[client]], x)
    assert len(fed.data.test_x) == len(fed.data.test_y) == (3 if whole else 1) * len(dataset.test_y)
    state, rows = advance(fed)
    own = [scores(fed, state.weights, *fed.data.test_part(client, 1))[0] for client in range(3)]
    assert not whole or rows[-1]["test_accuracy"] == pytest.approx(sum(own) / 3)


def test_redrawn_classes_reach_training():
    fed = federation(
        config(partition={"name": "classes", "clients": 2, "redraw": True}, clients_per_round=2)
    )
    held = [tuple(train_part(fed, 0, round)[1].unique().tolist()) for round in range(1, 6)]
    assert len(set(held)) > 1 and all(len(classes) == 5 for classes in held)
    assert held[0] == tuple(fed.data.test_part(0, 1)[1].unique().tolist())
    start, parts = fed.start()[0], fed.data.partition
    for round in range(1, 6):
        own = parts.train_indices(0, round).tolist()
        batches = ClientBatches(fed.algorithm, fed.config, fed.data, start.weights, 0, round)
        assert sorted(set(torch.cat(list(batches.index)).tolist())) == sorted(own)
        client = RoundExecution(fed, replace(start, round=round - 1), {}).client(0)
        assert client.classes().nonzero().flatten().tolist() == parts.parts_of(0, round)
        assert sorted(
            torch.cat([batch.labels for batch in client.estimation_batches()]).tolist()
        ) == sorted(fed.data.train_y[own].tolist())


def test_own_test_images_are_those_of_the_round():
    """Drawn again in every round: what a client was measured on in round 1 says nothing about its
    images of today."""
    deals = {"name": "classes", "clients": 5, "redraw": True}
    fed = federation(config(partition=deals, clients_per_round=1, rounds=6))

    def accuracy(state, client, round):
        images, labels = fed.data.test_part(client, round)
        logits = functional_call(fed.algorithm.net, dict(state.weights), (images,)).logits
        return (logits.argmax(1) == labels).double().mean().item()

    state, measured, before = fed.start()[0], [], []
    for round in range(1, 7):
        (client,) = fed.cohort(round)
        before += [[accuracy(state, client, today) for today in (1, round)]]
        state, row = run_round(fed, state)
        measured.append(row["initial_accuracy"])
    assert measured == pytest.approx([today for _, today in before])
    assert measured != pytest.approx([first for first, _ in before])


def test_a_subset_has_its_own_labels_and_is_dealt_by_them():
    data, fed = (
        images(),
        federation(
            config(train_images=40, test_images=20, partition={"name": "classes", "clients": 5})
        ),
    )
    train, test = partitions.subset(data, 40, 20)
    for part, chosen, there in (("train", train, 80), ("test", test, 40)):
        drawn = rng.numpy_generator(0, f"subset-{part}").permutation(there)[: there // 2]
        assert np.array_equal(chosen, np.sort(drawn))  # not the first half of what is stored
        for own, stored in ((f"{part}_y", lambda x: x), (f"{part}_x", lambda x: x.double() / 255)):
            assert torch.equal(getattr(fed.data, own), stored(getattr(data, own)[chosen]))
    for client in range(5):
        classes = set(train_part(fed, client)[1].tolist())
        assert len(classes) <= 2 and set(fed.data.test_part(client, 1)[1].tolist()) <= classes


def test_a_round_that_goes_on_leaves_kept_momentum_as_it_was():
    """A run that is stopped in the round stores the state from before it."""
    fed = federation(
        config(momentum=0.9, keep_momentum=True, clients_per_round=4), executor="sequential"
    )
    state, _ = advance(fed, 1)
    before = {
        name: {key: tensor.clone() for key, tensor in kept.tensors.items()}
        for name, kept in state.clients.items()
    }
    run_round(fed, state)
    assert before
    for name, kept in state.clients.items():
        assert_same(kept.tensors, before[name])


def test_validation_measures_are_of_the_images_that_are_held_out():
    names = ["test_accuracy", "validation_accuracy", "validation_loss"]
    fed = federation(
        config(validation={"share": 0.3}, measures=names, partition={"name": "iid", "clients": 4})
    )
    state, rows = advance(fed, 1)
    held_out = torch.from_numpy(fed.data.partition.validation)
    accuracy, loss = scores(
        fed, state.weights, fed.data.train_x[held_out], fed.data.train_y[held_out]
    )
    assert (rows[1]["validation_accuracy"], rows[1]["validation_loss"]) == (
        accuracy,
        loss,
    ) and loss != rows[0]["validation_loss"]


def test_validation_images_of_each_client_measure_its_own_model():
    """The clients' trained weights; the pixel order is the client's, and a client without such
    images does not count."""
    options = {
        "measures": ["validation_accuracy", "validation_personal_accuracy"],
        "clients_per_round": 3,
    }
    fed = federation(
        config(validation={"share": 0.3, "per_client": True}, partition=PERMUTED, **options)
    )
    state, seen = fed.start()[0], {}
    _, row = run_round(
        fed, state, watch=lambda trained: seen.update({trained.client.number: trained.weights})
    )
    parts = fed.data.partition.client_validation
    expected = []
    for client, weights in seen.items():
        order = torch.from_numpy(fed.data.partition.permutations[client])
        pixels = fed.data.train_x[torch.from_numpy(parts[client])].flatten(2)[:, :, order]
        labels = fed.data.train_y[torch.from_numpy(parts[client])]
        expected.append(
            scores(fed, weights, pixels.view(-1, *fed.data.train_x.shape[1:]), labels)[0]
        )
    assert (
        row["validation_personal_accuracy"] == pytest.approx(sum(expected) / 3)
        and len(set(expected)) > 1
    )


def test_images_of_the_server_are_as_they_are_unless_asked():
    """The images of clients are flipped."""
    data = images(shape=(3, 12, 12))
    proxy = {"share": 0.1, "augment": False}
    fed = federation(config(algorithm={"name": "fedcl"}, augment=["flip"], proxy=proxy), data)
    seen = torch.cat([batch.images for batch in fed.server_view(fed.start()[0]).proxy()])
    assert torch.equal(
        seen, fed.data.images(torch.from_numpy(fed.data.partition.proxy), None, None)
    )


def test_changes_of_images_come_in_the_order_of_their_names(monkeypatch):
    for name, make in (
        ("double", lambda images, by: images * by),
        ("more", lambda images, by: images + by),
    ):
        monkeypatch.setitem(augmentation.AUGMENTATIONS, name, augmentation.Augmentation(None, make))
    pixels, drawn = torch.ones(1, 1, 2, 2), [(2,), (3,)]
    assert augmentation.apply(pixels, ("double", "more"), drawn)[0, 0, 0, 0] == 5
    assert augmentation.apply(pixels, ("more", "double"), [(3,), (2,)])[0, 0, 0, 0] == 8


@pytest.mark.parametrize("nesterov", [True, False])
def test_a_method_sees_the_momentum_of_its_clients(nesterov):
    fed = federation(config(momentum=0.9, nesterov=nesterov))
    client = RoundExecution(fed, fed.start()[0], {}).client(0)
    assert (client.nesterov, client.momentum) == (nesterov, 0.9)


def test_a_loss_that_is_no_number_ends_the_run(monkeypatch):
    """Even if all weights are finite."""
    fed = federation(config())
    monkeypatch.setattr(
        RoundExecution,
        "row",
        lambda self, row=RoundExecution.row: row(self) | {"train_loss": float("inf")},
    )
    assert run_round(fed, fed.start()[0])[0].diverged


@pytest.mark.parametrize("where", ["weights", "server"])
def test_numbers_that_are_not_finite_end_the_run_whatever_the_loss(where, monkeypatch):
    fed = federation(config())
    start, _ = fed.start()
    lost = {"head.bias": torch.full_like(start.weights["head.bias"], torch.inf)}
    ended = {
        "weights": lambda weights, *_: (weights | lost, {}),
        "server": lambda weights, *_: (weights, lost),
    }
    # without a loss, since no client trains
    monkeypatch.setattr(fed.algorithm, "round", ended[where])
    state, _ = run_round(fed, start)
    assert state.diverged
    assert_same(state.weights, start.weights)


def test_the_measure_after_the_last_phase_counts():
    fed = federation(config())
    round = RoundExecution(
        fed, fed.start()[0], {"personal_accuracy": MEASURES["personal_accuracy"]}
    )
    for accuracy in (0.25, 0.75):
        round._record(0, {"personal_accuracy": accuracy})
    assert round.row()["personal_accuracy"] == 0.75
