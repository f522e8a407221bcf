"""A table (N, F) of real numbers: logistic regression by name, and a network of your own."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from torch import nn

import fedrepro

table, labels = load_breast_cancer(return_X_y=True)
x, x_test, y, y_test = train_test_split(table, labels, test_size=0.3, random_state=0)
mean, std = x.mean(0), x.std(0)
data = ((x - mean) / std, y, (x_test - mean) / std, y_test)


def network():
    return nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))


for model in ("logistic", network):
    result = fedrepro.simulate(data, model=model, clients=5, rounds=10, algorithm="scaffold")
    print(f"{result.log['test_accuracy'].iloc[-1]:.3f}")
