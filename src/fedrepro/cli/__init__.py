"""The command line `fedrepro`, and the terminal output while Snakemake works."""
