"""Figures: one small file per kind, with its own class `Figure`; `base.py` says what one has."""
