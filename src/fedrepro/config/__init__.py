"""What users may set: params.yaml as frozen models, and the registry of what a name stands for."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
