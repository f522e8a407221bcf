"""The protocols that are committed: for each headline claim one, with the seeds of its experiment,
power and time."""

import pytest

from fedrepro.config.params import read_params
from fedrepro.experiments import registered
from fedrepro.report import paper as spec
from fedrepro.report.verdicts import registration
from fedrepro.report.verdicts.protocol import Protocol
from support.checkout import ROOT

PARAMS = read_params(ROOT / "params.yaml", {"scale": "small"})
PAPERS = spec.read_papers(PARAMS)
PLANNED = [(paper, key) for paper, own in PAPERS.items() for key in own.protocols]
ANY = {"question": "q", "quantity": "q", "kept": "k", "reduced": {}, "core_hours": 1, "if_no": "n"}


@pytest.fixture(scope="module")
def entries() -> dict[str, dict]:
    texts = registered.texts(PARAMS)
    return {path.parent.name: registration.from_text(text) for path, text in texts.items()}


@pytest.mark.parametrize(("paper", "key"), PLANNED)
def test_a_protocol_has_the_seeds_of_its_runs(paper, key, entries):
    """All of them at scale small, none of which an earlier run has."""
    protocol, entry = PAPERS[paper].protocols[key], entries[paper][f"small.{key}"]
    seeds = {tuple(one["seeds"]) for group in entry["series"].values() for one in group.values()}
    assert all(len(given) >= protocol.seeds for given in seeds) and protocol.seeds in map(
        len, seeds
    )
    assert min(map(min, seeds)) >= 10


def test_protocols_have_power_and_keep_to_the_hours():
    planned = [PAPERS[paper].protocols[key] for paper, key in PLANNED]
    assert all(round(power, 1) >= 0.8 for one in planned if (power := one.power()) is not None)
    assert sum(one.core_hours for one in planned if one.sentence) <= 45
    assert sum(one.core_hours for one in planned if not one.sentence) <= 12


def test_power_is_that_of_students_t():
    """Of a difference of one standard deviation: some tables have 0.80 for ten pairs, and five for
    1.7 deviations."""
    assert Protocol(**ANY, seeds=10, effect=1.0, sd=1.0).power() == pytest.approx(0.803, abs=1e-3)
    assert Protocol(**ANY, seeds=5, effect=3.4, sd=2.0).power() == pytest.approx(0.80, abs=0.01)
    assert Protocol(**ANY, seeds=5, effect=6.8, sd=2.0).power(share=0.5) == pytest.approx(
        0.80, abs=0.01
    )
    assert (
        Protocol(**ANY, seeds=10, effect=1.0, sd=1.0).power(tests=5) < 0.6
        and Protocol(**ANY, seeds=3).power() is None
    )
