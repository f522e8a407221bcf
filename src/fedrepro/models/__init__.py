"""Networks. Each module declares frozen `Params` and `layers(params, shape) -> (extractor, sizes)`:
the convolutions, and how many units each dense layer after them has."""

from fedrepro import registry
from fedrepro.config import Choice, parse
from fedrepro.models.base import Net, Outputs, build, dropout_masks

__all__ = ["Net", "Outputs", "build", "dropout_masks", "settings"]


def settings(choice: Choice):
    """The model's parsed `Params`."""
    return parse(registry.module("models", choice.name).Params, choice.options, f"model {choice.name}")
