"""Networks by name or from blocks, and the shapes of their images."""

from fedrepro import models
from fedrepro.config.types import Choice
from fedrepro.core import rng

GREY, COLOUR = (1, 28, 28), (3, 32, 32)


def build(name, shape, classes=10, seed=0, **options):
    return models.build(Choice(name=name, **options), shape, classes, rng.generator(seed, "weights"))


def assembled(blocks, shape=(2, 8, 8), init="pytorch"):
    return models.assemble(blocks, shape, init, rng.generator(0, "weights"))
