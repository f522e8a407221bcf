"""A training step recorded once and replayed: what is hoisted, fused and captured."""
