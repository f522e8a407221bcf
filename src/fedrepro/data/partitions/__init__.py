"""Partitions, one module each; `base.py` describes what a module declares."""

from fedrepro.data.partitions.base import (
    Partition,
    check,
    check_extent,
    create,
    for_run,
    images_for_clients,
    load,
    mean_client_images,
    proxy_images,
    proxy_size,
    save,
    subset,
    validation_size,
)

__all__ = [
    "Partition",
    "check",
    "check_extent",
    "create",
    "images_for_clients",
    "mean_client_images",
    "load",
    "for_run",
    "proxy_images",
    "proxy_size",
    "validation_size",
    "save",
    "subset",
]
