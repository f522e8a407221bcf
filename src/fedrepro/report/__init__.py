"""From result files to tables, figures, verdicts and pages. Reads files and computes; trains nothing.

Two modules need more than result files: `figures/_partition_heatmap.py`, which draws partitions, reads labels;
`documents/ro_crate.py` reads the run folders."""
