"""Training steps that are recorded once, optimised and replayed."""
