"""CIFAR-10: 50,000 + 10,000 colour photographs, (3, 32, 32). Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html."""

from pathlib import Path

from fedrepro.data.datasets._fetch import File
from fedrepro.data.datasets._formats import Arrays, cifar

TITLE = "CIFAR-10"
EXTENT = ((3, 32, 32), 50000, 10000)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = None
ARCHIVE, FOLDER = "cifar-10-python.tar.gz", "cifar-10-batches-py"
TRAIN, TEST = [f"data_batch_{k}" for k in range(1, 6)], "test_batch"
FILES = (File(ARCHIVE, (f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}",), "c58f30108f718f92721af3b95e74349a"),)
MIRROR = ((ARCHIVE,), tuple(f"{FOLDER}/{name}" for name in [*TRAIN, TEST]))


def read(raw: Path) -> Arrays:
    return cifar(raw, ARCHIVE, FOLDER, TRAIN, TEST, "labels")
