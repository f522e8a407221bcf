"""Federated training: rounds, local training, evaluation, and the folder that a run leaves behind."""

from fedrepro.core import moved

__getattr__ = moved.contents(__name__)
