"""Pages, the LaTeX report and notebooks: what shows figures, tables and verdicts together."""
