"""Claims of the papers: how each is judged, what a page counts, macros for LaTeX."""
