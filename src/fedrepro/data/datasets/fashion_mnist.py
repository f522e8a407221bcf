"""Fashion-MNIST: 60,000 + 10,000 pieces of clothing, (1, 28, 28). Xiao, Rasul, Vollgraf, arXiv:1708.07747."""

from pathlib import Path

from fedrepro.data.datasets._fetch import File
from fedrepro.data.datasets._formats import Arrays, mnist_like

TITLE = "Fashion-MNIST"
EXTENT = ((1, 28, 28), 60000, 10000)
CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
PIXELS = None
SOURCE = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
FILES = tuple(File(name, (SOURCE + name,), md5) for name, md5 in MD5.items())
MIRROR = (tuple(f"fashion_mnist/{name}" for name in MD5),)


def read(raw: Path) -> Arrays:
    return mnist_like(raw)
