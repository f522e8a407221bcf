"""Five methods on the same clients and seeds: a plot, and a paired test of each against FedAvg."""

from pathlib import Path

import matplotlib.pyplot as plt
from scipy import stats

import fedrepro

METHODS = {
    "FedAvg": "fedavg",
    "FedProx": {"name": "fedprox", "mu": 0.1},
    "SCAFFOLD": "scaffold",
    "FedDyn": {"name": "feddyn", "alpha": 0.01},
    "FedMAX": "fedmax",
}
shared = {
    "partition": {"name": "dirichlet", "alpha": 0.3},
    "rounds": 10,
    "seeds": range(3),
    "model": {"name": "mlp", "units": 64},
}

last = {}
for label, algorithm in METHODS.items():
    result = fedrepro.simulate("digits", algorithm=algorithm, **shared)
    accuracy = result.log.pivot(index="round", columns="seed", values="test_accuracy")
    plt.plot(accuracy.index, accuracy.mean(axis=1), label=label)
    last[label] = accuracy.iloc[-1]  # a number for each seed
for label in list(METHODS)[1:]:
    difference = last[label] - last["FedAvg"]  # a seed has the same clients for every method
    low, high = stats.ttest_1samp(difference, 0).confidence_interval()
    print(f"{label}: {100 * difference.mean():+.1f} points over FedAvg, 95 % interval {100 * low:.1f} to {100 * high:.1f}")
plt.xlabel("round")
plt.ylabel("test accuracy")
plt.legend()
Path("results").mkdir(exist_ok=True)
plt.savefig("results/compare.png")
