"""Text as tokens: which of three modules of Python's library does a line of code come from?"""

import argparse
import inspect
import random
import re
import statistics

import numpy as np
from torch import nn

import fedrepro

MODULES, LENGTH, WORDS = (argparse, random, statistics), 12, 600
lines = [(number, line.split()) for number, module in enumerate(MODULES) for line in inspect.getsource(module).splitlines()]
lines = [(number, re.findall(r"\w+|[^\w\s]", " ".join(words))) for number, words in lines if len(words) > 3]
words = [word for _, line in lines for word in line]
common = {word: place for place, word in enumerate(sorted(set(words), key=words.count)[-WORDS:], 2)}  # 0: padding, 1: others
tokens = np.array([([common.get(word, 1) for word in line] + [0] * LENGTH)[:LENGTH] for _, line in lines])
labels = np.array([number for number, _ in lines])


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.scores = nn.Embedding(WORDS + 2, 16), nn.Linear(16, len(MODULES))

    def forward(self, tokens):
        return self.scores(self.words(tokens).mean(1))


order = np.random.default_rng(0).permutation(len(labels))
train, test = order[300:], order[:300]
data = (tokens[train], labels[train], tokens[test], labels[test])  # whole numbers (N, L) reach the module as they are
result = fedrepro.simulate(
    data, model=Reader, partition={"name": "dirichlet", "alpha": 1.0}, rounds=15, optimizer="adam", lr=0.01
)
print(result.log[["round", "test_accuracy"]].tail(3))
