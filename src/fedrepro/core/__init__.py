"""Foundations without imports from other packages: errors, atomic files, random streams,
provenance, metrics, formatting."""
