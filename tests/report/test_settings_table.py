"""Settings as tables: shared by all series, differing between them, changed by a scale."""

from fedrepro.config.params import read_params
from fedrepro.report import paper as spec
from fedrepro.report.inputs.gathered import changed_settings, collect_settings, flatten_settings
from support.results import arrives, made

CONFIG = {
    "lr": 0.03,
    "augment": ["flip"],
    "model": {"name": "cnn", "width": 1.0},
    "proxy": None,
    "seed": 0,
}


def test_shared_and_differing_settings():
    found = made({label: {0: arrives(3)} for label in ("low", "high")})
    for label, own in (
        ("low", {"lr": 0.01}),
        ("high", {"algorithm": {"name": "l2", "weight": 0.1}}),
    ):
        found.note["series"][label]["config"] = CONFIG | {"algorithm": {"name": "fedavg"}} | own
    result = collect_settings(found)
    assert result.shared == {
        "augment": '["flip"]',
        "model": "cnn",
        "model.width": "1.0",
        "proxy": "null",
    }
    assert result.differing == {
        "low": {"lr": "0.01", "algorithm": "fedavg", "algorithm.weight": ""},
        "high": {"lr": "0.03", "algorithm": "l2", "algorithm.weight": "0.1"},
    }
    nothing = collect_settings(made({}, skipped="no time"))
    assert nothing.shared == nothing.differing == {}


def test_what_a_scale_changes():
    overlay = {"lr": 0.03, "rounds": 5, "model": {"width": 0.25}, "partition": {"clients": 4}}
    assert changed_settings(CONFIG | {"rounds": 150}, overlay) == [
        ("rounds", "150", "5"),
        ("model.width", "1.0", "0.25"),
        ("partition.clients", "", "4"),  # the paper's is the default
    ]
    assert changed_settings(CONFIG, {}) == []


def test_a_paper_knows_what_the_active_scale_changes():
    small, full = (
        spec.read_paper("fedmmd", read_params(overrides={"scale": scale}))
        for scale in ("small", "paper")
    )
    params = read_params()
    [(usual, here)] = [
        (usual, here) for path, usual, here in small.scale_changes("fig4a") if path == "rounds"
    ]
    assert usual == flatten_settings(params.paper_settings["fedmmd"].experiments["fig4a"])["rounds"]
    assert here == flatten_settings(params.overlay("fedmmd", "fig4a", "small"))["rounds"]
    assert full.scale_changes("fig4a") == []
    assert small.size("fig4a", "small").startswith(f"{here} of {usual} rounds, ")
    assert small.size("fig4a", "paper").startswith(f"{usual} rounds")
    # a variant of ours of 25 rounds, 30 at scale small
    assert small.size("fig5c_momentum", "small").startswith("30 rounds, ")
