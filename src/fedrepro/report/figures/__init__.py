"""Kinds of figures: one module per kind, each with a class `Figure` derived from `base.Figure`."""
