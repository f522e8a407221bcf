"""Claims of the papers, the verdicts on them, their summary, and their numbers as LaTeX macros."""
