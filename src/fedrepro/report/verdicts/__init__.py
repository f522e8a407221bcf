"""Claims of the papers, the verdicts on them, their summary, and their numbers as LaTeX macros."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
