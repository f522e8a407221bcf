"""The command line: commands, what `fedrepro list` shows, and what is on the terminal while Snakemake works."""
