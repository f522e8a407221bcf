"""Numbers that the pages in docs/ quote: worked out from committed results and the paper's digitised curves when a page is
written, so that no sentence holds one that was typed."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedrepro.core.errors import UserError, unknown
from fedrepro.core.formatting import count
from fedrepro.data import source_label
from fedrepro.report import artifacts, numbers, quantities
from fedrepro.report.documents import page_view
from fedrepro.report.inputs.gathered import Results
from fedrepro.report.inputs.panel import Evidence, Ref, source, split_source
from fedrepro.report.paper import Paper
from fedrepro.report.statistics import Curve, at_round, distance, estimate, mean, mean_last, rounds_to
from fedrepro.report.verdicts import paper_curves, summary


@dataclass(frozen=True)
class Line:
    """A series' curves by their seeds, or one curve of the paper. Values in percent, means over seeds."""

    name: str
    seeds: dict[int, Curve]

    @property
    def curves(self) -> list[Curve]:
        return list(self.seeds.values())

    def over(self, first: int, last: int) -> float:
        """Mean over the rounds from first to last. Raises UserError where a run has none of them."""
        return 100 * self._mean(lambda curve: mean(self._within(curve, first, last)))

    def jump(self, first: int, last: int) -> float:
        """Mean change from one round to the next, whatever its sign, in points. Raises UserError where a run has no two of
        them."""
        return 100 * self._mean(lambda curve: _jump(self._within(curve, first, last, 2)))

    def at(self, round: int) -> float:
        """Value at a round. Raises UserError where a run is shorter."""
        values = [at_round(curve, round) for curve in self.curves]
        if None in values:
            raise UserError(f"{self.name}: no value at round {round}")
        return 100 * mean(values)

    def end(self, rounds: int = 1) -> float:
        """Mean over the last rounds."""
        return 100 * self._mean(lambda curve: mean_last(curve, rounds))

    def reaches(self, percent: float, smooth: int = 1) -> float | None:
        """First round at a target; None where any seed does not get there."""
        found = [rounds_to(curve, percent / 100, smooth) for curve in self.curves]
        return None if None in found else mean(found)

    def arrives(self, percent: float, smooth: int = 1) -> str:
        """First round at a target, or of how many seeds it is the mean where others never get there; or that none does."""
        found = [rounds_to(curve, percent / 100, smooth) for curve in self.curves]
        there = [round for round in found if round is not None]
        if not there:
            return "never"
        return f"{round(mean(there), 1):g}" + (f" ({len(there)} of {len(found)} seeds)" if len(there) < len(found) else "")

    def apart(self, other: "Line") -> float:
        """Largest difference in any round, seed by seed, in points."""
        pairs = self._pairs(other)
        return 100 * max(abs(mine - theirs) for pair in pairs for (_, mine), (_, theirs) in zip(*pair, strict=True))

    def band(self) -> float:
        """Largest difference between two seeds in any round, in points."""
        rounds = zip(*([value for _, value in curve] for curve in self.curves), strict=True)
        return 100 * max(max(values) - min(values) for values in rounds)

    def lead(self, other: "Line", first: int, last: int) -> str:
        """How far the mean over the rounds from first to last lies above another's: in points, seed by seed, with its interval
        where there are seeds for one."""
        return str(replace(numbers.over(self._leads(other, first, last), 1), signed=True))

    def side(self, other: "Line", first: int, last: int) -> int:
        """1 or -1 where that lead is above or below zero with its whole interval; 0 where it is neither, as of one seed."""
        leads = self._leads(other, first, last)
        return estimate(leads).side() if len(leads) > 1 else 0

    def above(self, other: "Line") -> int:
        """In how many rounds it lies above another one, of those that both have."""
        return sum(value > dict(theirs).get(round, math.inf) for own, theirs in self._pairs(other) for round, value in own)

    def distance(self, other: "Line", smooth: int = 1, last: int | None = None) -> float:
        """Root mean squared distance from a line of one curve, in points, over the rounds that both have up to `last`."""
        [reported] = other.curves
        cut = [point for point in reported if last is None or point[0] <= last]
        found = [distance(curve, cut, smooth) for curve in self.curves]
        if None in found:
            raise UserError(f"{self.name}: no round in common with {other.name}")
        return 100 * mean([points for points, _ in found])

    def _leads(self, other: "Line", first: int, last: int) -> list[float]:
        of_one = [(Line("", {0: mine}), Line("", {0: theirs})) for mine, theirs in self._pairs(other)]
        return [mine.over(first, last) - theirs.over(first, last) for mine, theirs in of_one]

    def _pairs(self, other: "Line") -> list[tuple[Curve, Curve]]:
        """Curves of one seed each. Raises UserError where a seed has one only."""
        if self.seeds.keys() != other.seeds.keys():
            raise UserError(f"{self.name}: seeds {sorted(self.seeds)}, but {other.name}: seeds {sorted(other.seeds)}")
        return [(curve, other.seeds[seed]) for seed, curve in self.seeds.items()]

    def _within(self, curve: Curve, first: int, last: int, least: int = 1) -> list[float]:
        """The values from round first to last. Raises UserError where there are less than `least`."""
        values = [value for when, value in curve if first <= when <= last]
        if len(values) < least:
            raise UserError(f"{self.name}: {count(len(values), 'value')} from round {first} to {last}, needed {least}")
        return values

    def _mean(self, reduce: Callable[[Curve], float]) -> float:
        return mean([reduce(curve) for curve in self.curves])


def _jump(values: list[float]) -> float:
    return mean([abs(after - before) for before, after in zip(values, values[1:], strict=False)])


def _check_series(results: Results, experiment: str, series: str) -> None:
    if series not in results.labels:
        raise unknown(f"series of experiment {experiment}", series, results.labels)


@dataclass(frozen=True)
class Quoted:
    """A paper's committed results at one scale."""

    spec: Paper
    folder: Path  # reports/<scale>/<paper>
    evidence: Evidence = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence", artifacts.of(self.spec, self.folder))

    def ours(self, experiment: str, series: str, measure: str | None = None) -> Line:
        """In a measure, else in the experiment's own. Raises UserError where there is nothing to quote."""
        panel, name = self.evidence.panel(Ref(experiment=experiment, measure=measure)), f"{self.folder}: {experiment}, {series}"
        if absent := panel.results.absent([series]):
            raise UserError(f"{name}: {absent}")
        _check_series(panel.results, experiment, series)
        curves = panel.curves(series)
        if not curves:
            raise UserError(f"{name}: no values")
        return Line(name, curves)

    def cell(self, experiment: str, digits: int = 1, **cell: object) -> str:
        """Of a cell, which names its kind and series: the mean over seeds with its interval, or why there is none. Raises
        UserError for a series that there is not."""
        asked = quantities.read(cell, f"{self.folder}: {experiment}")
        results = self.evidence.results[source(experiment, asked.study)]
        if absent := results.absent([label for label in asked.labels if label in results.missing]):
            return str(absent)
        for label in asked.labels:
            _check_series(results, experiment, label)
        panel = self.evidence.panel(Ref(experiment=experiment))
        values, problem = asked.found(replace(panel, results=results))
        return problem or asked.told(estimate(values), panel.measure, digits)

    def ran(self, experiment: str, part: Collection[str] = ()) -> bool:
        """Whether all of it is there to be quoted, or all of a `part`, some of its series."""
        there = (self.folder / "data" / f"{experiment}.json").exists()
        if not there or self.evidence.results[experiment].skipped:
            return False
        missing = set(self.evidence.results[experiment].missing)
        return not missing & set(part or missing)

    def series(self, experiment: str) -> list[str]:
        return self.evidence.results[experiment].labels

    def setting(self, experiment: str, path: str) -> Any:
        """What all its series ran with, by its path such as `partition.clients`. Raises UserError where they differ."""
        panel = self.evidence.panel(Ref(experiment=experiment))
        found = [panel.setting(label, path) for label in self.series(experiment)]
        if not found or found[0] is None or found.count(found[0]) < len(found):
            raise UserError(f"{self.folder}: {experiment}: no one {path} of all series (got {', '.join(map(str, found))})")
        return found[0]

    def theirs(self, key: str) -> Line:
        """A digitised curve. Raises UserError for one that there is not."""
        if key not in self.evidence.curves:
            raise unknown("curve", key, list(self.evidence.curves))
        return Line(key, {0: self.evidence.curves[key]})

    def seeds(self, experiment: str) -> str:
        count = len({run["seed"] for run in self.evidence.results[experiment].runs()})
        return "one seed" if count == 1 else f"means over {count} seeds"

    def diverged(self, experiment: str, series: str) -> str:
        """How many of the seeds of a series diverged, as "2 of 3". Raises UserError for a series that there is not."""
        results = self.evidence.results[experiment]
        _check_series(results, experiment, series)
        return f"{len(results.diverged(series))} of {len(results.runs(series))}"

    def copies(self) -> list[str]:
        """The titles of data sets that its runs have from copies other than the official release."""
        told = {run["dataset"] for name in self._ran() for run in self.evidence.results[name].runs()}
        return sorted(title for title, note in map(source_label.described, told) if note == source_label.COPY)

    def mixed(self) -> list[str]:
        """The experiments whose series of one seed, which are what is compared, ran on processors of several kinds."""
        return [name for name in self._ran() if self._differs(name)]

    def _differs(self, experiment: str) -> bool:
        of_seed = defaultdict(set)
        for run in self.evidence.results[experiment].runs():
            of_seed[run["seed"]].add(run["hardware"])
        return any(len(kinds) > 1 for kinds in of_seed.values())

    def _ran(self) -> list[str]:
        names = [name for name in self.spec.sources() if not split_source(name)[1]]
        there = [name for name in names if (self.folder / "data" / f"{name}.json").exists()]
        return [name for name in there if not self.evidence.results[name].skipped]

    def verdicts(self) -> list[dict[str, str]]:
        """The records of tables/verdicts.json."""
        return summary.read(self.folder)

    def chance(self) -> str:
        """What of them would be chance, as `tally.chance` tells it."""
        return summary.chance(self.verdicts())

    def judged(self) -> list[dict[str, str]]:
        """Those on claims that our runs could speak of."""
        return page_view.judged(self.verdicts())

    def contradicted(self) -> list[tuple[dict[str, str], str]]:
        """The records of verdicts on claims that the paper's own plotted curves contradict, and what those say."""
        claims = ((self.claim(key), claim) for key, claim in self.spec.claims.items() if not claim.ours)
        told = (
            (record, paper_curves.contradiction(self.spec.experiments, claim, self.evidence.curves)) for record, claim in claims
        )
        return [(record, text) for record, text in told if text]

    def turned(self, seeds: int) -> list[str]:
        """The claims whose verdict is another one where the first so many seeds count alone."""
        fewer = {name: self.evidence.results[name].first(seeds) for name in self.spec.sources()}
        then = artifacts.decide_all(self.spec, replace(self.evidence, results=fewer))
        before = {verdict.key: verdict.status for verdict in then}
        return [record["key"] for record in self.verdicts() if record["verdict"] != before[record["key"]]]

    def claim(self, key: str) -> dict[str, str]:
        """One of them. Raises UserError for a key that there is not."""
        for record in self.verdicts():
            if record["key"] == key:
                return record
        raise UserError(f"{self.folder}: no verdict on '{key}'")
