"""FedAvg: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized
Data, AISTATS 2017.

The base of every other method, so its hooks live in `base.py`."""

from fedrepro.algorithms.base import FedAvg

__all__ = ["FedAvg"]
