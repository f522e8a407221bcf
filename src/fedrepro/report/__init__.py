"""From result files to tables, figures, verdicts and pages. Reads files and computes; trains nothing.

Only `heatmap.py`, which draws a stored partition with its labels, needs more than result files, and torch."""
