"""EMNIST letters: 124,800 + 20,800 handwritten letters, both cases in one class, (1, 28, 28). Cohen et al., arXiv:1702.05373.

The release stores every image with rows and columns exchanged and labels from 1; here they stand upright, like MNIST's
(torchvision leaves them lying), and labels start at 0.
"""

from pathlib import Path

from fedrepro.datasets._fetch import File
from fedrepro.datasets._formats import Arrays, idx_in_zip

TITLE = "EMNIST letters"
EXTENT = ((1, 28, 28), 124800, 20800)
CLASSES = tuple("abcdefghijklmnopqrstuvwxyz")
PIXELS = None
ARCHIVE = "gzip.zip"
FILES = (File(ARCHIVE, ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",), "58c8d27c78d21e728a6bc7b3cc06412e"),)
MIRROR = ((f"emnist/{ARCHIVE}",),)


def read(raw: Path) -> Arrays:
    arrays = []
    for part in ("train", "test"):
        stem = f"gzip/emnist-letters-{part}"
        arrays.append(idx_in_zip(raw / ARCHIVE, f"{stem}-images-idx3-ubyte.gz", 3)[:, None].swapaxes(2, 3))
        arrays.append(idx_in_zip(raw / ARCHIVE, f"{stem}-labels-idx1-ubyte.gz", 1).astype(int) - 1)
    return tuple(arrays)
