"""Data sets, and the partitions that share them out over clients."""
