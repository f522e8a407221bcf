"""Ranks over experiments, the tests of them, and the table of what was tuned."""

import math

import pytest
from scipy.stats import chi2

from fedrepro.core.errors import UserError
from fedrepro.report import ranking
from support.results import ends, made
from support.tables import PANELS, SPEC, evidence, read, table

RANKS = {
    "kind": "ranks",
    "panels": [{"experiment": "a", "measure": "test_accuracy"}, "b"],
    "last": 5,
    "baseline": "FedAvg",
}


def found(first: dict, second: dict, lost: dict | None = None):
    """Results of a and b by series: final accuracies by seed."""
    one, two = (
        {label: dict(enumerate(map(ends, values))) for label, values in own.items()}
        for own in (first, second)
    )
    return evidence(a=made(one, lost=lost), b=made(two))


def test_mean_ranks_and_friedman_by_hand():
    """Ties share a rank: (1, 2.5, 2.5), (1, 2, 3), (2, 1, 3)."""
    panels = [{"x": 3, "y": 1, "z": 1}, {"x": 3, "y": 2, "z": 1}, {"x": 2, "y": 3, "z": 1}]
    result = ranking.rank(panels)
    assert result.mean_ranks == pytest.approx({"x": 4 / 3, "y": 5.5 / 3, "z": 8.5 / 3})
    statistic = 12 * 3 / (3 * 4) * (sum(r * r for r in result.mean_ranks.values()) - 3 * 16 / 4)
    ties = 1 - (2**3 - 2) / (3 * (3**3 - 3))
    assert result.p == pytest.approx(chi2.sf(statistic / ties, 2))
    assert ranking.rank(panels[:1]).p is None  # one set-up


def test_rounding_errors_decide_no_rank():
    """0.1 + 0.2 and 0.3 are the same accuracy: they share a rank, and neither is ahead of the
    other."""
    panels = [
        {"x": 0.1 + 0.2, "y": 0.3, "z": 0.1},
        {"x": 0.3, "y": 0.1 + 0.2, "z": -math.inf},
        {"x": 0.5, "y": 0.4, "z": 0.3},
    ]
    assert ranking.rank(panels).mean_ranks == {"x": 4 / 3, "y": 5 / 3, "z": 3.0}
    assert list(ranking.rank(panels[:2]).mean_ranks.values()) == [1.5, 1.5, 3]
    finals = {"FedAvg": [0.3, 0.3], "conv": [0.1 + 0.2, 0.3]}
    conv = build_rows(table(**RANKS), found(finals, finals))[1]
    assert (conv["Series"], conv["Mean rank"], conv["Pairs ahead (%)"]) == ("conv", "1.50", "0")


def test_table_of_ranks_by_hand():
    data = found(
        {"FedAvg": [0.5, 0.6], "conv": [0.7, 0.9]}, {"FedAvg": [0.5, 0.5], "conv": [0.4, 0.6]}
    )
    conv, fedavg = build_rows(table(**RANKS), data)
    # in b they are equal
    assert (conv["Series"], conv["Mean rank"], fedavg["Mean rank"]) == ("conv", "1.25", "1.75")
    # 20 and 30 points in a, -10 and 10 in b
    assert conv["Above FedAvg (points)"].startswith("+12.50 ± ")
    assert (conv["Pairs ahead (%)"], fedavg["Pairs ahead (%)"]) == ("75", "-")
    text = table(**RANKS).notes(data)
    assert "Mean rank over 2 set-ups, 1 is best." in text and "(Holm)" in text


def test_a_small_p_value_is_not_printed_as_zero():
    data = found(
        {"FedAvg": [0.5, 0.5], "conv": [0.7, 0.700001]},
        {"FedAvg": [0.5, 0.5], "conv": [0.7, 0.700001]},
    )
    conv = build_rows(table(**RANKS), data)[0]
    assert 0 < float(conv["p (Holm)"]) < 1e-5


def build_rows(shown, data) -> list[dict]:
    grid = shown.build(data)
    return [dict(zip(grid.columns, row, strict=True)) for row in grid.text_rows()]


def test_a_series_with_a_diverged_run_is_last_and_has_no_difference():
    lost = {("conv", 1): "diverged at round 2"}
    data = found(
        {"FedAvg": [0.5, 0.5], "conv": [0.7, 0.9]}, {"FedAvg": [0.5, 0.5], "conv": [0.4, 0.4]}, lost
    )
    fedavg, conv = build_rows(table(**RANKS), data)
    assert (fedavg["Mean rank"], conv["Mean rank"], conv["Above FedAvg (points)"]) == (
        "1.00",
        "2.00",
        "-",
    )


def test_experiments_that_are_ranked_together_have_one_measure(tmp_path):
    values = SPEC | {"tables": {"r": {"title": "t", **RANKS, "panels": PANELS}}}
    with pytest.raises(
        UserError,
        match="tables.r.panels: personal_accuracy, test_accuracy: the experiments need one measure",
    ):
        read(tmp_path, values)


def test_table_of_what_was_tuned():
    data = found({"FedAvg": [0.5], "Prox": [0.6], "conv": [0.6]}, {"FedAvg": [0.5]})
    tuned = {
        "values": {"mu": 0.1, "lr": 0.05},
        "at_edge": ["lr", "mu"],
        "trials": 4,
        "by": "validation_accuracy",
    }
    tuned["grid"] = {"mu": [0.1, 1], "lr": [0.05, 0.1, 0.2]}
    series = data.results["a"].note["series"]
    series["Prox"]["tuned"] = tuned | {"scores": [0.5, 0.8, 0.6, 0.7]}
    series["conv"]["tuned"] = tuned | {
        "by": "validation_loss",
        "scores": [0.5, None, 0.25, 0.75],
        "at_edge": [],
    }
    shown = table(kind="tuning", panels=["a"])
    # the trials have other seeds
    assert "seed" not in shown.caption(data) and "±" not in shown.description(data)
    prox, conv = build_rows(shown, data)
    assert prox == {
        "Panel": "a",
        "Series": "Prox",
        "Chosen": "mu 0.1, lr 0.05",
        "At the edge": "lr",
        "Trials": "4",
        "Best (%)": "80.0",
        "Median (%)": "65.0",
        "Worst (%)": "50.0",
        "Best (nats)": "-",
        "Median (nats)": "-",
        "Worst (nats)": "-",
    }
    assert (conv["Best (nats)"], conv["Median (nats)"], conv["Worst (nats)"]) == (
        "0.250",
        "0.500",
        "diverged",
    )
    assert conv["At the edge"] == "-"


def test_table_of_quantities():
    """Of several kinds, each in its unit; from a study that was not made there is no number."""
    data = found({"FedAvg": [0.5, 0.7], "conv": [0.8, 0.8]}, {"FedAvg": [0.5], "conv": [0.95]})
    data.results["a-clients"] = made({}, skipped="no study")
    data.results["a"].note["experiment"] = "a"
    asked = {"Final": {"kind": "value", "last": 2}, "Worst": {"kind": "worst_tenth"}}
    asked |= {"Rounds": {"kind": "rounds_to", "target": 0.7}}
    shown = table(kind="quantities", panels=RANKS["panels"][:1], quantities=asked)
    assert shown.sources({}) == ["a", "a-clients"] and shown.experiments({}) == ["a"]
    fedavg, conv = build_rows(shown, data)
    assert fedavg["Final (%)"].startswith("60.00 ± ") and conv["Final (%)"] == "80.00 ± 0.00"
    assert (fedavg["Worst (%)"], conv["Rounds (rounds)"], fedavg["Rounds (rounds)"]) == (
        "-",
        "1.0 ± 0.0",
        "-",
    )
    assert "Worst: mean accuracy of the worst tenth of clients." in shown.notes(data)


def test_seconds_to_a_target_if_all_rounds_are_timed():
    data = found({"FedAvg": [0.5, 0.7], "conv": [0.8, 0.8]}, {"FedAvg": [0.5]})
    asked = table(
        kind="communication",
        panels=RANKS["panels"][:1],
        baseline="FedAvg",
        targets={"paper": [0.6]},
    )
    data.results["a"].note["training"]["clients_per_round"] = 2
    assert "Seconds to target" not in build_rows(asked, data)[0]
    for row in data.results["a"].rows:
        row["seconds"] = "" if row["round"] == "0" else "0.5"
    fedavg, conv = build_rows(asked, data)
    assert (
        conv["Seconds to target"] == "0.50 ± 0.00" and "1 of 2 seeds" in fedavg["Seconds to target"]
    )
    assert "Seconds to target: of all rounds" in asked.notes(data)


def test_mistakes_in_a_table_of_quantities(tmp_path):
    values = {
        "title": "t",
        "kind": "quantities",
        "panels": ["second"],
        "quantities": {"Worst": {"kind": "worst_tenth"}},
    }
    with pytest.raises(
        UserError, match="tables.q.quantities.Worst: experiment 'second' has no clients"
    ):
        read(tmp_path, SPEC | {"tables": {"q": values}})
