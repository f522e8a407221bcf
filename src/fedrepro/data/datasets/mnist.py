"""MNIST: 60,000 + 10,000 handwritten digits, (1, 28, 28). LeCun, Cortes, Burges, http://yann.lecun.com/exdb/mnist/."""

from pathlib import Path

from fedrepro.data.datasets._fetch import File
from fedrepro.data.datasets._formats import Arrays, mnist_like

TITLE = "MNIST"
EXTENT = ((1, 28, 28), 60000, 10000)
CLASSES = tuple("0123456789")
PIXELS = "4c8c6258b9ab9162a99370c7176f17934ac13feb780494befda68fe87ffdf1d3"
SOURCES = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
MD5 = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
FILES = tuple(File(name, tuple(source + name for source in SOURCES), md5) for name, md5 in MD5.items())
MIRROR = (tuple(f"mnist/{name}" for name in MD5),)


def read(raw: Path) -> Arrays:
    return mnist_like(raw)
