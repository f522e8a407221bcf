"""Labels of data in reports: their title and, in brackets, their source. Light, since reports parse
them too."""

from typing import Any

OFFICIAL, DIFFERS = "official release", "differs from the official release"
NOTES = {  # source -> note, for data that are neither the official release nor a mirror's copy
    "scikit-learn": "part of scikit-learn",
    "drawn": "drawn here",
    "folder": "user's copy, not checked against the official release",
    "own": "own files",
}


def format_label(meta: dict[str, Any]) -> str:
    """Return the label of prepared data, from their `meta.json`; a copy's has the name of its
    release."""
    source = meta["source"]
    note = NOTES.get(source, source)
    if source == "mirror":
        note = f"{meta.get('release') or source}; {DIFFERS}"
    return (
        f"{meta['title']} ({OFFICIAL if meta['official'] and source != 'scikit-learn' else note})"
    )


def parse_label(label: str) -> tuple[str, str]:
    """Return title and note of a label. Titles may contain brackets."""
    title, _, note = label.removesuffix(")").rpartition(" (")
    return title, note
