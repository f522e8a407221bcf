"""Partitions, one module each; `base.py` says what a module declares."""

from fedrepro.data.partitions.base import (
    Partition,
    check,
    create,
    dealt_images,
    load,
    mean_client_images,
    of_run,
    proxy_images,
    proxy_size,
    save,
    subset,
)

__all__ = [
    "Partition",
    "check",
    "create",
    "dealt_images",
    "mean_client_images",
    "load",
    "of_run",
    "proxy_images",
    "proxy_size",
    "save",
    "subset",
]
