"""The rows of each kind of table. A row maps column titles to text; what there is no number for is told in its place."""

import math
from collections.abc import Callable, Iterable

from fedrepro.metrics import distance, mean_last, rounds_to
from fedrepro.report.cells import NONE, Panel, arrivals, mean, megabytes, percent, rounds, saved
from fedrepro.report.spec import Table

FINAL = 5  # rounds whose mean is the final accuracy beside numbers of rounds
BEST = " *"
NOT_RUN = "not run"  # why stands below the table


def rounds_to_target(table: Table, panels: list[Panel], curves: dict) -> list[dict]:
    """One row for each figure, target and series."""
    rows = []
    for panel in panels:
        targets = table.at(panel.figure, panel.scale)
        if panel.skipped or not targets:
            rows.append({"Panel": panel.key, "Series": NOT_RUN if panel.skipped else "no target at this scale"})
        else:
            rows += [
                _to_target(table, panel, label, index, target, curves)
                for index, target in enumerate(targets)
                for label in panel.results.labels
            ]
    return rows


def _to_target(table: Table, panel: Panel, label: str, index: int, target: float, curves: dict) -> dict:
    row = {"Panel": panel.key, "Series": label, "Target (%)": f"{100 * target:g}", "Rounds": rounds(panel, label, target, 1)}
    if table.smooth > 1:
        row[f"Rounds, mean of {table.smooth}"] = rounds(panel, label, target, table.smooth)
    row["Saved vs " + table.baseline] = saved(panel, label, table.baseline, target)
    if table.reported:
        row |= _printed_rounds(table, panel, label, index)
    else:
        row["Paper's rounds"] = _plotted_rounds(panel, label, target, curves)
    row["Final accuracy (%)"] = percent([mean_last(curve, FINAL) for curve in panel.curves(label).values()])
    runs = panel.results.runs(label)
    row["MB per round"] = f"{mean([megabytes(run) for run in runs]):.3g}"
    return row | {"Seeds": panel.seeds(label)}


def _printed_rounds(table: Table, panel: Panel, label: str, index: int) -> dict:
    """What the paper's table says, and the saving that follows from it; only where ours may be held against it."""
    told = {name: values[index] for name, values in table.reported.items()} if panel.full else {}
    pair = (told.get(label), told.get(table.baseline))
    reduced = NONE if label == table.baseline or None in pair else f"{100 * (1 - pair[0] / pair[1]):z.1f} %"
    return {"Paper's rounds": str(told.get(label, NONE)), "Paper's saving": reduced}


def _plotted_rounds(panel: Panel, label: str, target: float, curves: dict) -> str:
    """From the paper's curve, and only where our numbers may be held against it."""
    if not panel.full or label not in panel.figure.reported:
        return NONE
    round = rounds_to(curves[panel.figure.reported[label]], target)
    return "never" if round is None else f"{round:g}"


def curve_distance(table: Table, panels: list[Panel], curves: dict) -> list[dict]:
    """Every series that has a curve in the paper, with its root mean squared distance from it, in points of accuracy."""
    rows = []
    for panel in panels:
        if panel.skipped or not panel.full:
            rows.append({"Panel": panel.key, "Series": NOT_RUN if panel.skipped else "not compared"})
            continue
        for label, name in panel.figure.reported.items():
            reported = [point for point in curves[name] if point[0] <= (table.rounds or math.inf)]
            found = [distance(curve, reported, table.smooth) for curve in panel.curves(label).values()]
            values, counts = [both[0] for both in found if both], sorted({both[1] for both in found if both})
            row = {"Panel": panel.key, "Series": label, "Paper's curve": name}
            row["Distance (points)"] = percent(values) if values else "; ".join(panel.results.diverged(label)) or NONE
            row["Rounds compared"] = " or ".join(map(str, counts)) or "none"
            rows.append(row | {"Seeds": str(len(values)), "mean": mean(values) if values else math.inf})
    return _nearest(rows)


def _nearest(rows: list[dict]) -> list[dict]:
    """Mark, among the rows that compare with the same curve of the paper, the nearest."""
    for row in rows:
        rivals = [other["mean"] for other in rows if "mean" in other and other["Paper's curve"] == row.get("Paper's curve")]
        row[""] = "nearest" if len(rivals) > 1 and row["mean"] == min(rivals) < math.inf else ""
    return [{name: value for name, value in row.items() if name != "mean"} for row in rows]


def convergence(table: Table, panels: list[Panel], curves: dict) -> list[dict]:
    """Series by figures: the mean of the last rounds, beside it what the paper reports, the best of each column marked."""
    if all(panel.skipped for panel in panels):
        return [{"Series": NOT_RUN}]
    labels = dict.fromkeys(label for panel in panels for label in panel.results.labels)
    rows = {label: {"Series": label} for label in labels}
    for panel in panels:
        told = {label: table.reported[label][panel.key] for label in table.printed(panel.key)} if panel.full else {}
        best, highest = _best(_finals(table, panel)), _best(told)
        for label, row in rows.items():
            row[f"{panel.key} (%)"] = _final(table, panel, label) + BEST * (label in best)
            if table.reported:
                value = f"{100 * told[label]:.2f}" if label in told else NONE
                row[f"{panel.key}, paper (%)"] = value + BEST * (label in highest)
    return list(rows.values())


def _final(table: Table, panel: Panel, label: str) -> str:
    """Mean over seeds, their standard deviation and number; what became of those that diverged."""
    if panel.skipped or label not in panel.results.labels:
        return NOT_RUN if panel.skipped else NONE
    values = _last(table, panel, label)
    number = f"{percent(values)} (n = {len(values)})" if values else NONE
    lost = panel.results.diverged(label)
    return "; ".join(([number] if values or not lost else []) + lost)


def _finals(table: Table, panel: Panel) -> dict[str, float]:
    """Series -> mean over seeds, of those that lost no run: the seeds that are left do not speak for the one that is lost."""
    whole = [label for label in panel.results.labels if not panel.results.diverged(label)]
    found = {label: _last(table, panel, label) for label in whole}
    return {label: mean(values) for label, values in found.items() if values}


def _last(table: Table, panel: Panel, label: str) -> list[float]:
    """The reduction of each seed, 0..1. A run that is shorter gives the mean of its rounds, without the untrained model."""
    return [mean_last(curve, min(table.last, curve[-1][0])) for curve in panel.curves(label).values()]


def _best(values: dict[str, float]) -> set[str]:
    """Who is first among several, at the two digits of a percentage that are shown."""
    shown = {label: round(100 * value, 2) for label, value in values.items()}
    return {label for label, value in shown.items() if value == max(shown.values())} if len(shown) > 1 else set()


def communication(table: Table, panels: list[Panel], curves: dict) -> list[dict]:
    """One row for each figure, target and series; where there is no target, one for each series."""
    rows = []
    for panel in panels:
        if panel.skipped:
            rows.append({"Panel": panel.key, "Series": NOT_RUN})
            continue
        for target in table.at(panel.figure, panel.scale) or (None,):
            rows += [_sent(table, panel, label, target) for label in panel.results.labels]
    return rows


def _sent(table: Table, panel: Panel, label: str, target: float | None) -> dict:
    """Bytes of one participant in one round, mean over rounds and seeds; 10^6 bytes of all of them until the target."""
    down, up = (_bytes(panel, label, way) for way in ("bytes_down", "bytes_up"))
    weights = sorted({run["weights"] for run in panel.results.runs(label)})
    row = {"Panel": panel.key, "Series": label, "Weights": ", ".join(map(str, weights))}
    row |= {"Bytes down": f"{down:.0f}", "Bytes up": f"{up:.0f}"}
    usual = sum(_bytes(panel, table.baseline, way) for way in ("bytes_down", "bytes_up"))
    row["More than " + table.baseline] = NONE if label == table.baseline else f"{100 * ((down + up) / usual - 1):+z.4f} %"
    row["Target (%)"] = NONE if target is None else f"{100 * target:g}"
    row["MB to target"] = NONE if target is None else _megabytes_to(table, panel, label, target)
    return row | {"Seeds": panel.seeds(label)}


def _bytes(panel: Panel, label: str, way: str) -> float:
    """Of one participant in one round, mean over the rounds and over the seeds."""
    participants = panel.results.note["training"]["clients_per_round"]
    return mean([run[way] / max(run["rounds"], 1) / participants for run in panel.results.runs(label)])


def _megabytes_to(table: Table, panel: Panel, label: str, target: float) -> str:
    """Rounds to the target times the 10^6 bytes that all participants of a round receive and send."""
    rates = {run["seed"]: megabytes(run) for run in panel.results.runs(label)}
    reached = {seed: rounds_to(curve, target, table.smooth) for seed, curve in panel.curves(label).items()}
    return arrivals([None if count is None else count * rates[seed] for seed, count in reached.items()], 2)


KINDS: dict[str, Callable[[Table, list[Panel], dict], Iterable[dict]]] = {
    "rounds_to_target": rounds_to_target,
    "curve_distance": curve_distance,
    "convergence": convergence,
    "communication": communication,
}
