"""Federated training: rounds, local training, evaluation, and the folder that a run leaves
behind."""
