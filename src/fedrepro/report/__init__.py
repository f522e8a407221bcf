"""From result files to tables, figures, verdicts and pages. Reads files and computes; trains nothing, imports no torch."""
