"""A finished run: its folder, whether it is whole, where it is gathered, stored and mirrored to."""
