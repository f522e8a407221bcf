"""A network of your own, trained by Adam on clients that differ in their classes; a metric of your own."""

from torch import nn

import fedrepro


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.maps = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(4))
        self.drop, self.scores = nn.Dropout(0.1), nn.Linear(128, 10)

    def forward(self, images):
        return self.scores(self.drop(self.maps(images).flatten(1)))


def top2(scores, labels):
    """The share of test images whose class is among the two with the highest scores."""
    return (scores.topk(2).indices == labels[:, None]).any(1).float().mean()


result = fedrepro.simulate(
    "digits",
    partition={"name": "dirichlet", "alpha": 0.5},
    model=Network,
    rounds=15,
    optimizer={"name": "adam", "beta1": 0.9},
    lr=0.01,
    metrics={"top2": top2},
)
print(result.log[["round", "test_accuracy", "top2"]].tail(3))
print(type(result.model).__name__, sum(weight.numel() for weight in result.model.parameters()), "weights")
