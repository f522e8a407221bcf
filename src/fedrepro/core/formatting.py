"""Amounts as a reader says them."""


def duration(seconds: float) -> str:
    """40 s, 3 min, 1.5 h, 12 days."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 10 else f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} days"


def count(number: int, thing: str, things: str | None = None) -> str:
    """1 run, 2 runs; `things` where an s does not do."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"
