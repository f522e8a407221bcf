"""The words of the kept results, worked out again from the numbers of their records by docs/verdicts.md, without `rules.py`."""

import math
import re
from collections import Counter

import pytest
from scipy import stats

from fedrepro.report import artifacts
from fedrepro.report.inputs.panel import DisplayOptions, ExperimentView
from fedrepro.report.verdicts.decide import make_records
from fedrepro.runs.paths import Paths
from support import committed
from support.checkout import ROOT

UNITS = {"points": 0.01, "rounds": 1, "round": 1}
OTHER_WORDS = ("larger", "most", "never", "later", "no lower")  # that two intervals decide, or one that is not around zero


@pytest.fixture(scope="module", params=committed.SCALES)
def papers(request, tmp_path_factory):
    """Of each paper at a scale: its specification, the gathered numbers and the records made of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        folder = tmp_path_factory.mktemp(request.param)
        own = committed.reports(request.param, Paths(data=folder / "data"))
        committed.gathered(own, folder, own.papers)
        loaded = [(spec, artifacts.load_paper_data(spec, folder / paper)) for paper, spec in own.papers.items()]
        return [(spec, evidence, make_records(spec, evidence)) for spec, evidence in loaded]


def corrected(records, headlines) -> dict[str, float]:
    """Holm's p of each record: in the order of p, times the number of tests left; a difference of the same runs counts once."""
    found = {}
    for is_headline in (True, False):
        family = [one for one in records if one.p is not None and (one.key in headlines) is is_headline]
        tests = sorted({(one.p, one.mean, one.seeds) for one in family})
        after = [min(1, max((len(tests) - i) * tests[i][0] for i in range(n + 1))) for n in range(len(tests))]
        found |= {one.key: after[tests.index((one.p, one.mean, one.seeds))] for one in family}
    return found


def word(one, claim, holm: float | None, sized: bool, least: float | None) -> str:
    number = one.reported_number
    sign = math.copysign(1, number) if number else -1 if claim.reported == "lower" else 1
    low, high = sorted((sign * (one.mean - one.half_width), sign * (one.mean + one.half_width)))
    is_difference, stands = claim.quantity.contrast and number != 0, holm is None or holm <= 0.05
    inside = outside = narrow = False
    if sized and number is not None:
        allowed, unit = re.match(r"([\d.]+) (\w+)", one.tolerance).groups()
        allowed, gap = float(allowed) * UNITS[unit], abs(one.mean - number)
        chance = one.half_width if claim.reported_std else one.half_width * (one.seeds + 1) ** 0.5
        inside, outside, narrow = gap + one.half_width <= allowed, gap > allowed + chance, allowed <= abs(number) / 2
    if is_difference and low > 0:
        as_large = (inside and narrow) or not sized or number is None
        return "supported" if as_large and stands else "open, leans for"
    if outside or (is_difference and least and high < least):
        return "contradicted"
    if is_difference and high < 0:
        return "contradicted" if stands else "open, leans against"
    return "supported" if inside and not is_difference else "open"


def smallest_lead(claim, spec, evidence, sized: bool) -> float | None:
    """0.04 in log odds at the level of the baseline, the mean over seeds and panels."""
    if claim.least or not sized or claim.reported != "higher" or claim.quantity.kind != "difference":
        return claim.least
    others = {name: evidence.results[name] for name in claim.quantity.other_experiments}
    options = DisplayOptions(measure=claim.ref.resolved(spec.experiments).measure)
    view = ExperimentView(claim.experiment, options, evidence.results[claim.experiment], others)
    levels = [level for _, baseline in claim.quantity.panel_values(view) for level in baseline]
    level = sum(levels) / len(levels)
    return 0.04 * level * (1 - level)


def test_words_follow_from_the_numbers(papers):
    seen = Counter()
    for spec, evidence, records in papers:
        holm = corrected(records, spec.headlines)
        for one in records:
            claim, after = spec.claims[one.key], holm.get(one.key)
            assert one.p_holm == (None if after is None else pytest.approx(after)), one.key
            if one.verdict == "not tested" or claim.reported in OTHER_WORDS:
                continue
            if one.half_width is None:
                assert one.words == "open", one.key
                continue
            if one.p is not None:
                error = one.half_width / stats.t.ppf(0.975, one.seeds - 1)
                assert one.p == pytest.approx(2 * stats.t.sf(abs(one.mean) / error, one.seeds - 1)), one.key
            sized = evidence.results[claim.experiment].compare == "full"
            assert one.words == word(one, claim, after, sized, smallest_lead(claim, spec, evidence, sized)), (one.key, one.why)
            seen[one.words] += 1
    assert len(seen) >= 4 and sum(seen.values()) > 20
