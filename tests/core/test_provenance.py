"""A result is named by the code that computes it: comments and layout do not count, numbers do."""

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
import torch

from fedrepro.config import registry
from fedrepro.core import provenance
from support.code import change, forget

# a module for each name; schedules and tasks have one for all
KINDS = ("partitions", "models", "algorithms")


def digests():
    forget()
    return {
        name: provenance.code_digest(
            ("data.partitions.iid", "models.mnist_cnn", f"algorithms.{name}")
        )
        for name in ("fedavg", "fedprox")
    }


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    """The digests of the package as it is."""
    return digests()


def test_digest_of_values():
    assert provenance.value_digest({"a": 1, "b": [2.5]}) == provenance.value_digest(
        {"b": [2.5], "a": 1}
    )
    values = [{"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"}, [1], 1]
    assert len({provenance.value_digest(value) for value in values}) == len(values)
    assert len(provenance.value_digest(1)) == 10 and len(provenance.value_digest(1, 64)) == 64


def test_a_copy_has_the_same_digest_and_all_that_is_cached_can_be_cleared(package):
    copied = digests()
    forget()
    provenance.PACKAGE = Path(provenance.__file__).parents[1]
    assert digests() == copied
    caches = [value for value in vars(provenance).values() if hasattr(value, "cache_info")]
    (
        provenance.dataset_digest("fedrepro.data.datasets.digits"),
        provenance.environment(torch.device("cpu")),
    )
    assert sum(cache.cache_info().currsize > 0 for cache in caches) > 5
    forget()
    assert not any(cache.cache_info().currsize for cache in caches)


def test_comments_docstrings_and_layout_do_not_count(before, package):
    path = package / "algorithms" / "fedprox.py"
    change(path, "        squares = ", "        # a remark\n\n        squares = ")
    change(path, '"""FedProx: ', '"""Another docstring. ')
    change(path, "        mu: NonNegative", '        """Options."""\n\n        mu: NonNegative')
    change(package / "training" / "round.py", '"""Run the round after ', '"""Run a round after ')
    change(
        package / "training" / "compiled_step" / "step.py",
        "lr=lr,\n                momentum=self.",
        "lr=(lr), momentum=self.",
    )
    assert digests() == before


SOURCE = '''
def told(rows: list, **more) -> str:
    """Not counted."""
    try:
        [first, *_] = rows
        return f"{', '.join(f'{x!r:>{first}}' for x in rows)}{more or None}" "b\\n" + str(
            1e-3 + 1_000
        )
    except* (ValueError, TypeError):
        raise
'''


@pytest.mark.parametrize(("before", "after", "counts"), [
    ('raise UserError(f"{x} is too large")', 'raise UserError("too large")', False),
    ('log.warning("%s is large", x)', 'log.warning("large")', False),
    ('raise UserError("no")', 'raise ValueError("no")', True),
    ('raise UserError("no")', "pass", True),
    ("log = x + 1", "log = x + 2", True),
    ("logs.append(1)", "logs.append(2)", True),
])  # fmt: skip
def test_what_is_told_does_not_count(tmp_path, before, after, counts):
    """A reworded message trains nothing anew."""
    digests = []
    for name, line in (("before", before), ("after", after)):
        path = tmp_path / f"{name}.py"
        path.write_text(f"def f(x):\n    if x:\n        {line}\n    return x\n", encoding="utf-8")
        digests.append(provenance.normalised_ast(path))
    assert (digests[0] != digests[1]) == counts


def test_the_version_of_python_does_not_count(tmp_path):
    """Three of them (3.11 to 3.13) gave this; `ast.unparse` quotes nested strings in another way
    from 3.12 on."""
    path = tmp_path / "told.py"
    path.write_text(SOURCE, encoding="utf-8")
    assert provenance.value_digest(provenance.normalised_ast(path)) == "92c7fea641"


@pytest.mark.parametrize(("file", "old", "new", "changed"), [
    ("algorithms/fedprox.py", "0.5 *", "0.4 *", {"fedprox"}),
    ("algorithms/base.py", "total.add_(", "total.sub_(", {"fedavg", "fedprox"}),
    ("training/federation.py", "state.round + 1", "state.round + 2", {"fedavg", "fedprox"}),
    ("training/evaluation.py", "1e12", "1e11", {"fedavg", "fedprox"}),
    ("models/base.py", "std=0.1", "std=0.2", {"fedavg", "fedprox"}),
    ("models/mnist_cnn.py", '"conv1", 32', '"conv1", 33', {"fedavg", "fedprox"}),
    ("models/cifar_cnn.py", '"conv1", 64', '"conv1", 65', set()),
    ("data/partitions/iid.py", "params.clients)", "params.clients + 1)", {"fedavg", "fedprox"}),
    ("data/partitions/shards.py", "shards: Count = 2", "shards: Count = 3", set()),
    ("core/rng.py", ">> 1", ">> 2", {"fedavg", "fedprox"}),
    ("training/run.py", '"finished"', '"over"', set()),
    ("cli/main.py", "train what is not finished", "train the rest", set()),
    ("data/datasets/digits.py", "8", "9", set()),
])  # fmt: skip
def test_changed_code_counts_where_it_is_executed(file, old, new, changed, before, package):
    change(package / file, old, new)
    after = digests()
    assert {name for name in before if before[name] != after[name]} == changed


def test_all_that_computes_counts_where_it_is_loaded():
    """However it is imported, and whatever is set aside."""
    entries = [
        provenance.ENTRY_MODULE,
        *(registry.module_path(kind, name) for kind in KINDS for name in registry.names(kind)),
    ]
    code = "import sys; [__import__(module) for module in sys.argv[1:]]; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *entries], capture_output=True, text=True, check=True
    )
    rooms = ("fedrepro.training", "fedrepro.core.rng", *map(registry.module_path, KINDS))
    loaded = {
        module
        for module in done.stdout.split()
        if f"{module}.".startswith(tuple(f"{room}." for room in rooms))
    }
    counted = set(
        provenance.imported_modules(entries, provenance.PACKAGE, provenance.NOT_NUMERIC, ())
    )
    assert len(loaded) > len(entries) and loaded <= counted


PARTS = {
    name: lambda name=name: provenance.partition_digest(name) for name in ("permuted", "shards")
}
SETS = {
    name: lambda name=name: provenance.dataset_digest(f"{provenance.DATASETS}.{name}")
    for name in ("released", "digits")
}


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("algorithms/fedprox.py", "0.5 *", "0.4 *", set()),
        # which it is made of
        ("data/partitions/iid.py", "params.clients)", "params.clients + 1)", {"permuted"}),
        # what deals for all of them
        ("data/partitions/base.py", "order[:count]", "order[count:]", {*PARTS}),
        ("data/datasets/base.py", "math.prod(", "math.fsum(", set()),
        ("data/datasets/_fetch.py", "def fetch_raw(", "def fetch_all(", set()),
        ("data/datasets/released.py", "return", "pass\n    return", {"released"}),
        ("data/datasets/_prepared.py", "import os", "import sys", {*SETS}),
    ],
)
def test_code_of_partitions_and_data_sets_counts_where_it_is_executed(
    file, old, new, changed, package
):
    def found() -> dict[str, str]:
        forget()
        return {name: digest() for name, digest in (PARTS | SETS).items()}

    before = found()
    change(package / file, old, new)
    after = found()
    assert {name for name in before if before[name] != after[name]} == changed


@pytest.fixture
def git(tmp_path, package, monkeypatch):
    """git in the folder that holds the copied package, all of it committed."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("FEDREPRO_COMMIT", "abcdef0")

    def call(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True, text=True
        )
        forget()
        return done.stdout.strip()

    call("init")
    call("add", ".")
    call("commit", "-m", "one", "--date", "2020-02-02T12:00:00")
    return call


MMD = ("data.partitions.iid", "models.mnist_cnn", "algorithms.fedmmd")
PROX = ("data.partitions.iid", "models.mnist_cnn", "algorithms.fedprox")


def test_a_commit_is_dirty_where_the_training_code_differs(package, git, tmp_path):
    """Not where another file does, nor a comment, nor an algorithm that the run does not
    execute."""
    first, before = git("rev-parse", "--short=10", "HEAD"), provenance.code_digest(PROX)
    assert provenance.current_commit(PROX) == first and len(first) == 10
    (tmp_path / "notes").write_text("2")
    change(package / "algorithms" / "fedprox.py", '"""FedProx: ', '"""Another docstring. ')
    forget()
    assert provenance.current_commit(PROX) == first
    change(package / "algorithms" / "fedprox.py", "0.5 *", "0.4 *")
    forget()
    assert (
        provenance.current_commit(PROX) == f"{first}-dirty"
        and provenance.current_commit(MMD) == first
    )
    assert provenance.committed_digest(first, PROX) == before != provenance.code_digest(PROX)
    assert provenance.committed_digest(first, (*PROX, "algorithms.absent")) is None
    assert provenance.committed_digest("0123456789", PROX) is None
    made = datetime.fromisoformat(provenance.commit_date(f"{first}-dirty"))
    assert made.isoformat().endswith("+00:00") and made.timestamp() == int(
        git("show", "-s", "--format=%ct", "HEAD")
    )
    git("commit", "-am", "two")
    assert provenance.current_commit(PROX) == git("rev-parse", "--short=10", "HEAD") != first
    (tmp_path / ".git" / "info" / "attributes").write_text("* export-ignore\n")
    forget()
    assert provenance.committed_digest(first, PROX) is None
