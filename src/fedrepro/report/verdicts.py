"""One verdict per published claim, computed from the claim's cell over seeds. Nothing here is typed in by hand."""

import math
from dataclasses import dataclass, replace

from fedrepro.metrics import Curve, Estimate, at_round, estimate, mean_last, rounds_to
from fedrepro.report.loading import Results
from fedrepro.report.spec import Cell, Claim

REPRODUCED, PARTLY, NOT = "reproduced", "partly", "not reproduced"
AGREES, DISAGREES, NOT_COMPARED, NOT_RUN = "direction agrees", "direction disagrees", "not compared", "not run"
ABSOLUTE = {"rounds_to": "a number of rounds", "epochs": "a number of epochs", "accuracy": "an accuracy"}
SLACK = 1e-9  # a value that lies on the edge of a tolerance is within it, whatever the last bit says


@dataclass(frozen=True)
class Verdict:
    """A claim, our number for it and what follows. `ours` is None where no number could be computed; `why` then says so."""

    key: str
    claim: Claim
    status: str
    why: str
    ours: Estimate | None = None

    @property
    def reported(self) -> str:
        return show(self.claim.cell, self.claim.reported, digits=digits(self.claim))

    @property
    def found(self) -> str:
        """Our mean with its 95 % interval, or that there is one seed only."""
        if self.ours is None:
            return "-"
        shown = digits(self.claim)
        text = show(self.claim.cell, self.ours.mean, digits=shown)
        if self.ours.half_width is None:
            return f"{text} (1 seed)"
        number = text.rsplit(" ", 1)[0]  # the unit stands once, behind the interval
        return f"{number} ± {show(self.claim.cell, self.ours.half_width, False, shown)} (n = {self.ours.n})"


def digits(claim: Claim) -> int:
    """Decimals: two of an accuracy and of a difference in points that is reported with two, else one."""
    if claim.cell.kind == "accuracy":
        return 2
    return 1 if claim.reported == "never" or math.isclose(round(100 * claim.reported, 1), 100 * claim.reported) else 2


def show(cell: Cell, value: float | str, signed: bool = True, digits: int = 1) -> str:
    """A cell's value in its unit: rounds or epochs, percent of them saved, percent of accuracy or points between two."""
    if isinstance(value, str):
        return value
    if cell.kind == "accuracy":
        return f"{100 * value:.{digits}f} %"
    if cell.kind == "difference":
        return f"{100 * value:{'+' if signed else ''}z.{digits}f} points"
    if cell.kind in ("reduction", "epochs_saved"):
        return f"{100 * value:z.1f} %"
    if cell.kind == "epochs":
        return f"{value:.1f} epochs"
    return f"{value:.0f} rounds" if float(value).is_integer() else f"{value:.1f} rounds"


def decide(key: str, claim: Claim, results: Results, metric: str) -> Verdict:
    """The verdict on a claim at the scale that the results were made at; it names data that are not the official release."""
    verdict = _decide(key, claim, results, metric)
    other = sorted({run["dataset"] for run in results.runs() if not run["dataset"].endswith("(official release)")})
    if not other or verdict.status in (NOT_RUN, NOT_COMPARED):
        return verdict
    return replace(verdict, why=f"{verdict.why}; on {', '.join(other)}")


def _decide(key: str, claim: Claim, results: Results, metric: str) -> Verdict:
    if results.skipped:
        return Verdict(key, claim, NOT_RUN, results.skipped)
    cell = claim.cell
    if results.note["scale"] in claim.scale_targets:
        cell = cell.model_copy(update={"target": claim.scale_targets[results.note["scale"]]})
    values, problem = measure(cell, results, metric)
    ours = estimate(values) if values else None
    if results.compare == "none":
        return Verdict(key, claim, NOT_COMPARED, f"scale {results.note['scale']} is never held against a paper", ours)
    if short := _short(claim, cell, results, metric):
        return Verdict(key, claim, NOT_COMPARED, short, ours)
    if problem:
        return Verdict(key, claim, *_without_number(problem, claim, cell, results, metric), ours)
    if cell.kind == "never":
        return Verdict(key, claim, *_never(cell, results, metric))
    if results.compare == "direction":
        return Verdict(key, claim, *_direction(claim, cell, ours), ours)
    return Verdict(key, claim, *_full(claim, ours), ours)


def measure(cell: Cell, results: Results, metric: str) -> tuple[list[float], str]:
    """The cell's value for each seed, and what keeps it from being one (empty if nothing does)."""
    if problem := _lost(cell, results):
        return [], problem
    if cell.kind in ("epochs", "epochs_saved"):
        return _epochs(cell, results)
    method = results.curves(cell.series, metric)
    baseline = results.curves(cell.baseline, metric) if cell.baseline else {}
    if unmeasured := [cell.series] * (not method) + [cell.baseline] * (cell.baseline is not None and not baseline):
        return [], f"{' and '.join(unmeasured)} has no values of {metric}"
    if cell.kind == "never":
        return [], ""
    found = {}
    for seed in sorted({*method, *baseline}):
        if seed not in method or (cell.baseline and seed not in baseline):
            found[seed] = f"no run of {cell.baseline if seed in method else cell.series} with this seed"
        else:
            found[seed] = _value(cell, method[seed], baseline.get(seed))
    problems = [f"seed {seed}: {value}" for seed, value in found.items() if isinstance(value, str)]
    return ([], "; ".join(problems)) if problems else (list(found.values()), "")


def _epochs(cell: Cell, results: Results) -> tuple[list[float], str]:
    """The same for the new clients of each seed's run: only where all of them arrive."""
    arrivals = {label: results.arrivals(label) for label in (cell.series, cell.baseline) if label}
    settings, late = results.note["settings"], []
    for label, seeds in arrivals.items():
        for seed, clients in seeds.items():
            if missing := list(clients.values()).count(None):
                never = f"{missing} of {len(clients)} new clients are not at {100 * settings['target']:g} %"
                late.append(f"{label}, seed {seed}: {never} within {settings['epochs']} epochs")
    if late:
        return [], "; ".join(late)
    means = [_mean_epochs(seeds) for seeds in arrivals.values()]
    if cell.kind == "epochs":
        return list(means[0].values()), "" if means[0] else f"{cell.series} has no new clients"
    common = sorted(set(means[0]) & {seed for seed, mean in means[1].items() if mean > 0})
    if not common or len(common) < len(means[0]):
        return [], f"the new clients of {cell.baseline} need no training"
    return [1 - means[0][seed] / means[1][seed] for seed in common], ""


def _mean_epochs(seeds: dict[int, dict[int, int | None]]) -> dict[int, float]:
    """Seed -> mean over its new clients; infinite where one of them does not arrive."""
    return {
        seed: sum(math.inf if epoch is None else epoch for epoch in clients.values()) / len(clients)
        for seed, clients in sorted(seeds.items())
    }


def _lost(cell: Cell, results: Results) -> str:
    """Which of the runs that the cell needs diverged."""
    labels = [label for label in (cell.series, cell.baseline) if label]
    return "; ".join(f"{label}, {text}" for label in labels for text in results.diverged(label))


def _short(claim: Claim, cell: Cell, results: Results, metric: str) -> str:
    """Why the runs are too short to say anything of the claim, e.g. after the number of rounds was lowered; empty if not."""
    needed = cell.round or 0
    if cell.kind == "rounds_to":
        needed = math.ceil(claim.reported + claim.tolerance)
    if results.compare != "full" or needed == 0:
        return ""
    ends = {curve[-1][0] for curve in results.curves(cell.series, metric).values()}
    if ends and min(ends) < needed:
        return f"our runs end at round {min(ends)}, the claim is about round {needed}"
    return ""


def _value(cell: Cell, curve, baseline) -> float | str:
    """The cell's value for one seed, or why there is none."""
    if cell.kind in ("accuracy", "difference"):
        values = [_accuracy(cell, one) for one in (curve, baseline) if one is not None]
        if None in values:
            return f"not run to round {cell.round}"
        return values[0] if cell.kind == "accuracy" else values[0] - values[1]
    reached = rounds_to(curve, cell.target, cell.smooth)
    if reached is None:
        return f"{cell.series} does not reach {100 * cell.target:g} % within {curve[-1][0]} rounds"
    if cell.kind == "rounds_to":
        return float(reached)
    needed = rounds_to(baseline, cell.target, cell.smooth)
    if needed is None:
        within = f"{100 * cell.target:g} % within {baseline[-1][0]} rounds"
        return f"{cell.baseline} does not reach {within}; {cell.series} does at {reached}"
    return 1 - reached / needed


def _accuracy(cell: Cell, curve: Curve) -> float | None:
    return at_round(curve, cell.round, cell.smooth) if cell.last is None else mean_last(curve, cell.last)


def _without_number(problem: str, claim: Claim, cell: Cell, results: Results, metric: str) -> tuple[str, str]:
    """Where one of two series does not arrive, the direction can be told still, and no more than that."""
    told = cell.kind in ("reduction", "epochs_saved") and not _lost(cell, results)
    signs = _signs(cell, results, metric) if told else set()
    wanted = (claim.reported > 0) - (claim.reported < 0) if signs else 0
    agrees = wanted != 0 and signs == {wanted}
    if results.compare == "direction":
        against = wanted != 0 and -wanted in signs and wanted not in signs
        return (AGREES if agrees else DISAGREES if against else NOT_COMPARED), problem
    return (PARTLY if agrees else NOT), problem


def _signs(cell: Cell, results: Results, metric: str) -> set[int]:
    """Over seeds: 1 where the series arrives before its baseline, -1 where after it, 0 where neither is first."""
    method, baseline = (_needed(cell, results, metric, label) for label in (cell.series, cell.baseline))
    found = set()
    for seed in method if method.keys() == baseline.keys() else ():
        mine, other = method[seed], baseline[seed]
        found.add((mine < other) - (mine > other))
    return found


def _needed(cell: Cell, results: Results, metric: str, label: str) -> dict[int, float]:
    """Seed -> rounds, or epochs of new clients, that a series needs; infinite where it does not arrive."""
    if cell.kind == "epochs_saved":
        return _mean_epochs(results.arrivals(label))
    curves = results.curves(label, metric)
    return {seed: rounds_to(curve, cell.target, cell.smooth) or math.inf for seed, curve in curves.items()}


def _never(cell: Cell, results: Results, metric: str) -> tuple[str, str]:
    if results.compare == "direction":
        return NOT_COMPARED, "a number of rounds is compared at scale paper only"
    curves = results.curves(cell.series, metric)
    if cell.round:
        curves = {seed: [point for point in curve if point[0] <= cell.round] for seed, curve in curves.items()}
    reached = {seed: rounds_to(curve, cell.target, cell.smooth) for seed, curve in curves.items()}
    hits = [f"seed {seed} at round {round}" for seed, round in reached.items() if round is not None]
    best = max(value for curve in curves.values() for _, value in curve)
    if not hits:
        return REPRODUCED, f"best value {100 * best:.1f} % over {len(curves)} seed(s)"
    return (NOT if len(hits) == len(curves) else PARTLY), f"reached: {', '.join(hits)}"


def _direction(claim: Claim, cell: Cell, ours: Estimate) -> tuple[str, str]:
    if cell.kind in ABSOLUTE:
        return NOT_COMPARED, f"{ABSOLUTE[cell.kind]} is compared at scale paper only"
    if claim.reported == 0:
        return NOT_COMPARED, "no difference has no sign; how small one is can be judged at scale paper only"
    target = f", at {100 * cell.target:g} % accuracy" if cell.target else ""
    return (
        AGREES if ours.mean * claim.reported > 0 else DISAGREES
    ), f"only the sign is judged at this scale{target}{_spread(ours)}"


def _full(claim: Claim, ours: Estimate) -> tuple[str, str]:
    cell = claim.cell.model_copy(update={"kind": "difference"} if claim.cell.kind == "accuracy" else {})
    gap = show(cell, abs(ours.mean - claim.reported), False, digits(claim))
    allowed = show(cell, claim.tolerance, False, digits(claim))
    close = abs(ours.mean - claim.reported) <= claim.tolerance + SLACK
    text = f"{gap} from the reported value, {allowed} allowed{_spread(ours)}"
    signed = claim.cell.kind in ("reduction", "difference", "epochs_saved") and claim.reported != 0
    if signed and ours.mean * claim.reported <= 0:
        return NOT, f"the direction is not as reported; {text}"
    if signed and ours.low is not None and ours.low <= 0 <= ours.high:
        return PARTLY, f"the interval contains zero; {text}"
    if close and claim.reported == 0 and ours.low is not None and max(-ours.low, ours.high) > claim.tolerance + SLACK:
        return PARTLY, f"the interval reaches beyond what is allowed; {text}"
    if close:
        return REPRODUCED, text
    return (PARTLY if signed else NOT), f"the direction is as reported; {text}" if signed else text


def _spread(ours: Estimate) -> str:
    return "; one seed, so without an interval" if ours.n == 1 else ""
