"""Uniform parts, and each client sees its images under one fixed random order of the pixels (permuted MNIST)."""

from fedrepro.partitions.iid import Params as IID
from fedrepro.partitions.iid import split

__all__ = ["Params", "split"]


class Params(IID):
    permute_pixels: bool = True
