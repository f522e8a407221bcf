"""Kinds of tables: one module per kind, each with a class `Table` derived from `base.Table`."""
