"""Finished runs: their folders and names, checked reading, gathered results, and copies in
results/kept, DVC and MLflow."""
