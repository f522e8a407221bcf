"""Networks by name or from blocks, and the shapes of their images."""

from fedrepro import algorithms, models
from fedrepro.config import registry
from fedrepro.config.types import Choice
from fedrepro.core import rng
from fedrepro.models import tasks

GREY, COLOUR = (1, 28, 28), (3, 32, 32)


def build(name, shape, classes=10, seed=0, **options):
    return models.build(
        Choice(name=name, **options), shape, classes, rng.generator(seed, "weights")
    )


def assembled(blocks, shape=(2, 8, 8), init="pytorch"):
    return models.assemble(blocks, shape, init, rng.generator(0, "weights"))


def classifying(name, options, net):
    """The named method around a network of one's own."""
    task = tasks.create(Choice(name="classification"), net.head.out_features)
    return algorithms.create(Choice(name=name, **options), net, rng.generator(0, "algorithm"), task)


def fits(name, options, blocks):
    """Whether the named method takes a network of these blocks."""
    choice = Choice(name=name, **options)
    return (
        registry.find("algorithms", name).incompatibility(
            registry.parse_options("algorithms", choice), blocks
        )
        is None
    )
