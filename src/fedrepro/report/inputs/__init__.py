"""Inputs of reports: gathered results, views of experiments, checks of names in a paper's file."""
