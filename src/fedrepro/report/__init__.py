"""From result files to tables, figures, verdicts and pages. Reads files and computes; trains
nothing.

One module needs more than result files: `figures/_partition_heatmap.py`, which draws partitions,
reads labels."""
