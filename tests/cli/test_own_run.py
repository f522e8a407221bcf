"""`fedrepro run`: settings of a command line become a small paper, which is checked, trained and
drawn like any other."""

import csv
import statistics

import pytest

from fedrepro.cli import main
from fedrepro.cli.own_run import settings_files
from fedrepro.core.errors import UserError
from fedrepro.core.files import single_process

EXPERIMENTS = "workflow/papers/run/experiments.yaml"


def test_each_setting_has_its_place():
    words = [
        "lr=0.05,0.1",
        "mu=0.1",
        "partition=dirichlet",
        "partition.alpha=0.3",
        "clients=20",
        "seeds=0..2",
        "augment=[flip]",
    ]
    files = settings_files(["fedavg", "fedprox"], "digits", words)
    experiment = files[EXPERIMENTS]["run"]
    assert experiment["partition"] == {"clients": 20, "name": "dirichlet", "alpha": 0.3}
    assert experiment["clients_per_round"] == 10 and experiment["augment"] == ["flip"]
    assert experiment["series"] == {
        "fedavg lr 0.05": {"name": "fedavg", "overrides": {"lr": 0.05}},
        "fedavg lr 0.1": {"name": "fedavg"},  # the default
        "fedprox lr 0.05": {"name": "fedprox", "overrides": {"lr": 0.05}, "mu": 0.1},
        "fedprox lr 0.1": {"name": "fedprox", "mu": 0.1},
    }
    assert files["params.yaml"]["scales"]["run"]["seeds"] == [0, 1, 2]
    again = settings_files(["fedavg"], "digits", [])  # the defaults are as before
    assert again[EXPERIMENTS]["run"]["partition"] == {"clients": 10, "name": "iid"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lrr=1"], "unknown setting 'lrr': nearest are lr"),
        (["mu=1"], "mu: an option of .*fedprox"),
        (["seeds=3..1"], "seeds: expected 1 to 1000 numbers"),
        (["seeds=0..99999999"], "seeds: expected 1 to 1000 numbers"),
        (
            [f"{key}={','.join(map(str, range(1, 41)))}" for key in ("lr", "rounds")],
            "fedavg: more than 1000 combinations",
        ),
        (["lr=!!python/object:os.system a"], "lr: "),
        (["optimizer=adam"], "optimizer: a setting of all clients, and an option of fedopt"),
        (["dataset=mnist"], "dataset: --data names the data set"),
        (["lr=0.1,0.2", "lr=0.3"], "lr: given twice"),
        (["seeds.x=1"], "unknown setting 'seeds.x'"),
        ([f"{'partition.' * 3000}alpha=1"], "unknown setting"),
    ],
)
def test_what_is_refused(words, message):
    with pytest.raises(UserError, match=message):
        settings_files(["fedavg", "fedopt"], "digits", words)


def test_settings_of_one_call_do_not_reach_the_next():
    first = settings_files(["fedavg"], "digits", [])
    settings_files(
        ["fedavg"], "digits", ["partition=dirichlet", "partition.alpha=0.3", "clients=4"]
    )
    assert settings_files(["fedavg"], "digits", []) == first


def test_series_keep_the_number_of_clients():
    [sizes, kinds] = (
        settings_files(["fedavg"], "digits", words)[EXPERIMENTS]["run"]
        for words in (["clients=2,20"], ["partition=iid,shards", "clients=5"])
    )
    assert [choice["overrides"] for choice in sizes["series"].values()] == [
        {"clients_per_round": 2, "partition": {"clients": 2, "name": "iid"}},
        {"partition": {"clients": 20, "name": "iid"}},
    ]
    assert kinds["clients_per_round"] == 5
    assert kinds["series"]["fedavg partition shards"]["overrides"] == {
        "partition": {"clients": 5, "name": "shards"}
    }


@pytest.mark.parametrize(("word", "problem"), [
    ("clients=many", "Input should be a valid integer"),
    ("partition=[1]", "Input should be a valid dictionary"),
    ("partition=dirichlet", "alpha: Field required"),
    ("model=nope", "unknown model 'nope'"),
    ("mu=-1", "Input should be greater than or equal to 0"),
    ("lr=0.1,x", "Input should be a valid number"),
    ("seeds=1,1", "values must be unique"),
    ("optimizer.name=foo", "literal['sgd']: Input should be 'sgd'"),
])  # fmt: skip
def test_a_mistake_is_named_as_typed_and_leaves_nothing(
    word, problem, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main.main(["run", "fedprox", "--data", "digits", "rounds=1", word]) == 2
    assert capsys.readouterr().err.startswith(f"error: {word}: {problem}") and not list(
        tmp_path.glob("results/own")
    )


def test_a_diverged_series_is_shown_as_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ["rounds=1", "clients=2", "train_images=100", "test_images=50"]
    assert main.main(["run", "fedavg", "--data", "digits", *small, "lr=0.1,1e30"]) == 0
    assert "(no finished run)  fedavg lr 1e30" in capsys.readouterr().out


def test_settings_of_a_checkout_are_not_replaced(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("scale: quick\n")
    assert main.main(["run", "fedavg", "--data", "digits", "--out", "."]) == 2
    assert "Choose another --out" in capsys.readouterr().err
    assert (tmp_path / "params.yaml").read_text() == "scale: quick\n"


def test_one_process_at_a_time_works_in_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with single_process(tmp_path / "here" / ".run.lock"):
        assert main.main(["run", "fedavg", "--data", "digits", "--out", "here"]) == 2
    assert "another process is at work" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main(["run", "fedavg", "--data", "digits", "--out", "/proc/x"]) == 2
    assert capsys.readouterr().err == "error: /proc/x: cannot be made; choose another folder\n"


def test_two_methods_are_compared_by_seed(tmp_path, monkeypatch, capsys):
    """The table's lead is the mean of the differences by seed, and its interval t (4.303 at three
    seeds) times their error."""
    monkeypatch.chdir(tmp_path)
    small = [
        "rounds=2",
        "clients=4",
        "batch_size=40",
        "train_images=400",
        "test_images=200",
        "seeds=0..2",
    ]
    command = ["run", "fedavg", "fedprox", "--data", "digits", *small, "mu=1", "--out", "here"]
    assert main.main(command) == 0
    out = capsys.readouterr().out
    assert "model: mlp, rounds: 2, " in out.splitlines()[0] and "series" not in out.splitlines()[0]
    assert "At the end, above fedavg" in out and "█" in out
    with open("here/data/run.csv", encoding="utf-8") as file:
        last = {
            (row["series"], row["seed"]): float(row["test_accuracy"])
            for row in csv.DictReader(file)
        }
    leads = [100 * (last["fedprox", seed] - last["fedavg", seed]) for seed in "012"]
    with open("here/tables/leads.csv", encoding="utf-8") as file:
        *_, written = csv.reader(file)
    assert float(written[1]) == pytest.approx(statistics.fmean(leads), abs=1e-4)
    assert float(written[2]) == pytest.approx(4.30265 * statistics.stdev(leads) / 3**0.5, abs=1e-3)
    assert main.main(command) == 0  # trains nothing
    assert "round" not in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "here/figures").iterdir()} == {
        f"curves.{end}" for end in ("csv", "pdf", "png", "svg")
    }
    assert (tmp_path / "mlflow.db").exists()
