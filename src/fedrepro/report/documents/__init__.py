"""Pages, the LaTeX report, notebooks and the RO-Crate: what shows figures, tables and verdicts together."""
