"""Statistics of the table from raw seconds. A record is one measurement in the result file."""

import re
import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks.contenders import INDEPENDENT
from benchmarks.workloads import EVALUATE_EVERY, Workload, operations, steps, weights

Record = dict[str, Any]


def facts(workload: Workload) -> dict[str, Any]:
    """Return a workload's settings and the size of a round: local steps, operations, weights."""
    config = workload.config(workload.rounds)
    return {
        "title": workload.title,
        "config": config.model_dump(mode="json"),
        "warmup": workload.warmup,
        "steps": steps(config),
        "operations": operations(config),
        "weights": weights(config),
    }


def kind(result: dict[str, Any]) -> str:
    """Return the stem of the result's file: cpu, or the GPU's name in lower case."""
    return re.sub(r"[^a-z0-9]+", "-", result["hardware"].get("gpu", "cpu").lower()).strip("-")


def round_seconds(run: Record) -> float:
    """Return seconds per round of one process: the median round without evaluation, plus a tenth of
    an evaluation's time."""
    pairs = list(zip(run["seconds"], run["evaluated"], strict=True))
    plain = [seconds for seconds, evaluated in pairs if not evaluated]
    tested = [seconds for seconds, evaluated in pairs if evaluated]
    if not plain:
        return statistics.median(tested)
    base = statistics.median(plain)
    extra = max(0.0, statistics.median(tested) - base) if tested else 0.0
    return base + extra / EVALUATE_EVERY


def seconds(record: Record) -> float:
    """Return seconds per round of a measurement: of all independent processes together, or of the
    slowest."""
    each = [round_seconds(run) for run in record["results"]]
    if record.get("contender", "ours") in INDEPENDENT:
        return 1 / sum(1 / value for value in each)
    return max(each)


def steps_per_round(record: Record) -> float:
    """Return the local steps in a round, of all processes if they share one run."""
    counted = [run["steps"] / run["rounds"] for run in record["results"]]
    return statistics.mean(counted) if record["contender"] in INDEPENDENT else sum(counted)


def kernels(result: dict[str, Any], workload: str) -> dict[str, float] | None:
    """Return medians of the share of this program's processor time inside kernels, and of their
    operations per second."""
    turns = [
        record["kernels"] for record in result.get("kernels", ()) if record["workload"] == workload
    ]
    return (
        {key: statistics.median(turn[key] for turn in turns) for key in ("share", "rate")}
        if turns
        else None
    )


def measured(records: Iterable[Record]) -> str:
    """Return the dates and commits of measurements."""
    commits = sorted({(record["date"], record["commit"]) for record in records})
    return ", ".join(f"{date} at {commit}" for date, commit in commits)


def rows(result: dict[str, Any], workload: str, processes: int) -> list[dict[str, Any]]:
    """Return a row per contender: seconds (median, least, most over the repeats), steps per second,
    ratio to ours, memory in bytes, accuracy by round."""
    chosen = [
        r
        for r in result["measurements"]
        if (r["workload"], r["processes"]) == (workload, processes)
    ]
    names = list(dict.fromkeys(record["contender"] for record in chosen))
    made = [_row([r for r in chosen if r["contender"] == name]) for name in names]
    ours = next(
        (row["seconds"] for row in made if row["contender"] == "ours" and "seconds" in row), None
    )
    for row in made:
        row["ratio"] = row["seconds"] / ours if ours and "seconds" in row else None
    common = _common_round(made)
    for row in made:
        row["round"] = common
        row["accuracy"] = row.get("curve", {}).get(common)
    return made


def _row(records: list[Record]) -> dict[str, Any]:
    row = {"contender": records[0]["contender"]}
    good = [record for record in records if "results" in record]
    if not good:
        return row | {"failed": records[0]["failed"]}
    each = [seconds(record) for record in good]
    median = statistics.median(each)
    device = [
        run["device_peak_bytes"]
        for record in good
        for run in record["results"]
        if run["device_peak_bytes"]
    ]
    return row | {
        "seconds": median,
        "least": min(each),
        "most": max(each),
        "steps": steps_per_round(good[0]),
        "steps_per_second": steps_per_round(good[0]) / median,
        "memory": statistics.median(record["peak_bytes"] for record in good),
        "device_memory": max(device) if device else None,
        "curve": {int(key): value for key, value in good[0]["results"][0]["accuracy"].items()},
    }


def _common_round(made: list[dict[str, Any]]) -> int | None:
    """Return the last round after which all contenders were evaluated."""
    curves = [set(row["curve"]) for row in made if "curve" in row]
    return max(set.intersection(*curves), default=None) if curves else None


def line(record: Record) -> str:
    """Return one line about a measurement for the log."""
    if "kernels" in record:
        return f"{record['workload']}: {record['kernels']['share']:.0%} of the time in kernels"
    about = (
        _words(record.get("change", {}).items())
        or f"{record['contender']}, {record['processes']} processes"
    )
    outcome = (
        f"{seconds(record):.4g} s per round"
        if "results" in record
        else f"failed: {record['failed']}"
    )
    return f"{record['workload']}, {about}: {outcome}"


def _words(items: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{key} {value:g}" for key, value in items)
