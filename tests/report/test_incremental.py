"""Which artifacts one job makes anew: those whose numbers, settings or code changed or whose files are not as left."""

import json

import pytest

from fedrepro.report import artifacts, incremental
from fedrepro.report import paper as spec
from fedrepro.report.inputs.gathered import load
from fedrepro.runs import reasons
from fedrepro.runs.gather import Gathering
from support.paper import CURVES, FIRST, PAPER, SECOND, read
from support.results import made, store, waits

STALE = ["one", "rounds", "apart", "verdicts"]  # what shows the first experiment
CHOSE = {"target": {"paper": 0.9}, "reported": {"L2": "c:FedAvg"}, "chose": "the rate"}  # by the curve of the first one


@pytest.fixture
def work(tmp_path):
    """A paper whose artifacts are up to date; a call brings them up to date again and says what was made."""
    paper, folder, stamps = read(tmp_path, PAPER), tmp_path / "p", tmp_path / "stamps"
    store(FIRST, folder / "data", "first")
    store(SECOND, folder / "data", "second")

    def refresh(keys=paper.artifacts, known="aa", code="c", paper=paper):
        return incremental.refresh(paper, dict.fromkeys(keys, known), folder, {}, stamps, code)

    assert refresh() == paper.artifacts == ["one", "two", "rounds", "apart", "verdicts"]
    return refresh, folder, stamps


def test_only_what_changed_is_made(work):
    refresh, folder, _ = work
    assert refresh() == []
    store(made({"FedMMD": {0: [0.1, 0.9]}, "FedAvg": {0: [0.1, 0.2]}}), folder / "data", "first")
    kept = (folder / "figures/two.png").stat().st_mtime_ns
    assert refresh() == STALE and refresh() == []
    assert (folder / "figures/two.png").stat().st_mtime_ns == kept
    assert refresh(code="d") == ["one", "two", *STALE[1:]]


def test_changed_words_remake_their_artifact(work, tmp_path):
    refresh, _, _ = work
    other = read(tmp_path, PAPER | {"figures": PAPER["figures"] | {"two": {"title": "Else", "experiment": "second"}}})
    assert refresh(paper=other) == ["two"]


@pytest.mark.parametrize(("changes", "told"), [
    ({"figures": {"zero": {"title": "Zero", "experiment": "first"}, **PAPER["figures"]}}, ["verdicts"]),  # claims stand there
    ({"proposed": ["FedMMD"]}, ["one", "two"]),  # it is emphasised
    ({"experiments": PAPER["experiments"] | {"second": CHOSE}}, ["one", "two", "rounds", "apart", "verdicts"]),  # all name it
])  # fmt: skip
def test_what_an_artifact_says_is_in_its_digest(changes, told, tmp_path):
    """Also what stands elsewhere in the paper's file."""
    before, after = (read(tmp_path, values) for values in (PAPER, PAPER | changes))
    both = {key: [spec.identity(one, [key], tmp_path) for one in (before, after)] for key in before.artifacts}
    assert [key for key, (first, second) in both.items() if first != second] == told


def test_the_papers_curves_are_in_the_digest_of_every_artifact(tmp_path):
    paper = read(tmp_path, PAPER)
    before = [spec.identity(paper, [key], tmp_path) for key in paper.artifacts]
    read(tmp_path, PAPER, CURVES.replace("0.2", "0.25"))
    assert not set(before) & {spec.identity(paper, [key], tmp_path) for key in paper.artifacts}


def test_files_that_somebody_touched_are_made_again(work):
    refresh, folder, _ = work
    (folder / "tables/rounds.csv").write_text("typed in by hand\n")
    (folder / "figures/two.txt").unlink()
    assert refresh() == ["two", "rounds"] and "typed" not in (folder / "tables/rounds.csv").read_text()


def test_stamps_tell_the_last_state_only(work):
    """Another state removes the stamps of the one before; a part that is made takes away the stamp of the whole."""
    refresh, folder, stamps = work
    whole = incremental.stamp(stamps, incremental.ALL, "aa")
    whole.touch()
    refresh(["one"], known="bb")
    assert sorted(path.name for path in stamps.glob("one-*")) == ["one-bb"] and not whole.exists()
    assert incremental.stamp(stamps, "two", "aa").exists()


def test_a_job_that_ends_early_leaves_no_stamp(work, monkeypatch):
    refresh, folder, stamps = work

    def killed(*_):
        raise KeyboardInterrupt

    (folder / "figures/one.txt").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(artifacts, "make", killed)
        with pytest.raises(KeyboardInterrupt):
            refresh(["one"])
    assert not list(stamps.glob("one-*"))
    assert refresh(["one"]) == ["one"]


def test_stamps_of_lost_files_are_not_believed(work, tmp_path):
    refresh, folder, stamps = work
    whole = incremental.stamp(stamps, incremental.ALL, "aa")
    whole.touch()
    incremental.distrust(read(tmp_path, PAPER), folder, stamps)
    assert whole.exists() and incremental.stamp(stamps, "two", "aa").exists()
    (folder / "figures/one.txt").write_text("as in another commit\n")
    incremental.distrust(read(tmp_path, PAPER), folder, stamps)
    assert (
        not whole.exists()
        and not incremental.stamp(stamps, "one", "aa").exists()
        and incremental.stamp(stamps, "two", "aa").exists()
    )
    assert refresh() == ["one"]
    whole.touch()
    (folder / "figures/two.pdf").unlink()
    incremental.distrust(read(tmp_path, PAPER), folder, stamps)
    assert (
        not whole.exists()
        and not incremental.stamp(stamps, "two", "aa").exists()
        and incremental.stamp(stamps, "one", "aa").exists()
    )
    assert refresh() == ["two"]
    whole.touch()
    (folder / "data/second.csv").unlink()  # which the pages offer
    incremental.distrust(read(tmp_path, PAPER), folder, stamps)
    assert not whole.exists() and incremental.stamp(stamps, "one", "aa").exists()


def test_numbers_are_not_replaced_by_not_finished(work, tmp_path, caplog):
    """Nor are the artifacts that show them; what settings skip is skipped."""
    refresh, folder, stamps = work
    paper, before = read(tmp_path, PAPER), {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    note = FIRST.note | reasons.write(waits(1, 4)) | {"training": None, "series": {}}

    def gathered(**changes):
        given = Gathering(**{"note": note, "series": {}} | changes)
        return incremental.refresh(paper, dict.fromkeys(paper.artifacts, "aa"), folder, {"first": given}, stamps, "c")

    note["experiment"] = "first"
    assert gathered(waiting=tuple(FIRST.labels)) == [] and "the numbers that are there stay" in caplog.text
    part = note | {"skipped": None, "missing": ["FedAvg"]}
    assert gathered(note=part, waiting=tuple(FIRST.labels)) == []  # nor by a part of them
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert gathered(waiting=("others",)) == STALE  # of other series: they cannot be shown as these
    assert load(folder / "data", "first").skipped == waits(1, 4)
    store(FIRST, folder / "data", "first")
    gathered()
    assert load(folder / "data", "first").skipped == waits(1, 4)


def test_what_the_paper_has_no_more_goes(work, tmp_path):
    """Files of an artifact that is renamed, and numbers that none shows; a stranger's files stay."""
    refresh, folder, stamps = work
    mine, theirs = folder / "figures" / "mine.png", folder / "data" / "theirs.csv"
    for path in (mine, theirs, folder / "data" / "older.csv", folder / "data" / "older.json"):
        path.write_text("{}", encoding="utf-8")
    ledger = json.loads((stamps / incremental.LEDGER).read_text(encoding="utf-8"))
    (stamps / incremental.LEDGER).write_text(json.dumps(ledger | {incremental.GATHERED: ["older", "first"]}), encoding="utf-8")
    less = read(tmp_path, PAPER | {"figures": {key: figure for key, figure in PAPER["figures"].items() if key != "two"}})
    assert list(folder.glob("figures/two.*"))
    refresh(less.artifacts, paper=less)
    assert not list(folder.glob("figures/two.*")) and not list(folder.glob("data/older.*"))
    assert mine.exists() and theirs.exists() and list(folder.glob("figures/one.*"))
    assert refresh(["two"]) == ["two"]  # it comes back whole


def test_a_damaged_ledger_counts_for_nothing(work, caplog, tmp_path):
    """Without it a file that is gone is noticed even so."""
    refresh, folder, stamps = work
    (stamps / incremental.LEDGER).write_text("{", encoding="utf-8")
    (folder / "figures/two.png").unlink()
    incremental.distrust(read(tmp_path, PAPER), folder, stamps)
    assert not incremental.stamp(stamps, "two", "aa").exists() and incremental.stamp(stamps, "one", "aa").exists()
    assert refresh(["one"]) == ["one"] and "damaged" in caplog.text
    assert refresh(["one"]) == []
