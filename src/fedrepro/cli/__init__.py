"""The command line `fedrepro`, and the terminal output while Snakemake works."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
