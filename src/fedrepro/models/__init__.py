"""Networks. Each module declares frozen `Params` and `layers(params, shape, classes) -> (extractor, hidden)`."""

from fedrepro import registry
from fedrepro.config import Choice, parse
from fedrepro.models.base import Net, Outputs, build

__all__ = ["Net", "Outputs", "build", "settings"]


def settings(choice: Choice):
    """The model's parsed `Params`."""
    return parse(registry.module("models", choice.name).Params, choice.options, f"model {choice.name}")
