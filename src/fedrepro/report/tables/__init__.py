"""Tables: one small file per kind, with its own class `Table`; `base.py` says what one has."""
