"""From result files to tables, figures, verdicts and pages. Reads files and computes; trains nothing.

Three rooms need more than result files: `heatmap.py`, which draws partitions, labels; `crate.py` the run folders; `guide.py`
the plan of what would be trained."""
