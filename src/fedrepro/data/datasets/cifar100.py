"""CIFAR-100: 50,000 + 10,000 colour photographs, (3, 32, 32), with its 100 fine labels. Krizhevsky 2009."""

from pathlib import Path

from fedrepro.data.datasets._fetch import File
from fedrepro.data.datasets._formats import Arrays, cifar

TITLE = "CIFAR-100"
EXTENT = ((3, 32, 32), 50000, 10000)
NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish forest
fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit
raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower
sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman
worm
"""
CLASSES = tuple(NAMES.split())
PIXELS = "8fb5c2ef2f33aacc214bf900f9bc8a7290be64e8881639e9a0be8d68aa7e1612"
ARCHIVE, FOLDER = "cifar-100-python.tar.gz", "cifar-100-python"
FILES = (File(ARCHIVE, (f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}",), "eb9058c3a382ffc7106e4002c42a8d85"),)
MIRROR = ((ARCHIVE,), tuple(f"{FOLDER}/{name}" for name in ("train", "test")))


def read(raw: Path) -> Arrays:
    return cifar(raw, ARCHIVE, FOLDER, ["train"], "test", "fine_labels")
