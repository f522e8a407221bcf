"""Planning of work: which runs and studies experiments need, which are finished, what the others cost, how jobs are packed."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
