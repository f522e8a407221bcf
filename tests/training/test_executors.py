"""Two ways to train a cohort that must agree, and the recorded step that both are made of."""

import gc
import itertools
import weakref

import pytest
import torch
from torch.func import grad_and_value

from fedrepro import algorithms
from fedrepro.algorithms.base import Batch
from fedrepro.core import rng
from fedrepro.core.errors import UserError
from fedrepro.runs.run import STEP_CACHE_FIELDS
from fedrepro.training.compiled_step import cuda_graph, fx_passes
from fedrepro.training.compiled_step.scalar_pass import hoist_scalars
from fedrepro.training.compiled_step.step import Step
from fedrepro.training.evaluation import activations
from fedrepro.training.executors import (
    EXECUTORS,
    LAUNCH_BOUND_STEP,
    SMALL_STEP,
    STACK_NUMBERS,
    available,
    pick,
)
from fedrepro.training.federation import Federation
from fedrepro.training.round import RoundExecution, run_round
from support.federation import (
    ALGORITHMS,
    STATEFUL,
    a_run,
    advance,
    assert_close,
    assert_same,
    config,
    federation,
    images,
    partition,
    receive,
    scores,
    train_part,
    uniform,
)

OPTIONS = {
    "fedfusion": [{"operator": "multi"}, {"operator": "single"}],
    "fedmax": [{"direction": "activation_uniform", "reduction": "samples"}],
    "fedmmd": [{"outputs": "features", "kernel": "mean_distance"}],
    "fedprox": [{"mu": 2.0, "norm": "mean"}],
    "psi_net": [{"groups": 5, "grouped_from": "conv2", "classes": "interleaved"}],
}
METHODS = [(name, options) for name in ALGORITHMS for options in ({}, *OPTIONS.get(name, []))]
OPTIMISERS = (
    {"momentum": 0.9},
    {"weight_decay": 0.1},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
)
GRAPHS = ("sequential", "stacked")  # what may be captured
UNEVEN = {"name": "dirichlet_by_class", "clients": 4, "alpha": 0.5, "min_size": 5}
FEWER = UNEVEN | {"alpha": 0.1}  # 23, 27, 7 and 23 images: not all have as many batches


def both(**changes):
    """Two rounds of the same run with either executor: state and rows of each."""
    return [
        advance(federation(config(**changes), executor=name), 2)
        for name in ("sequential", "stacked")
    ]


def rewritten(function, tensors: list[torch.Tensor], *passes):
    """What is recorded of a function, after some passes over it, and the operations that it has
    left."""
    recorded = fx_passes.record(function, tensors)
    for change in passes:
        change(recorded)
    recorded.recompile()
    return recorded, [node.target for node in recorded.graph.nodes]


@pytest.mark.parametrize(
    ("name", "options"),
    [method for method in METHODS if method[1] or method[0] == "fedavg"],
    ids=str,
)
def test_stacked_is_sequential(name, options):
    """In double precision to the last digits: rounding is then all that can differ, over 2 rounds
    of 2 epochs. The usual options has `test_a_captured_step_is_the_step`."""
    (one, rows), (other, stacked) = both(
        algorithm={"name": name, **options}, partition=FEWER, clients_per_round=4
    )
    assert_close(one.weights, other.weights, 1e-11)
    assert_close(one.server, other.server, 1e-11)
    for row, again in zip(rows, stacked, strict=True):
        assert {key for key, value in row.items() if value is None} == {
            key for key, value in again.items() if value is None
        }
        known = [key for key, value in row.items() if value is not None]
        assert [row[key] for key in known] == pytest.approx([again[key] for key in known], rel=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "partition": UNEVEN},
        {
            "keep_momentum": True,
            "momentum": 0.9,
            "partition": UNEVEN,
            "algorithm": {"name": "feddyn"},
        },
        {"augment": ["resized_crop", "flip"]},
        {"model": {"dropout": 0.4}, "algorithm": {"name": "fedfusion"}},
        {"partition": {"name": "permuted", "clients": 4}},
        {"batch_size": 1000},
        {"model": {"name": "logistic"}, "partition": UNEVEN},
        {"task": {"name": "regression"}, "lr": 0.01, "algorithm": {"name": "fedmmd"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_stacked_is_sequential_under_other_settings(changes):
    (one, _), (other, _) = both(**changes)
    assert_close(one.weights, other.weights, 1e-11)


def test_a_cohort_too_large_for_one_stack_is_cut(monkeypatch):
    whole, _ = advance(federation(config(clients_per_round=4), executor="stacked"))
    monkeypatch.setattr("fedrepro.training.executors.STACK_NUMBERS", 1)
    fed = federation(config(clients_per_round=4), executor="stacked")
    assert fed.executor.stack_size == 1
    assert_close(advance(fed)[0].weights, whole.weights, 1e-11)


def test_a_stack_counts_what_the_layers_put_out():
    """A client's batch of a narrow network is more than its weights: 4 maps of 28x28 for each
    image, and as many after ReLU. A logistic regression puts out its scores; a dense layer before
    it its units, again after ReLU."""
    fed = federation(
        config(model={"width": 0.125}, batch_size=64), images(shape=(1, 28, 28)), "stacked"
    )
    wide = activations(fed.algorithm, (1, 28, 28))
    weights = sum(tensor.numel() for tensor in fed.algorithm.net.state_dict().values())
    assert wide > 2 * 4 * 28 * 28 and fed.executor.stack_size == STACK_NUMBERS // (
        weights + 64 * wide
    )
    for model, expected in (({"name": "logistic"}, 10), ({"name": "mlp", "units": 7}, 7 + 7 + 10)):
        assert activations(federation(config(model=model)).algorithm, (1, 12, 12)) == expected


@pytest.mark.parametrize(
    ("device", "operations", "clients", "name"),
    [
        ("cpu", SMALL_STEP, 4, "stacked"),
        ("cpu", SMALL_STEP, 3, "sequential"),
        ("cpu", SMALL_STEP + 8, 4, "sequential"),
        ("cuda", LAUNCH_BOUND_STEP, 2, "stacked+graph"),
        ("cuda", LAUNCH_BOUND_STEP, 1, "sequential+graph"),
        ("cuda", LAUNCH_BOUND_STEP + 8, 4, "sequential+graph"),
    ],
)
def test_auto_chooses_by_the_device(device, operations, clients, name):
    """On CUDA by whether arithmetic hides the launches, and always a graph."""
    assert (
        pick(config(batch_size=8, clients_per_round=clients), operations // 8, torch.device(device))
        == name
    )


@pytest.mark.parametrize("executor", ["stacked+graph", "unknown"])
def test_unsupported_executor(executor):
    with pytest.raises(UserError, match="executor: "):
        federation(config(), executor=executor)


# The recorded step


def large(**changes) -> Federation:
    """A network whose first dense layer is large enough to be rewritten: 64 maps of 3x3 onto 512
    units; it records again."""
    return federation(config(model={"name": "mnist_cnn", "width": 1.0}, **changes), recordings={})


@pytest.mark.parametrize(
    ("name", "options", "optimiser"),
    [
        *((name, {}, {}) for name in ("fedavg", "fedcl", "fedfusion", "fedmmd", "psi_net")),
        *(
            (name, {}, optimiser)
            for name, optimiser in zip(("fedavg", "fedavg", "scaffold"), OPTIMISERS, strict=True)
        ),
    ],
    ids=str,
)
def test_a_recorded_step_is_autograd_and_sgd(name, options, optimiser):
    """Two steps of a large network from unlike received weights against torch's own gradient and
    optimiser; what a method's step is, support/client_steps.py has in NumPy. The longest sums have
    576 terms, each rounded to 1e-16, and go through some ten layers forth and back: 1e-12 at most;
    a wrong slope is off by 1e-4 and more."""
    fed = large(algorithm={"name": name, **options}, **optimiser)
    start, draw = fed.start()[0], rng.generator(0, "steps")
    received, names = receive(fed, start), fed.algorithm.names
    trained, weights = fed.algorithm.trained, {key: received[key].clone() for key in names}
    for key in trained:
        weights[key] += 0.01 * torch.randn(received[key].shape, generator=draw, dtype=torch.float64)
    leaves = {key: tensor.clone().requires_grad_(key in trained) for key, tensor in weights.items()}
    images, labels = train_part(fed, 0)
    step = Step(fed.algorithm, fed.config)
    optimiser = torch.optim.SGD([leaves[key] for key in trained], lr=0.1, **optimiser)
    velocity = step.velocity(weights, fed.algorithm.trained)
    for _ in range(2):
        with torch.no_grad():
            own = fed.algorithm.prepare(received, RoundExecution(fed, start, {}).client(0))
            batch = Batch(
                images,
                labels,
                fed.algorithm.reference_outputs(received, images, own),
                constants=own,
            )
        fed.algorithm.net.train()
        loss = fed.algorithm.loss(leaves, received, batch)
        fed.algorithm.net.eval()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        assert step(weights, velocity, received, batch, 0.1).item() == pytest.approx(
            loss.item(), rel=1e-12
        )
    assert_close(weights, {key: tensor.detach() for key, tensor in leaves.items()}, 1e-11)


# of weights w, received ones r, a number s and numbers o of w's shape -> the passes that value and
# slope take
PENALTIES = {
    "proximal": (
        lambda w, r, s, o: 0.3 * (w - r).square().sum(),
        3,
    ),  # the difference, its square, the slope with the other one
    "scaled": (lambda w, r, s, o: 0.3 * (s * (w - r).square()).sum(), 3),
    # and o times the square, o times the difference
    "weighted": (lambda w, r, s, o: 0.3 * (o * (w - r).square()).sum(), 5),
    "plain": (lambda w, r, s, o: (0.3 * (5 * (w - r).square())).sum(), 3),  # 0.3 times 5 first
    # s times o, which both need, that times w, and the slope
    "linear": (lambda w, r, s, o: 2 * (s * o * w).sum(), 3),
}


@pytest.mark.parametrize(("penalty", "passes"), PENALTIES.values(), ids=PENALTIES)
def test_single_numbers_are_multiplied_with_each_other(penalty, passes):
    """A penalty's value, and its slope where another is added to it, in so many passes over whole
    tensors."""
    draw = rng.generator(0, "penalties")
    w, r, o, other = (torch.randn(4, 5, generator=draw, dtype=torch.float64) for _ in range(4))
    given = [w, r, torch.tensor(0.7, dtype=torch.float64), o, other]

    def function(w, r, s, o, other):
        slope, value = grad_and_value(penalty)(w, r, s, o)
        return slope + other, value

    recorded, _ = rewritten(
        function, given, fx_passes.remove_no_ops, hoist_scalars, fx_passes.fold_constants
    )
    whole = [
        node
        for node in recorded.graph.nodes
        if node.op == "call_function" and node.meta["val"].shape == w.shape
    ]
    assert len(whole) == passes
    for ours, wanted in zip(recorded(0.1, *given), function(*given), strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-13, atol=1e-13)


def test_what_is_changed_in_between_is_not_multiplied_later():
    def function(x, y, s):
        scaled, same = x * s, y.pow(1)
        x.view(-1).add_(1)
        torch.mul(y, 2, out=y)
        return scaled * 2 + same, x.clone()

    given = [
        *(uniform(3, 3, seed=seed, dtype=torch.float64) for seed in (0, 1)),
        torch.tensor(0.7, dtype=torch.float64),
    ]
    recorded, _ = rewritten(function, given, hoist_scalars)
    wanted = function(*(tensor.clone() for tensor in given))
    for ours, expected in zip(recorded(0.1, *given), wanted, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-14, atol=0)


def test_the_product_library_follows_what_mkl_says_of_the_processor(monkeypatch):
    """By no vendor's name: MKL's branch for AVX-512, for a processor without code of its own, and a
    torch without MKL."""
    chosen = {}
    for branch in (12, fx_passes.MKL_AUTO, None):
        monkeypatch.setattr(fx_passes, "mkl_branch", lambda branch=branch: branch)
        chosen[branch] = fx_passes.prefers_onednn.__wrapped__()
    assert chosen == {
        12: False,
        fx_passes.MKL_AUTO: hasattr(torch.ops.mkldnn, "_linear_pointwise"),
        None: False,
    }


needs_onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"),
    reason="this torch has no oneDNN product of its own",
)


@pytest.mark.parametrize(
    "here",
    [pytest.param(True, marks=needs_onednn, id="oneDNN"), pytest.param(False, id="torch's own")],
)
def test_large_products_go_to_the_faster_library(monkeypatch, here):
    """A dense layer's three products, and one that is too small to matter; each number is a sum of
    up to 1024 products, so that float32's rounding is below 1e-5 of the largest."""
    monkeypatch.setattr(fx_passes, "prefers_onednn", lambda: here)
    draw = rng.generator(0, "products")
    bias, x, weight, slope = (
        torch.randn(*shape, generator=draw)
        for shape in ((512,), (20, 1024), (512, 1024), (20, 512))
    )

    def function(bias, x, weight, slope):
        few = slope[:, :4]
        half = torch.addmm(bias, x, weight.t(), beta=0.5)  # which stays as it is
        return (
            torch.addmm(bias, x, weight.t()),
            slope.mm(weight),
            slope.t().mm(x),
            few.t().mm(few),
            half,
        )

    given = [bias, x, weight, slope]
    recorded, operations = rewritten(
        function, given, lambda recorded: fx_passes.choose_matmul_kernels(recorded, given)
    )
    assert operations.count(torch.ops.aten.mm.default) == (1 if here else 3)
    if here:
        assert operations.count(torch.ops.mkldnn._linear_pointwise.default) == 3
    exact = function(*(tensor.double() for tensor in given))
    for ours, wanted in zip(recorded(0.1, *given), exact, strict=True):
        assert (ours - wanted).abs().max() < 1e-5 * wanted.abs().max()


@pytest.mark.parametrize(
    "view", [lambda one: one, lambda one: one.t()], ids=["itself", "views alone"]
)
def test_no_step_sees_another_tensor_after_its_step(view):
    """It would if the product of a gradient were computed only when it is added."""
    one, two = (uniform(3, 3, seed=seed, dtype=torch.float64) for seed in (0, 1))
    recorded, _ = rewritten(
        lambda one, two: (two.mm(two), one.t().mm(view(one))),
        [one, two],
        lambda found: fx_passes.fuse_sgd_step(found, {0: 0, 1: 1}),
    )
    expected = one - 0.5 * two @ two, two - 0.5 * one.T @ view(one)
    recorded(0.5, one, two)
    assert torch.equal(one, expected[0]) and torch.equal(two, expected[1])


def test_constants_are_what_they_were_filled_with():
    """With the same type: a third in single precision is another number."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x * (torch.ones_like(x) / 3),
            x + torch.zeros_like(x),
            x + x.new_ones(2, 3) / 3,
            x + x.new_zeros(2, 3),
        )

    recorded, operations = rewritten(
        function, [x := uniform(2, 3, dtype=torch.float64)], fx_passes.fold_constants
    )
    assert all(map(torch.equal, recorded(0.1, x), function(x))) and not set(
        fx_passes.FILL_VALUES
    ) & set(operations)


def test_what_depends_on_shapes_alone_is_computed_once():
    """But not tensors that are changed later, directly or through a view, and not random
    numbers."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        changed = torch.zeros_like(x)
        changed.view(-1).add_(x.flatten())
        return x * (torch.ones_like(x) / 4), changed, torch.bernoulli(torch.ones_like(x) / 2)

    recorded, operations = rewritten(function, [torch.zeros(2, 50)], fx_passes.fold_constants)
    aten = torch.ops.aten
    assert aten.ones_like.default not in operations and aten.div.Tensor not in operations
    assert aten.zeros_like.default in operations
    drawn = []
    for _ in range(2):
        quarter, same, draws = recorded(0.1, x := uniform(2, 50))
        assert torch.equal(quarter, x / 4) and torch.equal(same, x)
        drawn.append(draws)
    assert not torch.equal(*drawn)


@pytest.mark.parametrize(
    ("name", "executor"),
    [
        *((name, "sequential") for name in ("fedcl", "moon", "scaffold")),
        ("fedavg", "stacked"),
        ("fedfusion", "stacked"),
    ],
)
def test_runs_share_their_recordings(name, executor):
    """What one run recorded gives another, of the same network, method and kind of step, the
    numbers that it would have got alone; both have the same shapes here, so that nothing more is
    recorded."""
    alike = {"algorithm": {"name": name}, "model": {"dropout": 0.2}}
    settings = [
        config(rounds=2, **alike),
        config(seed=1, rounds=3, lr=0.02, local_epochs=2, weighting="samples", **alike),
    ]
    assert settings[0].model_dump(include=STEP_CACHE_FIELDS) == settings[1].model_dump(
        include=STEP_CACHE_FIELDS
    )
    shared, dataset = {}, images()
    given = (dataset, partition(settings[1], dataset), torch.device("cpu"), executor)
    advance(
        Federation(
            settings[0], dataset, partition(settings[0], dataset), *given[2:], recordings=shared
        )
    )
    recorded = dict(shared)
    other, rows = advance(Federation(settings[1], *given, recordings=shared))
    alone, same = advance(Federation(settings[1], *given))
    assert_same(other.weights, alone.weights)
    assert rows == same and recorded and shared.keys() == recorded.keys()


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": "mnist"},
        {"model": {"width": 0.1}},
        {"algorithm": {"name": "fedprox"}},
        {"task": {"name": "regression"}},
        {"momentum": 0.9},
        {"weight_decay": 0.1},
        {"optimizer": "adam"},
        {"precision": "float32"},
    ],
    ids=str,
)
def test_runs_whose_steps_are_others_share_no_recordings(changes, tmp_path):
    assert (
        a_run(tmp_path, config(**changes)).step_cache_key
        != a_run(tmp_path, config()).step_cache_key
    )


# CUDA graphs


def graphs_are_acted(monkeypatch) -> None:
    """On a processor: what a graph does to the memory that it was captured with is done by calling
    again."""

    def acted(work, pool):
        outputs = work()

        def replay() -> None:
            torch._foreach_copy_(list(outputs), list(work()))

        return replay, outputs

    monkeypatch.setattr(cuda_graph, "capture", acted)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)


def test_a_graph_keeps_the_constants_that_it_reads(monkeypatch):
    """They belong to what was captured, which nothing else holds, and the graph knows their
    addresses alone."""

    class Work:
        def __call__(self, *tensors):
            return tensors

    monkeypatch.setattr(cuda_graph, "capture", lambda work, pool: (list, work()))
    work = Work()
    alive, graph = weakref.ref(work), cuda_graph.CudaGraphStep(work, [torch.zeros(1)], [0], [])
    del work
    gc.collect()
    assert alive() is not None and graph.outputs


MOMENTUM = {"momentum": 0.9, "nesterov": True}


@pytest.mark.parametrize(
    ("name", "momentum"), [*zip(ALGORITHMS, itertools.cycle([{}, MOMENTUM]), strict=False)], ids=str
)
def test_a_captured_step_is_the_step(monkeypatch, name, momentum):
    """For batches of several sizes, under a rate that falls."""
    changes = {
        "algorithm": {"name": name},
        "partition": UNEVEN,
        "schedule": {"name": "exponential", "decay": 0.9},
    }
    one, rows = advance(federation(config(**changes, **momentum), executor="sequential"), 2)
    graphs_are_acted(monkeypatch)
    for executor in GRAPHS if name in STATEFUL else GRAPHS[1:]:
        fed = federation(config(**changes, **momentum))
        fed.executor = EXECUTORS[executor](fed.algorithm, fed.config, fed.data, captured=True)
        other, again = advance(fed, 2)
        assert_close(one.weights, other.weights, 1e-11)
        assert_close(one.server, other.server, 1e-11)
        assert [row["train_loss"] for row in again[1:]] == pytest.approx(
            [row["train_loss"] for row in rows[1:]], rel=1e-9
        )


# Precision


def test_what_trains_in_bfloat16_is_tested_in_single_precision():
    fed, exact = federation(config(precision="bfloat16")), federation(config(precision="float32"))
    state, row = run_round(fed, fed.start()[0])
    assert (row["test_accuracy"], row["test_loss"]) == scores(
        exact, state.weights, exact.data.test_x, exact.data.test_y
    )


def rounded(name: str) -> bool:
    """Whether a method says of itself that bfloat16 changes what it learns."""
    return algorithms.warning(config(algorithm={"name": name}, precision="bfloat16")) is not None


@pytest.mark.parametrize(("name", "executor"), [
    *((name, "sequential") for name in ALGORITHMS if not rounded(name)), ("fedavg", "stacked"),
], ids=str)  # fmt: skip
def test_bfloat16_moves_every_method_as_single_precision_does(name, executor):
    """All but those that have a warning: what a method adds to the loss is not rounded. Several
    steps, since in the first a client has not left yet what it received. A tenth: some eight steps
    of which each is off by up to a hundredth, as products of 8 bits are; a term that is rounded, or
    lost, is off by as much as it moves."""
    few = {"batch_size": 10, "local_epochs": 2, "lr": 0.05}

    def change(algorithm: dict, precision: str) -> dict[str, torch.Tensor]:
        fed = federation(config(algorithm=algorithm, precision=precision, **few), executor=executor)
        before, (after, _) = fed.start()[0].weights, advance(fed)
        return {
            key: (after.weights[key] - before[key]).double()
            for key in before
            if before[key].shape == after.weights[key].shape
        }

    exact, rough = (change({"name": name}, precision) for precision in ("float32", "bfloat16"))
    assert 0 < away(exact, rough) < 0.1 * away(exact)


def away(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor] | None = None) -> float:
    """Length of the difference of all that both have, or of one alone."""
    return (
        sum(
            (tensor - (other[key] if other else 0)).square().sum().item()
            for key, tensor in one.items()
        )
        ** 0.5
    )


@pytest.mark.parametrize(("name", "options"), METHODS, ids=str)
def test_what_an_objective_compares_with_is_rounded_too(name, options):
    fed = federation(config(algorithm={"name": name, **options}, precision="bfloat16"))
    state, pictures = fed.start()[0], fed.data.images(torch.arange(5), 0, None)
    weights = receive(fed, state)
    own = fed.algorithm.prepare(weights, RoundExecution(fed, state, {}).client(0))
    exact = fed.algorithm.reference_outputs(weights, pictures, own)
    with fed.algorithm.autocast(True):
        rough = fed.algorithm.reference_outputs(weights, pictures, own)
        with fed.algorithm.autocast(False):
            assert all(
                map(torch.equal, exact, fed.algorithm.reference_outputs(weights, pictures, own))
            )
    assert bool(exact) == fed.algorithm.needs_reference and {rows.dtype for rows in rough} <= {
        torch.float32
    }
    assert not any(map(torch.equal, exact, rough))


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


@needs_cuda
@pytest.mark.parametrize(("name", "options"), METHODS, ids=str)
def test_cuda_is_the_processor(name, options):
    settings, dataset = config(algorithm={"name": name, **options}), images()
    here, _ = advance(federation(settings, dataset))
    for executor in available(torch.device("cuda")):
        there = Federation(
            settings, dataset, partition(settings, dataset), torch.device("cuda"), executor
        )
        moved = {key: tensor.cpu() for key, tensor in advance(there)[0].weights.items()}
        # double precision there too: rounding, grown over some 60 steps
        assert_close(moved, here.weights, 1e-9)
