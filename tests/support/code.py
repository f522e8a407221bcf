"""Changed code: a file that is edited, and digests that are to be worked out again."""

from pathlib import Path

from fedrepro.core import provenance

forget = provenance.clear_caches


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
