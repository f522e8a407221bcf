"""Data sets that are released as files: their sources with checksums, classes, shapes and
readers."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from fedrepro.config.types import Frozen, Number
from fedrepro.data.datasets._formats import Arrays, cifar, idx_in_zip, mnist_like, npz
from fedrepro.data.datasets.source import Contents, DataSource, File

DIGITS, LETTERS = tuple("0123456789"), tuple("abcdefghijklmnopqrstuvwxyz")
CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid
otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""
CIFAR100_CLASSES = tuple(CIFAR100_NAMES.split())


def _files(addresses: tuple[str, ...], checksums: dict[str, str]) -> tuple[File, ...]:
    """Return files that every address serves by their names."""
    return tuple(
        File(name, tuple(address + name for address in addresses), md5)
        for name, md5 in checksums.items()
    )


MNIST_FILES = _files(
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
    {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
)
FASHION_FILES = _files(
    ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
)
KRIZHEVSKY = ("https://www.cs.toronto.edu/~kriz/",)
CIFAR10_FILES = _files(KRIZHEVSKY, {"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"})
CIFAR100_FILES = _files(KRIZHEVSKY, {"cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85"})
CIFAR10_PATHS = tuple(
    f"cifar-10-batches-py/{name}"
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
)
CIFAR100_PATHS = ("cifar-100-python/train", "cifar-100-python/test")
EMNIST_FILES = _files(
    ("https://biometrics.nist.gov/cs_links/EMNIST/",),
    {"gzip.zip": "58c8d27c78d21e728a6bc7b3cc06412e"},
)
PNEUMONIA = "pneumoniamnist.npz"
PNEUMONIA_URL = f"https://zenodo.org/records/10519652/files/{PNEUMONIA}?download=1"


class Padding(Frozen):
    pad: Annotated[int, Field(ge=0, le=28), Number] = 0


def read_emnist(raw: Path, options: Padding) -> Arrays:
    """Read images that the release stores transposed, and labels from 1."""
    arrays, sides = [], ((0, 0), (0, 0), (options.pad,) * 2, (options.pad,) * 2)
    for part in ("train", "test"):
        stem = f"gzip/emnist-letters-{part}"
        images = idx_in_zip(raw / "gzip.zip", f"{stem}-images-idx3-ubyte.gz", 3)[:, None].swapaxes(
            2, 3
        )
        labels = idx_in_zip(raw / "gzip.zip", f"{stem}-labels-idx1-ubyte.gz", 1)
        arrays += [np.pad(images, sides), labels.astype(int) - 1]
    return tuple(arrays)


def read_cifar100(raw: Path, options: Frozen) -> Arrays:
    return cifar(raw, CIFAR100_FILES[0].name, CIFAR100_PATHS, "fine_labels")


def read_cifar100_20(raw: Path, options: Frozen) -> Arrays:
    arrays, classes = read_cifar100(raw, options), len(CIFAR100_20.classes)
    chosen = [labels < classes for labels in arrays[1::2]]
    return tuple(array[chosen[place // 2]] for place, array in enumerate(arrays))


def read_pneumonia(raw: Path, options: Frozen) -> Arrays:
    """Read train (4,708) and val (524) as the training part, as many images as the original has for
    training."""
    parts = ("train", "val", "test")
    x = npz(raw / PNEUMONIA, [(f"{part}_images", f"{part}_x") for part in parts])
    y = [
        labels.reshape(-1)
        for labels in npz(raw / PNEUMONIA, [(f"{part}_labels", f"{part}_y") for part in parts])
    ]
    return np.concatenate(x[:2])[:, None], np.concatenate(y[:2]), x[2][:, None], y[2]


MNIST = DataSource(
    title="MNIST",
    about="MNIST: 60,000 + 10,000 handwritten digits, (1, 28, 28). LeCun, Cortes, Burges, "
    "http://yann.lecun.com/exdb/mnist/.",
    contents=Contents((1, 28, 28), 60000, 10000, DIGITS),
    pixels="4c8c6258b9ab9162a99370c7176f17934ac13feb780494befda68fe87ffdf1d3",
    files=MNIST_FILES,
    mirror=(tuple(f"mnist/{file.name}" for file in MNIST_FILES),),
    read=lambda raw, options: mnist_like(raw),
)
CIFAR100 = DataSource(
    title="CIFAR-100",
    about="CIFAR-100: 50,000 + 10,000 colour photographs, (3, 32, 32), with its 100 fine labels. "
    "Krizhevsky 2009.",
    contents=Contents((3, 32, 32), 50000, 10000, CIFAR100_CLASSES),
    pixels="8fb5c2ef2f33aacc214bf900f9bc8a7290be64e8881639e9a0be8d68aa7e1612",
    files=CIFAR100_FILES,
    mirror=((CIFAR100_FILES[0].name,), CIFAR100_PATHS),
    read=read_cifar100,
)
CIFAR100_20 = Contents((3, 32, 32), 10000, 2000, CIFAR100_CLASSES[:20])
SOURCES = {
    "mnist": MNIST,
    "fashion_mnist": replace(
        MNIST,
        title="Fashion-MNIST",
        about="Fashion-MNIST: 60,000 + 10,000 pieces of clothing, (1, 28, 28). Xiao, Rasul, "
        "Vollgraf, arXiv:1708.07747.",
        contents=Contents(
            *((1, 28, 28), 60000, 10000),
            (
                "T-shirt/top",
                "Trouser",
                "Pullover",
                "Dress",
                "Coat",
                "Sandal",
                "Shirt",
                "Sneaker",
                "Bag",
                "Ankle boot",
            ),
        ),
        pixels=None,
        files=FASHION_FILES,
        mirror=(tuple(f"fashion_mnist/{file.name}" for file in FASHION_FILES),),
    ),
    "emnist_letters": DataSource(
        title="EMNIST letters",
        about="EMNIST letters: 124,800 + 20,800 handwritten letters, both cases in one class, (1, "
        "28, 28). Cohen et al., arXiv:1702.05373. Here images are upright, like MNIST's "
        "(torchvision leaves them transposed). `pad` adds so many black pixels on each side: 2 in "
        "FedMAX's code.",
        options=Padding,
        contents=lambda options: Contents(
            (1, 28 + 2 * options.pad, 28 + 2 * options.pad), 124800, 20800, LETTERS
        ),
        files=EMNIST_FILES,
        mirror=(("emnist/gzip.zip",),),
        read=read_emnist,
    ),
    "cifar10": DataSource(
        title="CIFAR-10",
        about="CIFAR-10: 50,000 + 10,000 colour photographs, (3, 32, 32). Krizhevsky 2009, "
        "https://www.cs.toronto.edu/~kriz/cifar.html.",
        contents=Contents(
            *((3, 32, 32), 50000, 10000),
            (
                "airplane",
                "automobile",
                "bird",
                "cat",
                "deer",
                "dog",
                "frog",
                "horse",
                "ship",
                "truck",
            ),
        ),
        files=CIFAR10_FILES,
        mirror=((CIFAR10_FILES[0].name,), CIFAR10_PATHS),
        read=lambda raw, options: cifar(raw, CIFAR10_FILES[0].name, CIFAR10_PATHS, "labels"),
    ),
    "cifar100": CIFAR100,
    "cifar100_20": replace(
        CIFAR100,
        title="CIFAR-100's first 20 classes",
        about="The first 20 classes of CIFAR-100: 10,000 + 2,000 colour photographs, (3, 32, "
        "32). Krizhevsky 2009.",
        contents=CIFAR100_20,
        origin="cifar100",
        pixels="e31f357c2301819a347160cc4c2e9f0c1b0d5568c443c9bfe9bde7cf47cc4c3a",
        read=read_cifar100_20,
    ),
    "pneumonia": DataSource(
        title="PneumoniaMNIST",
        about="PneumoniaMNIST: chest X-rays of children, 5,232 + 624, grey (1, 28, 28). Yang et "
        "al. 2023, https://medmnist.com. `chest_xray` has the same images in any size.",
        contents=Contents((1, 28, 28), 5232, 624, ("normal", "pneumonia")),
        files=(File(PNEUMONIA, (PNEUMONIA_URL,), "28209eda62fecd6e6a2d98b1501bb15f"),),
        mirror=((f"pneumonia28/{PNEUMONIA}",),),
        read=read_pneumonia,
    ),
}
