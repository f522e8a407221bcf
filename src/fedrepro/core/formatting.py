"""Durations and counts as text."""


def duration(seconds: float) -> str:
    """Return a duration in its largest suitable unit, as "40 s", "3 min", "1.5 h" or "12 days"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    if hours < 10:
        return f"{hours:.1f} h"
    return f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} days"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun, as "1 run" or "2 runs"; `plural` is for nouns that do not just
    take an s."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
