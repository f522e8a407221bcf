"""Settings: models and readers of params.yaml and of the papers' files, and the registry of names."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
