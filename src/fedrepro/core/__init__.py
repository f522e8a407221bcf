"""What everything stands on: errors, atomic files, random streams, provenance, metrics, words. Imports no other room."""
