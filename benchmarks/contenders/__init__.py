"""Contenders. Each module has `run(task, clock)`, which trains and marks the clock after every
round."""

NAMES = ("ours", "loader", "jax", "flower", "pfl")
PEERS = ("jax", "flower", "pfl")  # run in the environment of peers.txt
INDEPENDENT = ("ours", "loader", "jax")  # two processes are two runs, not workers of one
