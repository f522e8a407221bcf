"""Finished runs: their folders and names, checked reading, gathered results, and copies in results/kept, DVC and MLflow."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
