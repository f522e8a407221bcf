"""Data sets, and partitions, which distribute them over clients."""
