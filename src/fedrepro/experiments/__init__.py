"""Planning of work: which runs and studies experiments need, which are finished, what the others
cost, how jobs are packed."""
