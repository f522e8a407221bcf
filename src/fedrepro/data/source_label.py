"""What artifacts say of data: their title, and in brackets whose they are. Light: reports read it back."""

from typing import Any

OFFICIAL, COPY = "official release", "mirror; differs from the official release"
NOTES = {  # by their source, of what is not the official release
    "scikit-learn": "quick scale stand-in",
    "drawn": "drawn here",
    "folder": "user's copy, not checked against the official release",
    "own": "own files",
    "mirror": COPY,
}


def describe(meta: dict[str, Any]) -> str:
    """One honest phrase on prepared data, of their `meta.json`."""
    official = meta["official"] and meta["source"] != "scikit-learn"
    return f"{meta['title']} ({OFFICIAL if official else NOTES.get(meta['source'], meta['source'])})"


def described(phrase: str) -> tuple[str, str]:
    """The title and the note of such a phrase. Titles may have brackets of their own."""
    title, _, note = phrase.removesuffix(")").rpartition(" (")
    return title, note
