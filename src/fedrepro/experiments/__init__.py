"""From settings to work: which runs and studies an experiment has, what is finished, what it costs, how jobs are packed."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
