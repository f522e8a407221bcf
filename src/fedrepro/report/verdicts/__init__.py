"""Claims of the papers: how each is judged, what a page counts, macros for LaTeX."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
