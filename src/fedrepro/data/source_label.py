"""What artifacts say of data: their title, and in brackets whose they are. Light: reports read it back."""

from typing import Any

OFFICIAL, DIFFERS = "official release", "differs from the official release"
NOTES = {  # by their source, of what is neither the official release nor a mirror's copy
    "scikit-learn": "quick scale stand-in",
    "drawn": "drawn here",
    "folder": "user's copy, not checked against the official release",
    "own": "own files",
}


def format_label(meta: dict[str, Any]) -> str:
    """One honest phrase on prepared data, of their `meta.json`; of a copy with the name of its release."""
    source = meta["source"]
    note = NOTES.get(source, source)
    if source == "mirror":
        note = f"{meta.get('release') or source}; {DIFFERS}"
    return f"{meta['title']} ({OFFICIAL if meta['official'] and source != 'scikit-learn' else note})"


def parse_label(phrase: str) -> tuple[str, str]:
    """The title and the note of such a phrase. Titles may have brackets of their own."""
    title, _, note = phrase.removesuffix(")").rpartition(" (")
    return title, note
