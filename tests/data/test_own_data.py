"""Data of the user's own, named by settings: an .npz file, folders of pictures, a list of clients."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedrepro.config.types import Choice
from fedrepro.core.errors import UserError
from fedrepro.data import datasets, partitions
from fedrepro.data.datasets import LabelledSubset
from fedrepro.experiments.resolve import _check_config
from fedrepro.runs.run import run_id
from support.federation import advance, config, federation

TRAIN, TEST = 20, 8


def arrays(seed=0, **changes):
    draw = np.random.default_rng(seed)
    parts = {}
    for part, count in (("train", TRAIN), ("test", TEST)):
        parts[f"{part}_x"] = draw.integers(0, 256, (count, 1, 12, 12), np.uint8)
        parts[f"{part}_y"] = np.arange(count) % 4
    return parts | changes


def npz(folder: Path, **changes) -> Choice:
    np.savez(folder / "mine.npz", **{name: array for name, array in arrays(**changes).items() if array is not None})
    return Choice(name="npz", file=str(folder / "mine.npz"))


def provided(choice: Choice, folder: Path) -> datasets.Dataset:
    out = folder / "prepared" / datasets.key(choice)
    datasets.provide(choice, folder / "raw", out)
    return datasets.load(out)


def pictures(folder: Path, parts=("train/a", "train/b", "test/a", "test/b"), count=3) -> Choice:
    draw = np.random.default_rng(0)
    for part in parts:
        (folder / part).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            Image.fromarray(draw.integers(0, 256, (9, 9, 3), np.uint8)).save(folder / part / f"{number}.png")
    return Choice(name="folders", path=str(folder), size=8)


def listed(folder: Path, text: str) -> Choice:
    (folder / "clients.csv").write_text(text)
    return Choice(name="listed", file=str(folder / "clients.csv"))


def test_an_npz_file_is_a_data_set(tmp_path):
    choice = npz(tmp_path, class_names=np.array(["a", "b", "c", "d"]))
    data = provided(choice, tmp_path)
    assert datasets.extent(choice) == ((1, 12, 12), TRAIN, TEST) and datasets.classes(choice) == ("a", "b", "c", "d")
    assert (data.train_x.numpy() == arrays()["train_x"]).all() and data.classes == 4 and not datasets.has_devices(choice)
    keys = [datasets.key(choice)]
    grey = npz(tmp_path, train_x=arrays()["train_x"][:, 0], train_owner=np.arange(TRAIN) % 2, test_owner=np.arange(TEST) % 2)
    assert datasets.extent(grey)[0] == (1, 12, 12) and datasets.has_devices(grey)
    keys.append(datasets.key(grey))
    gap = npz(tmp_path, train_y=np.arange(TRAIN) % 2 * 2, test_y=np.arange(TEST) % 2 * 2, class_names=np.array(["a", "b", "c"]))
    assert provided(gap, tmp_path).classes == 3
    real = npz(tmp_path, **{name: arrays()[name].astype(np.float32) for name in ("train_x", "test_x")})
    assert datasets.is_real(real) and len({*keys, datasets.key(real)}) == 3


def test_folders_of_pictures_are_a_data_set_and_a_new_picture_is_noticed(tmp_path):
    choice = pictures(tmp_path / "pictures")
    data = provided(choice, tmp_path)
    assert data.train_x.shape == (6, 3, 8, 8) and data.test_y.tolist() == [0] * 3 + [1] * 3
    assert datasets.classes(choice) == ("a", "b")
    before = data.meta["identity"]
    assert provided(choice, tmp_path).meta["identity"] == before
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(tmp_path / "pictures/train/b/9.png")
    assert provided(choice, tmp_path).meta["identity"] != before and len(provided(choice, tmp_path).train_y) == 7
    drawn = provided(pictures(tmp_path / "other", ("a", "b"), 10), tmp_path)
    assert drawn.test_y.tolist() == [0, 0, 1, 1] and len(drawn.train_y) == 16


def test_a_link_to_other_pictures_is_noticed(tmp_path):
    old, new = (Path(pictures(tmp_path / name, count=count).options["path"]) for name, count in (("old", 3), ("new", 4)))
    link = tmp_path / "link"
    link.symlink_to(old)
    choice = Choice(name="folders", path=str(link), size=8)
    assert len(provided(choice, tmp_path).train_y) == 6
    link.unlink()
    link.symlink_to(new)
    assert len(provided(choice, tmp_path).train_y) == 8


def test_the_content_of_files_names_the_run(tmp_path):
    def named(seed, text):
        settings = config(dataset=npz(tmp_path, seed=seed).model_dump(), partition=listed(tmp_path, text).model_dump(),
                          clients_per_round=2)  # fmt: skip
        _check_config(settings)
        return run_id(settings, "data")

    texts = ("client,image\n0,1\n1,2\n", "client,image\n0,1\n1,3\n")
    names = [named(0, texts[0]), named(1, texts[0]), named(0, texts[1]), named(0, texts[0])]
    assert len(set(names)) == 3 and names[0] == names[3]


def test_listed_clients_train(tmp_path):
    """Image numbers are those of the files, whatever part of them the run uses."""
    choice = npz(tmp_path)
    rows = "".join(f"{image % 2},{image},train\n" for image in range(TRAIN)) + "0,5,test\n1,2,test\n0,0,test\n"
    settings = config(dataset=choice.model_dump(), partition=listed(tmp_path, "client,image,part\n" + rows).model_dump(),
                      clients_per_round=2, rounds=1, train_images=12)  # fmt: skip
    data = provided(choice, tmp_path)
    used, _ = partitions.subset(data, 12, None)
    fed = federation(settings, data)
    for client in (0, 1):
        assert used[fed.data.partition.train[client]].tolist() == [image for image in used if image % 2 == client]
    assert [part.tolist() for part in fed.data.partition.test] == [[0, 5], [2]]
    assert advance(fed)[1][1]["train_loss"] > 0


@pytest.mark.parametrize(("changes", "words"), [
    ({"train_x": None}, "train_x: no such array"),
    ({"train_y": np.array(["a", "b"] * 10)}, "labels <U1"),
    ({"train_x": np.zeros((TRAIN, 5), np.uint8)}, r"train part: images uint8 \(20, 5\), expected \(N, C, H, W\) uint8"),
    ({"train_x": np.zeros((TRAIN, 1, 9, 9), np.uint8)}, r"test part: images \(1, 12, 12\), declared as \(1, 9, 9\)"),
    ({"test_x": np.zeros((TEST, 1, 12, 12))}, r"test part: images float64"),
    ({"test_y": np.arange(TEST) - 1}, "labels: none is 0, but one is -1"),
    ({"train_y": np.arange(5)}, "train part: 20 images but 5 labels"),
    ({"train_y": np.arange(TRAIN) % 4 * 10**9}, "labels: none is 4, but one is 1000000000"),
    ({"train_y": np.array([{}] * TRAIN)}, "not in the expected format"),
])  # fmt: skip
def test_a_wrong_npz_file_is_one_message_with_its_name(changes, words, tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path}/mine.npz.*{words}") as caught:
        datasets.extent(npz(tmp_path, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("parts", "words"), [
    ((), "no such folder"), (("train/a", "test/a"), "two classes or more"),
    (("train/a", "train/b", "test/a"), "the same in train and test"),
])  # fmt: skip
def test_wrong_folders_are_one_message(parts, words, tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path}/p.*{words}"):
        provided(pictures(tmp_path / "p", parts), tmp_path)


@pytest.mark.parametrize(("text", "words"), [
    ("", "line 1: expected client,image"), ("a,b\n", "line 1: expected client,image"),
    ("client,image\n0,1\n0,x\n", r"line 3: expected two whole numbers from 0 \(got 0,x\)"),
    ("client,image\n0,1\n0,-1\n", r"line 3: expected two whole numbers from 0 \(got 0,-1\)"),
    ("client,image,part\n0,1,tests\n", "line 2: expected two whole numbers from 0, train or test"),
    ("client,image\n0,1\n1,20\n", "line 3: image 20: the data set has 20 train images, 0 to 19"),
    ("client,image,part\n0,1,train\n0,8,test\n", "line 3: image 8: the data set has 8 test images, 0 to 7"),
    ("client,image\n0,1\n\n1,1\n", "line 4: train image 1 is on line 2 too"),
    ("client,image\n0,1\n2,2\n", "client 1 has no train images"), ("client,image\n", "no train images"),
])  # fmt: skip
def test_a_wrong_list_of_clients_is_one_message_with_its_line(text, words, tmp_path):
    with pytest.raises(UserError, match=rf"{tmp_path}/clients\.csv: .*{words}") as caught:
        sets = (LabelledSubset(np.arange(count) % 4, 4) for count in (TRAIN, TEST))
        partitions.create(listed(tmp_path, text), *sets, pixels=4, seed=0)
    assert "\n" not in str(caught.value)
