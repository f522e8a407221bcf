"""From result files to tables, figures, verdicts and pages. Reads files and computes; trains nothing.

Only `heatmap.py`, which draws partitions, needs more than result files: labels."""
