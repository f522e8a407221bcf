"""The measurement behind `executor: auto`: `uv run python -m benchmarks.rule`.

The executors take turns on the same rounds, on random pixels; the table shows the rule's choice and
the gain of stacking.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine
from fedrepro.config.params import RunConfig
from fedrepro.config.types import parse
from fedrepro.core import rng
from fedrepro.core.files import atomic_write
from fedrepro.data import partitions
from fedrepro.data.datasets import Dataset
from fedrepro.training.devices import pick_device
from fedrepro.training.executors import available, pick
from fedrepro.training.federation import Federation
from fedrepro.training.round import run_round

IMAGES = {"mnist": (1, 28, 28), "digits": (1, 8, 8)}
# network, width, data set of the images' shape, clients, batch size
CASES = [
    ("logistic", 1.0, "mnist", 2, 10),
    ("logistic", 1.0, "mnist", 10, 10),
    ("logistic", 1.0, "mnist", 50, 10),
    ("mnist_cnn", 0.125, "digits", 2, 32),
    ("mnist_cnn", 0.125, "digits", 4, 10),
    ("mnist_cnn", 0.25, "digits", 10, 10),
    ("mnist_cnn", 1.0, "digits", 10, 10),
    ("mnist_cnn", 0.05, "mnist", 10, 10),
    ("mnist_cnn", 0.1, "mnist", 10, 10),
    ("mnist_cnn", 0.25, "mnist", 10, 10),
    ("mnist_cnn", 0.5, "mnist", 10, 10),
    ("mnist_cnn", 0.1, "mnist", 2, 50),
]
STEPS, ROUNDS = 6, 7  # local steps of a client; rounds, the first of which is not counted


def case(
    model: str, width: float, dataset: str, clients: int, batch: int, device: torch.device
) -> dict[str, Any]:
    """Measure the seconds per round of each executor; returns them with the rule's choice."""
    values = {
        "dataset": dataset,
        "partition": {"name": "iid", "clients": clients},
        "model": {"name": model, "width": width},
    }
    values |= {
        "clients_per_round": clients,
        "rounds": ROUNDS + 1,
        "evaluate_every": ROUNDS + 1,
        "local_epochs": 1,
    }
    values |= {"batch_size": batch, "lr": 0.01, "algorithm": {"name": "fedavg"}, "seed": 0}
    config, made = parse(RunConfig, values, "rule"), _images(dataset, clients * STEPS * batch)
    parts = partitions.for_run(config, made)
    federations = {
        name: Federation(config, made, parts, device, name) for name in available(device)
    }
    states = {name: federation.start()[0] for name, federation in federations.items()}
    spent: dict[str, list[float]] = {name: [] for name in federations}
    for _ in range(ROUNDS):
        for name, federation in federations.items():
            began = time.perf_counter()
            # ends with a number read from the device
            states[name], _ = run_round(federation, states[name])
            spent[name].append(time.perf_counter() - began)
    flops = federations["sequential"].flops
    medians = {name: statistics.median(seconds[1:]) for name, seconds in spent.items()}
    return values | {"flops": flops, "seconds": medians, "picked": pick(config, flops, device)}


def _images(name: str, count: int) -> Dataset:
    pixels = torch.randint(
        0, 256, (count, *IMAGES[name]), dtype=torch.uint8, generator=rng.generator(0, "rule")
    )
    labels = torch.arange(count) % 10
    return Dataset(
        name, pixels, labels, pixels[:100], labels[:100], 10, {"mean": [0.5], "std": [0.2]}
    )


def render(result: dict[str, Any]) -> str:
    """Return a result as a Markdown page."""
    head = (
        f"# Which executor is faster, "
        f"{result['device']}\n\n{result['hardware']['processor']}, torch {result['torch']}. "
    )
    head += (
        "Median seconds per round; executors taken in turns, one thread. The rule is `pick` "
        "in training/executors.py.\n"
    )
    names = list(result["cases"][0]["seconds"])
    titles = [
        "network",
        "width",
        "images",
        "clients",
        "batch",
        "MFLOP a step",
        *names,
        "stacking gains",
        "rule picks",
    ]
    rows = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for item in result["cases"]:
        shown = [
            item["model"]["name"],
            item["model"]["width"],
            item["dataset"],
            item["clients_per_round"],
            item["batch_size"],
        ]
        seconds = item["seconds"]
        shown += [
            f"{item['batch_size'] * item['flops'] / 1e6:.3g}",
            *(f"{seconds[name]:.4f}" for name in names),
        ]
        shown += [f"{seconds['sequential'] / seconds['stacked']:.2f}", item["picked"]]
        rows.append("| " + " | ".join(map(str, shown)) + " |")
    return "\n".join([head, *rows]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.rule", description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    chosen = parser.parse_args()
    device = pick_device(chosen.device)
    about = {
        "device": chosen.device,
        "hardware": machine.hardware(chosen.device),
        "torch": torch.__version__,
    }
    result = about | {"cases": [case(*values, device) for values in CASES]}
    chosen.output.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".json", json.dumps(result, indent=1) + "\n"), (".md", render(result))):
        with atomic_write(chosen.output / f"executors-{chosen.device}{suffix}") as temporary:
            temporary.write_text(text, encoding="utf-8")
    sys.stdout.write(render(result))


if __name__ == "__main__":
    main()
