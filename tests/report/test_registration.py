"""A claim is registered if it stood, word for word, in the commit of every run that decides it."""

import json
import subprocess
from pathlib import Path

import pytest

from fedrepro.core import provenance
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.verdicts import registration
from fedrepro.report.verdicts.claim import parse_claim
from support.code import forget

FILE = Path("workflow/papers/p/registered.json")
KEY = "paper.higher"
CLAIM = {
    "text": "A is above B",
    "source": "Table 1",
    "experiment": "one",
    "quantity": {"kind": "difference", "series": "A", "baseline": "B", "last": 5},
    "reported": 0.02,
    "tolerance": 0.01,
    "because": "half of it",
}
WHO = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")


def results(
    lr: float = 0.1, seeds: tuple[int, ...] = (0, 1), commits: tuple[str, ...] = ("", "")
) -> Results:
    series = {
        label: {
            "config": {"algorithm": {"name": name}, "lr": lr, "seed": 0},
            "runs": [
                {"seed": seed, "commit": commit}
                for seed, commit in zip(seeds, commits, strict=True)
            ],
        }
        for label, name in (("A", "fedprox"), ("B", "fedavg"), ("another", "moon"))
    }
    return Results(
        {
            "scale": "paper",
            "compare": "full",
            "skipped": None,
            "experiment": "one",
            "series": series,
        },
        [],
    )


def entry(found: Results | None = None, **changes) -> registration.Entry:
    claim = parse_claim(CLAIM | changes, "claims.yaml")
    return registration.judged_entry(claim, claim.ref.resolved({}), {"one": found or results()})


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository of one's own; the function commits what is claimed and returns the commit's
    name."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(tmp_path), *WHO, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(
        claimed: registration.Entry | None = None, amend: bool = False, form: dict | None = None
    ) -> str:
        path = tmp_path / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        text = registration.to_text({"paper": {"higher": claimed} if claimed else {}})
        path.write_text(json.dumps(json.loads(text), **form) if form else text)
        git("add", "-A")
        git(
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            f"amended: {amend}",
            *(["--amend"] if amend else []),
        )
        forget()
        registration._entries_at.cache_clear()
        return git("rev-parse", "--short=10", "HEAD")

    git("init", "-q")
    git("config", "gc.auto", "0")
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path)
    commit.git = git
    forget()
    yield commit
    forget()
    registration._entries_at.cache_clear()


def told(commits, now: registration.Entry | None = None) -> str:
    return str(registration.registration(KEY, now or entry(), commits, FILE))


def test_registered_if_it_stood_in_the_commit_of_every_run(repository):
    before, first = repository(), repository(entry())
    later = repository(entry())
    assert told([first, later]) == told([later]) == f"registered in {first}, before its first run"
    assert told([before, first, later]) == "listed after 1 of 3 runs"
    assert told([f"{later}-dirty", later]) == "listed after 1 of 2 runs"


@pytest.mark.parametrize(
    "changed",
    [
        entry(reported=0.03),
        entry(tolerance=0.02),
        entry(reported="higher", tolerance=0, because=""),
        entry(quantity=CLAIM["quantity"] | {"last": 4}),
        entry(scales={"paper": {"last": 6}}),
        entry(measure="initial_accuracy"),
        entry(results(lr=0.2)),
        entry(results(seeds=(0, 2))),
        entry(results(seeds=(0, 1, 2), commits=("", "", ""))),
    ],
    ids=[
        "value",
        "tolerance",
        "word",
        "rounds",
        "rounds of the scale",
        "measure",
        "settings",
        "seeds",
        "a seed more",
    ],
)
def test_a_claim_that_was_changed_after_a_run_loses_its_registration(repository, changed):
    first = repository(entry())
    second = repository(changed)
    assert told([first], changed) == "listed after 1 of 1 runs"
    assert told([second], changed) == f"registered in {second}, before its first run"
    third = repository(entry())  # back again: what ran in between was not registered
    assert told([first, third]) == f"registered in {first}, before its first run"
    assert told([first, second, third]) == "listed after 1 of 3 runs"


def test_words_other_series_and_the_form_of_the_file_do_not_count(repository):
    worded = entry(
        text="B is below A", because="as we see it", note="a note", headline="A", source="Table 2"
    )
    assert worded == entry() and "another" not in json.dumps(entry())
    first = repository(entry(), form={"indent": 3})
    second = repository(entry())
    assert told([first, second]) == f"registered in {first}, before its first run"


def test_a_run_of_another_history_does_not_count(repository):
    base = repository()
    with_claim = repository(entry())
    repository.git("checkout", "-q", "-b", "side", base)
    side = repository()
    repository.git("checkout", "-q", "-")
    repository(entry())
    assert told([with_claim, side]) == "listed after 1 of 2 runs"
    assert told([with_claim]) == f"registered in {with_claim}, before its first run"


def test_what_history_does_not_have_is_unknown(repository, tmp_path):
    first = repository(entry())
    second = repository(entry(), amend=True)
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "-q", "--prune=now")
    forget()
    registration._entries_at.cache_clear()
    assert told([first, second]) == "unknown: the history here lacks the commits of 1 of 2 runs"
    (tmp_path / ".git").rename(tmp_path / "elsewhere")
    forget()
    assert told([second, "unknown"]) == "unknown: the history here lacks the commits of 2 of 2 runs"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"claims": {"a": 1}, "settings": {}}',
        "\x00",
        '{"claims": [], "settings": []}',
    ],
)
def test_a_damaged_file_registers_nothing(text):
    assert registration.from_text(text) == {}


def test_the_file_has_each_claim_and_its_settings_once():
    twice = {"paper": {"one": entry(), "two": entry(reported=0.03)}}
    text = registration.to_text(twice)
    assert registration.from_text(text) == {"paper.one": entry(), "paper.two": entry(reported=0.03)}
    assert text.count("fedprox") == 1 and len(text.splitlines()) == 8
