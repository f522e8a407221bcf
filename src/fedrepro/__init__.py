"""Reproduction of four federated-learning papers, from raw data to verdicts."""
