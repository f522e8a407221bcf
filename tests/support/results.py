"""Gathered results that nobody trained for: made from test accuracies, and read back."""

import csv
import json
from pathlib import Path

from fedrepro.report.inputs.gathered import Results
from fedrepro.runs import reasons
from fedrepro.runs.reasons import MissingKind, MissingReason

OFFICIAL = "MNIST (official release)"
ALGORITHMS = {"FedMMD": "fedmmd", "FedAvg": "fedavg", "L2": "l2"}


def made(
    series: dict[str, dict[int, list[float]]],
    compare: str = "full",
    lost: dict | None = None,
    **changes,
) -> Results:
    """Results of label -> seed -> test accuracies from round 0 on; `lost`: (label, seed) -> status
    of a run that diverged; `skipped`: the reason, as text that of the settings."""
    scale = {"none": "quick", "direction": "small", "full": "paper"}[compare]
    dataset, skipped = changes.pop("dataset", OFFICIAL), changes.pop("skipped", None)
    note = {
        "paper": "p",
        "experiment": "fig",
        "scale": scale,
        "scale_note": f"how scale {scale} is",
        "compare": compare,
    }
    note |= reasons.to_note(
        MissingReason(MissingKind.LEFT_OUT, skipped) if isinstance(skipped, str) else skipped
    )
    note |= {"training": {"evaluate_every": 1, "rounds": 20} | changes, "series": {}}
    rows = []
    for label, seeds in series.items():
        algorithm = ALGORITHMS.get(label, label)
        runs = [
            record(algorithm, seed, curve, (lost or {}).get((label, seed)), dataset)
            for seed, curve in seeds.items()
        ]
        note["series"][label] = {"algorithm": {"name": algorithm}, "config": {}, "runs": runs}
        for run, curve in zip(runs, seeds.values(), strict=True):
            rows += [
                {
                    "series": label,
                    "seed": str(run["seed"]),
                    "run": run["run"],
                    "round": str(r),
                    "test_accuracy": str(value),
                }
                | {"bytes_down": str(1_500_000 * bool(r)), "bytes_up": str(500_000 * bool(r))}
                for r, value in enumerate(curve)
            ]
    return Results(note, rows)


def waits(missing: int, total: int) -> MissingReason:
    """So many runs are not finished."""
    return MissingReason(MissingKind.NOT_FINISHED, missing=missing, total=total)


def record(algorithm: str, seed: int, curve: list[float], status: str | None, dataset: str) -> dict:
    rounds = len(curve) - 1
    result = {
        "run": f"mnist-{algorithm}-s{seed}-abc",
        "kept": False,
        "dataset": dataset,
        "seed": seed,
        "rounds": rounds,
    }
    result |= {
        "status": status or "finished",
        "weights": 10,
        "bytes_down": 1_500_000 * rounds,
        "bytes_up": 500_000 * rounds,
    }
    result |= {
        "data": "d" * 64,
        "code": "c0de",
        "commit": "c0ffee",
        "device": "cpu",
        "hardware": "a chip",
        "torch": "2.8",
    }
    return result | {"precision": "float32", "executor": "sequential"}


def unfinished(found: Results, label: str) -> Results:
    """As if a series were not finished; as they are where there is no such series, or no other."""
    series = {name: own for name, own in found.note["series"].items() if name != label}
    if not series or len(series) == len(found.note["series"]):
        return found
    rows = [row for row in found.rows if row["series"] != label]
    return Results(
        found.note | {"series": series, "missing": [*found.unfinished_series, label]}, rows
    )


def store(found: Results, folder: Path, experiment: str) -> None:
    """As `runs.gather` leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{experiment}.json").write_text(json.dumps(found.note), encoding="utf-8")
    with (folder / f"{experiment}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file,
            list(found.rows[0])
            if found.rows
            else ["series", "seed", "run", "round", "test_accuracy"],
        )
        writer.writeheader()
        writer.writerows(found.rows)


def arrives(round: int | None, rounds: int = 20) -> list[float]:
    """Reaches 90 % in this round, to stay there."""
    return [0.95 if round and r >= round else 0.5 for r in range(rounds + 1)]


def ends(value: float, rounds: int = 20) -> list[float]:
    return [0.1] + [value] * rounds


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
