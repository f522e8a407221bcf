"""Packing of work into jobs: every item once, no job too small, all cores busy, and the same jobs
in every process."""

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fedrepro.config.params import DeviceChoice
from fedrepro.core.errors import UserError
from fedrepro.experiments import cost_model
from fedrepro.experiments.jobs import (
    MIN_JOB_SECONDS,
    Cost,
    Job,
    Work,
    makespan,
    pack,
    pack_jobs,
    read_jobs,
    write_jobs,
)
from fedrepro.experiments.resolve import resolve
from fedrepro.models import resnet50
from fedrepro.runs import records
from fedrepro.runs.paths import Paths
from fedrepro.runs.run import Run, code_digest, run_id
from fedrepro.training import run as engine
from fedrepro.training import runner as training
from support import experiments
from support.federation import a_run, config, images


def drawn(seed: int) -> list[float]:
    """Draw the seconds of a few to a hundred items, from nothing to hours."""
    draw = random.Random(seed)
    return [
        draw.choice((0, 1, 9, 40, 61, 300, 9000)) * draw.random()
        for _ in range(draw.randrange(1, 100))
    ]


def loads(costs: list[float], jobs: list[list[int]]) -> list[float]:
    return [sum(costs[piece] for piece in job) for job in jobs]


@pytest.mark.parametrize("least", [1, 2, 4, 8, 1000])
@pytest.mark.parametrize("seed", range(30))
def test_packing_invariants(seed, least):
    costs = drawn(seed)
    jobs = pack(costs, least)
    found = loads(costs, jobs)
    # every piece in exactly one job
    assert sorted(piece for job in jobs for piece in job) == list(range(len(costs)))
    assert len(jobs) >= min(least, len(costs)) and all(jobs)  # as many as cores, none without work
    # none too small, unless a core had nothing to do
    assert len(jobs) <= least or min(found) >= MIN_JOB_SECONDS
    assert found == sorted(found, reverse=True)  # the longest first
    assert all(job == sorted(job) for job in jobs)  # in the order of the plan
    # no job is longer than the shortest by more than one of its pieces: that one would have gone
    # there
    assert all(
        load - min(costs[piece] for piece in job) <= min(found) + 1e-9
        for job, load in zip(jobs, found, strict=True)
    )
    assert jobs == pack(costs, least)


@pytest.mark.parametrize(("costs", "least", "jobs"), [
    ([], 2, []),
    ([5], 2, [[0]]),
    ([0, 0, 0, 0], 2, [[0, 2], [1, 3]]),  # what is nearly done is spread all the same
    ([20, 30, 10, 40], 2, [[2, 3], [0, 1]]),
    ([3600, 7200, 1800], 1, [[1], [0], [2]]),  # a long run is a job of its own
    ([3600, 20, 7200, 20, 30], 1, [[2], [0], [1, 3, 4]]),
    ([3600, 20, 7200], 2, [[2], [0, 1]]),  # too little for a job: it goes where least is to be done
    ([50, 50, 50], 1, [[0, 1, 2]]),  # two jobs would be 100 and 50
    ([MIN_JOB_SECONDS] * 3, 1, [[0], [1], [2]]),
])  # fmt: skip
def test_packing_examples(costs, least, jobs):
    assert pack(costs, least) == jobs


# ---- what the main process decides, others read


def piece(
    folder: Path,
    number: int,
    seconds: float,
    experiment: str = "p_fig",
    label: str = "",
    key: str | None = None,
) -> Work:
    run = SimpleNamespace(id=f"run{number}", step_cache_key=key)
    done_file = folder / run.id / "record.json"
    return Work(run, done_file, experiment, label or f"{number} L2 0.1", cost=Cost(seconds=seconds))


def pieces(folder: Path, count: int) -> list[Work]:
    return [piece(folder, i, 20.0 + i) for i in range(count)]


def written(work: list[Work], least: int, folder: Path) -> list[Job]:
    jobs = pack_jobs([one for one in work if not one.done_file.exists()], least)
    write_jobs(jobs, folder)
    return jobs


def finish(piece: Work) -> None:
    piece.done_file.parent.mkdir(exist_ok=True)
    piece.done_file.write_text("")


def by_name(jobs: list[Job]) -> dict[str, tuple[Work, ...]]:
    return {job.name: job.work for job in jobs}


def test_other_processes_have_the_jobs_of_the_main_process(tmp_path):
    """Also if some of a job's runs are finished by then, or another main process has packed the
    rest again."""
    known, folder = pieces(tmp_path, 9), tmp_path / "packed" / "quick"
    finish(known[3])
    first = written(known, 2, folder)
    assert sorted(one.series for job in first for one in job.work) == sorted(
        one.series for one in known if one != known[3]
    )
    assert all(job.name.isidentifier() for job in first) and by_name(
        read_jobs(known, folder)
    ) == by_name(first)
    finish(first[0].work[0])
    assert by_name(read_jobs(known, folder)) == by_name(first)
    second = written(known, 3, folder)
    assert len(second) == 3 and first[0].work[0] not in [one for job in second for one in job.work]
    assert by_name(read_jobs(known, folder)) == by_name(first) | by_name(second)
    # of other settings: some of each job's runs are not in the plan any more
    assert read_jobs(known[:5], folder) == []
    for one in known:
        finish(one)
    # what is over is forgotten
    assert written(known, 2, folder) == [] and read_jobs(known, folder) == []


def test_job_names_are_unique(tmp_path):
    one, two = (pack_jobs(pieces(tmp_path, count), 1)[0] for count in (2, 3))
    assert one.name.startswith("p_fig_0_L2_0_1_and_1_more_") and two.name.startswith(
        "p_fig_0_L2_0_1_and_2_more_"
    )
    alone, other = (pack_jobs(pieces(folder, 1), 1)[0] for folder in (tmp_path, tmp_path / "other"))
    assert (
        "more" not in alone.name
        and alone.name != other.name
        and alone.name[:-10] == other.name[:-10]
    )


@pytest.mark.parametrize("label", ["\N{CJK UNIFIED IDEOGRAPH-5B66}" * 300, "l" * 300])
def test_a_long_label_is_cut_in_names_of_files(tmp_path, label):
    """By bytes: a file name has 255 at most. Labels with the same beginning give different jobs."""
    names = {
        job.name
        for job in pack_jobs([piece(tmp_path, i, 1.0, label=f"{label} {i}") for i in range(2)], 2)
    }
    assert len(names) == 2 and max(len(name.encode()) for name in names) < 160


@pytest.mark.parametrize(("together", "least"), [(False, 1), (False, 2), (False, 16), (True, 2)])
def test_experiments_share_jobs_only_if_they_may(tmp_path, together, least):
    """Together they have work for all cores."""
    known = [piece(tmp_path, i, 1.0 + i, f"p_fig{i % 5}") for i in range(20)]
    jobs = pack_jobs(known, least, together)
    assert sorted(one.cost.seconds for job in jobs for one in job.work) == [
        one.cost.seconds for one in known
    ]
    found = [{one.experiment for one in job.work} for job in jobs]
    assert len(jobs) >= least
    assert (
        (len(jobs) < 5 and max(map(len, found)) > 1)
        if together
        else (len(jobs) >= 5 and all(len(own) == 1 for own in found))
    )
    assert [job.seconds for job in jobs] == sorted((job.seconds for job in jobs), reverse=True)


@pytest.mark.parametrize(
    ("alike", "seconds", "least", "sizes"),
    [
        (2, 2.0, 2, [6, 6]),
        (2, 20.0, 2, [4, 4, 4]),
        (2, 300.0, 2, [1] * 12),
        (12, 3.0, 1, [12]),
        (12, 3.0, 4, [3] * 4),
    ],
)
def test_runs_with_one_step_cache_key_share_a_job(tmp_path, alike, seconds, least, sizes):
    """Seeds of one series share a job, as long as that leaves work for every core and a long run
    its own job."""
    known = [piece(tmp_path, i, seconds, key=f"series {i // alike}") for i in range(12)]
    jobs = pack_jobs(known, least)
    numbers = [[known.index(one) for one in job.work] for job in jobs]
    assert sorted(sum(numbers, [])) == list(range(12)) and all(
        own == sorted(own) for own in numbers
    )
    assert [len(own) for own in numbers] == sizes
    if alike == 2 and max(sizes) > 1:
        assert all(
            len({one.step_cache_key for one in job.work}) == len(job.work) / 2 for job in jobs
        )


def test_a_retry_reserves_more_time_and_memory(tmp_path):
    work = [
        replace(one, cost=Cost(seconds=90, memory=memory))
        for one, memory in zip(pieces(tmp_path, 2), (1.5e9, 2e9), strict=True)
    ]
    job = Job("job", tuple(work))
    # an hour and twice three minutes
    assert [job.minutes(attempt) for attempt in (1, 2)] == [66, 132]
    assert [job.megabytes(attempt) for attempt in (1, 2)] == [2000, 4000]


@pytest.mark.parametrize(
    ("costs", "workers", "expected"),
    [([], 2, 0), ([3, 2, 2], 1, 7), ([3, 2, 2], 2, 4), ([9, 1], 4, 9)],
)
def test_makespan(costs, workers, expected):
    assert makespan(costs, workers) == expected


# ---- what runs cost


def cost(
    run: Run,
    folder: Path,
    device: str = "cpu",
    ratios: cost_model.Ratios | None = None,
    hardware: str = "",
    **options: Any,
) -> Cost:
    counts, executor = (
        cost_model.CountCache(Paths(results=folder)),
        options.pop("executor", "sequential"),
    )
    return cost_model.estimate(
        run, counts, executor, torch.device(device), ratios or {}, hardware, **options
    )


def test_a_guess_needs_no_kept_run(tmp_path):
    def seconds(executor: str = "sequential", cores: int = 1, **changes) -> float:
        settings = {
            "dataset": "digits",
            "train_images": None,
            "test_images": None,
            "precision": "float32",
        }
        settings |= {
            "partition": {"name": "iid", "clients": 4},
            "model": {"name": "mnist_cnn", "width": 0.5},
        }
        resolved = resolve(config(**settings | changes))
        return cost(a_run(tmp_path, resolved), tmp_path, executor=executor, cores=cores).seconds

    base = seconds(rounds=10)
    assert cost_model.RUN_START_SECONDS < base < 600 and seconds(rounds=20) - base == pytest.approx(
        base - cost_model.RUN_START_SECONDS
    )
    assert (
        seconds(rounds=10, model={"name": "mnist_cnn", "width": 0.1})
        < base
        < seconds(rounds=10, batch_size=1)
    )
    one, two, three, four, many = (
        seconds(rounds=1000, clients_per_round=4, cores=cores) for cores in (1, 2, 3, 4, 16)
    )
    # on two cores two clients each, on three one core has two
    assert one > two == three > four == many
    assert (one - two + cost_model.WORKER_START_SECONDS) * 3 == pytest.approx(
        (one - four + cost_model.WORKER_START_SECONDS) * 2
    )
    # one call a step for all
    assert seconds("stacked", rounds=10, cores=4) == seconds("stacked", rounds=10) < base


def test_cost_of_a_frozen_reference_network(tmp_path):
    """One more forward pass: in every epoch if images are augmented, else in the first."""

    def of(name: str, device: str = "cpu", **changes) -> Cost:
        resolved = resolve(
            config(algorithm={"name": name}, local_epochs=2, evaluate_every=2, **changes)
        )
        return cost(a_run(tmp_path, resolved), tmp_path, device)

    plain = of("fedavg")
    for augment, more in (([], 0.5), (["flip"], 1)):
        looking = of("l2", augment=augment)
        assert looking.operations - plain.operations == pytest.approx(
            more * plain.samples * of_one_image(plain)
        )
        assert looking.seconds > plain.seconds
    large = {"dataset": "mnist", "model": {"width": 1.0}}
    assert of("l2", "cuda", **large).seconds < of("l2", **large).seconds


@pytest.mark.parametrize(("every", "times"), [(1, 3), (3, 1)])
def test_cost_of_measures_over_all_clients(tmp_path, every, times):
    """One of 4 clients in each evaluated round: 2 epochs of its 20 images, and its 10 test images
    before and after."""

    def of(*measures: str) -> Cost:
        given = {"train_images": 80, "test_images": 40, "evaluate_every": every}
        return cost(a_run(tmp_path, config(**given, measures=measures)), tmp_path)

    plain, looking, training = (
        of("personal_accuracy"),
        of("initial_accuracy_all"),
        of("personal_accuracy_all"),
    )
    assert (looking.samples, looking.evaluated) == (plain.samples, plain.evaluated + times * 10)
    assert (training.samples, training.evaluated) == (
        plain.samples + times * 2 * 20,
        plain.evaluated + times * 10,
    )
    assert training.seconds > looking.seconds > plain.seconds
    assert (
        of("initial_accuracy_all", "personal_accuracy_all").evaluated
        == plain.evaluated + times * 2 * 10
    )


def of_one_image(cost: Cost) -> float:
    """Return the operations of one image's forward pass."""
    return cost.operations / (3 * cost.samples + cost.evaluated)


def test_cost_example(tmp_path, monkeypatch):
    """3 rounds of 3 clients with 20 images and 2 epochs; 40 test images, and 10 of each participant
    before and after training. A frozen network sees each image once, in the first epoch."""
    monkeypatch.setattr(cost_model, "CPU_SPEED", 0.5)
    monkeypatch.setattr(cost_model, "CPU_GROWTH", 0)
    run = a_run(tmp_path, config(train_images=80, test_images=40))
    for trainings, reference in ((1, 0), (2, 0), (1, 1)):
        counts = {"operations": 7, "weights": 1, "activations": 1, "needs_reference": reference}
        counts["trainings_per_round"] = trainings
        monkeypatch.setattr(cost_model, "network_counts", lambda *_, counts=counts: counts)
        samples, evaluated, passes = (
            trainings * 3 * 3 * 20 * 2,
            3 * (40 + 2 * 3 * 10),
            3 + reference / 2,
        )
        found = cost(run, tmp_path)
        assert (found.samples, found.evaluated) == (samples, evaluated)
        assert found.operations == 7 * (passes * samples + evaluated)
        assert found.seconds == pytest.approx(
            cost_model.RUN_START_SECONDS + 14 * (passes * samples + evaluated)
        )


def keep_timed(
    folder: Path, seconds: float, hardware: str, timed: int = 3, early: bool = False, **changes: Any
) -> None:
    """Keep a run of so many seconds for `timed` rounds. Early code did not record the operations of
    a forward pass."""
    settings = config(**changes)
    run = Run(
        Paths(results=folder).kept("p") / run_id(settings, "data"),
        settings,
        "data",
        code_digest(settings),
    )
    counts = cost_model.network_counts(settings, cost_model.CountCache(Paths(results=folder)))
    experiments.finish(run, hardware=hardware, executor="sequential", weights=counts["weights"])
    record = records.load(run.folder)
    environment = record["environment"] | ({} if early else {"operations": counts["operations"]})
    timing = {"seconds": seconds, "timed_rounds": timed}
    experiments.shelve(run, record | {"environment": environment} | timing)


def test_seconds_are_those_of_similar_kept_runs(tmp_path):
    """The median of those most alike: of this hardware, network, method and size of steps, then of
    less of these."""
    for seed, taken in enumerate((100, 300, 200)):
        keep_timed(tmp_path, taken, "here", early=seed == 0, seed=seed)
    keep_timed(tmp_path, 300, "there", timed=1, seed=4)
    keep_timed(tmp_path, 700, "here", algorithm={"name": "l2"})
    keep_timed(tmp_path, 70_000, "here", timed=0, seed=3)
    ratios = cost_model.kept_ratios(Paths(results=tmp_path), torch.device("cpu"))

    def seconds(
        hardware: str = "here", ratios: cost_model.Ratios = ratios, **changes: Any
    ) -> float:
        found = cost(a_run(tmp_path, config(**changes)), tmp_path, "cpu", ratios, hardware)
        return found.seconds - cost_model.RUN_START_SECONDS

    assert seconds(seed=9) == pytest.approx(200) and seconds(
        seed=9, rounds=6, lr=1.0
    ) == pytest.approx(400)
    assert seconds("there") == pytest.approx(900) and seconds("elsewhere") == seconds(
        ""
    ) == pytest.approx(250)
    assert seconds(algorithm={"name": "l2"}) == pytest.approx(700)
    assert seconds(batch_size=4) == pytest.approx(
        200 * seconds(ratios={}, batch_size=4) / seconds(ratios={})
    )
    network, method = seconds(algorithm={"name": "fedprox"}), seconds(algorithm={"name": "fedmmd"})
    assert 200 < network < method  # which has one more pass than any of whose seconds are known
    assert seconds("", model={"name": "mlp"}) > 10 * seconds(ratios={}, model={"name": "mlp"})
    # where none was ever timed
    assert cost_model.kept_ratios(Paths(results=tmp_path), torch.device("cuda")) == {}


def test_operations_grow_with_images_and_classes(tmp_path):
    """8 x 8 pixels, 28 x 28 with ten classes, then with 26; all are cached together."""
    known = cost_model.CountCache(Paths(results=tmp_path))
    found = [
        cost_model.network_counts(config(dataset=name), known)["operations"]
        for name in ("digits", "mnist", "emnist_letters")
    ]
    assert found == sorted(set(found))


def test_memory_grows_with_images_clients_and_processes(tmp_path):
    def memory(executor: str = "sequential", cores: int = 1, **settings: Any) -> float:
        return cost(
            a_run(tmp_path, config(**settings)), tmp_path, executor=executor, cores=cores
        ).memory

    one = memory()
    assert cost_model.PROCESS_BYTES["cpu"] < one < memory("stacked")
    assert memory(dataset="mnist") > one + 2 * 60_000 * 28 * 28
    assert memory(cores=2) == 3 * one  # two workers and the process that aggregates


def test_an_estimate_downloads_no_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(resnet50, "load_imagenet_weights", None)
    run = a_run(
        tmp_path, resolve(config(model={"name": "resnet50", "width": 1.0, "pretrained": True}))
    )
    assert cost(run, tmp_path).seconds > 0


# ---- a job whose runs fail


@pytest.fixture
def tried(monkeypatch) -> dict[str, Exception | None]:
    """Return the error of each run that `train` tries, by name; a test sets errors before. Data and
    partitions are made up."""
    errors: dict[str, Exception | None] = {}

    def attempt(run, *arguments):
        error = errors.setdefault(run.id, None)
        if error:
            raise error
        return True

    monkeypatch.setattr(engine, "train", attempt)
    monkeypatch.setattr(
        training, "provide_dataset", lambda *arguments: replace(images(), meta={"identity": "made"})
    )
    monkeypatch.setattr(training, "provide_partition", lambda *arguments: None)
    return errors


def train(folder: Path, datasets: dict[str, str]) -> None:
    """Train runs on these data sets."""
    chosen = {name: config(dataset=dataset) for name, dataset in datasets.items()}
    runs = [Run(folder / name, asks, "made", code_digest(asks)) for name, asks in chosen.items()]
    training.train(runs, Paths(folder), device=DeviceChoice("cpu"))


@pytest.mark.parametrize(
    ("errors", "kind", "words"),
    [
        ({"b": UserError("too few images")}, UserError, "^b: too few images$"),
        ({"a": UserError("one"), "c": UserError("two")}, UserError, "^a: one\nc: two$"),
        ({"a": RuntimeError("broken")}, RuntimeError, "broken"),
        (
            {"a": RuntimeError("broken"), "b": UserError("too few images")},
            ExceptionGroup,
            "failed: a, b",
        ),
    ],
)
def test_a_failing_run_leaves_the_others_to_be_trained(
    tmp_path, tried, errors, kind, words, caplog
):
    tried.update(errors)
    with pytest.raises(kind, match=words) as caught:
        train(tmp_path, dict.fromkeys("abc", "digits"))
    assert tried.keys() == set("abc") and caplog.text.count("failed") == len(errors)
    if kind is RuntimeError:
        assert (
            caught.value.__notes__ == ["failed: a"]
            and "a failed: RuntimeError: broken" in caplog.text
        )


def test_unreadable_data_do_not_stop_runs_on_other_data(tmp_path, tried, monkeypatch, caplog):
    """They are read once and reported once."""
    asked, made = [], training.provide_dataset

    def dataset(choice, *_):
        asked.append(choice.name)
        if choice.name == "digits":
            raise UserError("damaged")
        return made()

    monkeypatch.setattr(training, "provide_dataset", dataset)
    with pytest.raises(UserError, match="^digits: damaged$"):
        train(tmp_path, {name: "mnist" if name in "ce" else "digits" for name in "abcde"})
    assert (
        list(tried) == ["c", "e"]
        and asked == ["digits", "mnist", "mnist"]
        and caplog.text.count("failed") == 1
    )
    assert "damaged" not in caplog.text  # the error tells why


def test_damaged_final_weights_do_not_stop_other_runs(tmp_path, tried, caplog):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model.safetensors").write_bytes(b"xx")
    training.write_summaries(
        [Run(tmp_path / "a", config(), "made", code_digest(config()))]
    )  # as before a job: logged, not raised
    assert "a failed" in caplog.text and not tried
    with pytest.raises(UserError, match="model.safetensors"):
        train(tmp_path, dict.fromkeys("ab", "digits"))
    assert list(tried) == ["b"]
