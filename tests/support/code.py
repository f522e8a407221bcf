"""Changed code: a file that is edited, and digests that are to be worked out again."""

from pathlib import Path

from fedrepro import provenance


def forget():
    for cached in (
        provenance.code_digest,
        provenance.partition_digest,
        provenance.dataset_digest,
        provenance._imports,
        provenance._tree,
        provenance._essence,
        provenance.commit,
        provenance.commit_date,
        provenance.committed_digest,
    ):
        cached.cache_clear()


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
