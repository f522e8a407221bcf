"""Federated training: rounds, local training, evaluation, and the folder that a run leaves behind."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
