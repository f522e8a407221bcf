"""Partitions, one module each; `base.py` says what a module declares."""

from fedrepro.data.partitions.base import Partition, check, create, dealt, held, load, of_run, proxy, proxy_size, save, subset

__all__ = ["Partition", "check", "create", "dealt", "held", "load", "of_run", "proxy", "proxy_size", "save", "subset"]
