"""The command line: commands, what `fedrepro list` shows, and what is on the terminal while Snakemake works."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
