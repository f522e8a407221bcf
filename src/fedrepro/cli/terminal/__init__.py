"""What Snakemake's user sees on the terminal: the cost of what is asked, a line of progress, what failed and why, the end."""
