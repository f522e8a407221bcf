"""What a partition's heat map says of itself, so that one of earlier code is drawn again."""

from pathlib import Path

from PIL import Image, UnidentifiedImageError

from fedrepro.core import provenance

MARK = "Source"  # the text in the PNG


def mark(partition: Path) -> str:
    """What the heat map of a stored partition carries: whose it is, and by which code."""
    return provenance.digest([partition.stem, provenance.heatmap_digest()])


def current(path: Path, partition: Path) -> bool:
    """Whether a heat map is there, whole, shows this stored partition and was drawn by today's code."""
    try:
        with Image.open(path) as image:
            return image.info.get(MARK) == mark(partition)
    except (FileNotFoundError, UnidentifiedImageError):
        return False
