"""A finished run: its folder, whether it is whole, where it is gathered, stored and mirrored to."""

from fedrepro.core import moved

__getattr__ = moved.moved_names(__name__)
