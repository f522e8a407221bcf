"""Data of the user's own, named by settings: an .npz file, folders of pictures, a list of
clients."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedrepro.config import registry
from fedrepro.config.types import Choice
from fedrepro.core.errors import UserError
from fedrepro.data import datasets, partitions
from fedrepro.data.datasets import LabelledSubset, _image_folders, own
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
    np.savez(
        folder / "mine.npz",
        **{name: array for name, array in arrays(**changes).items() if array is not None},
    )
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
            Image.fromarray(draw.integers(0, 256, (9, 9, 3), np.uint8)).save(
                folder / part / f"{number}.png"
            )
    return Choice(name="folders", path=str(folder), size=8)


def listed(folder: Path, text: str) -> Choice:
    (folder / "clients.csv").write_text(text)
    return Choice(name="listed", file=str(folder / "clients.csv"))


def test_an_npz_file_is_a_data_set(tmp_path):
    choice = npz(tmp_path, class_names=np.array(["a", "b", "c", "d"]))
    data = provided(choice, tmp_path)
    assert datasets.extent(choice) == ((1, 12, 12), TRAIN, TEST) and datasets.classes(choice) == (
        "a",
        "b",
        "c",
        "d",
    )
    assert (
        (data.train_x.numpy() == arrays()["train_x"]).all()
        and data.classes == 4
        and not datasets.contents(choice).devices
    )
    keys = [datasets.key(choice)]
    grey = npz(
        tmp_path,
        train_x=arrays()["train_x"][:, 0],
        train_owner=np.arange(TRAIN) % 2,
        test_owner=np.arange(TEST) % 2,
    )
    assert datasets.extent(grey)[0] == (1, 12, 12) and datasets.contents(grey).devices
    keys.append(datasets.key(grey))
    gap = npz(
        tmp_path,
        train_y=np.arange(TRAIN) % 2 * 2,
        test_y=np.arange(TEST) % 2 * 2,
        class_names=np.array(["a", "b", "c"]),
    )
    assert provided(gap, tmp_path).classes == 3
    real = npz(
        tmp_path, **{name: arrays()[name].astype(np.float32) for name in ("train_x", "test_x")}
    )
    assert datasets.contents(real).real and len({*keys, datasets.key(real)}) == 3


def test_folders_of_pictures_are_a_data_set_and_a_new_picture_is_noticed(tmp_path):
    choice = pictures(tmp_path / "pictures")
    data = provided(choice, tmp_path)
    assert data.train_x.shape == (6, 3, 8, 8) and data.test_y.tolist() == [0] * 3 + [1] * 3
    assert datasets.classes(choice) == ("a", "b")
    before = data.meta["identity"]
    assert provided(choice, tmp_path).meta["identity"] == before
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(tmp_path / "pictures/train/b/9.png")
    assert (
        provided(choice, tmp_path).meta["identity"] != before
        and len(provided(choice, tmp_path).train_y) == 7
    )
    drawn = provided(pictures(tmp_path / "other", ("a", "b"), 10), tmp_path)
    assert drawn.test_y.tolist() == [0, 0, 1, 1] and len(drawn.train_y) == 16


def test_a_link_to_other_pictures_is_noticed(tmp_path):
    old, new = (
        Path(pictures(tmp_path / name, count=count).options["path"])
        for name, count in (("old", 3), ("new", 4))
    )
    link = tmp_path / "link"
    link.symlink_to(old)
    choice = Choice(name="folders", path=str(link), size=8)
    assert len(provided(choice, tmp_path).train_y) == 6
    link.unlink()
    link.symlink_to(new)
    assert len(provided(choice, tmp_path).train_y) == 8


def test_the_content_of_files_names_the_run(tmp_path):
    def named(seed, text):
        settings = config(
            dataset=npz(tmp_path, seed=seed).model_dump(),
            partition=listed(tmp_path, text).model_dump(),
            clients_per_round=2,
        )
        _check_config(settings)
        return run_id(settings, "data")

    texts = ("client,image\n0,1\n1,2\n", "client,image\n0,1\n1,3\n")
    names = [named(0, texts[0]), named(1, texts[0]), named(0, texts[1]), named(0, texts[0])]
    assert len(set(names)) == 3 and names[0] == names[3]


def test_listed_clients_train(tmp_path):
    """Image numbers are those of the files, whatever part of them the run uses."""
    choice = npz(tmp_path)
    rows = (
        "".join(f"{image % 2},{image},train\n" for image in range(TRAIN))
        + "0,5,test\n1,2,test\n0,0,test\n"
    )
    settings = config(
        dataset=choice.model_dump(),
        partition=listed(tmp_path, "client,image,part\n" + rows).model_dump(),
        clients_per_round=2,
        rounds=1,
        train_images=12,
    )
    data = provided(choice, tmp_path)
    used, _ = partitions.subset(data, 12, None)
    fed = federation(settings, data)
    for client in (0, 1):
        assert used[fed.data.partition.train[client]].tolist() == [
            image for image in used if image % 2 == client
        ]
    assert [part.tolist() for part in fed.data.partition.test] == [[0, 5], [2]]
    assert advance(fed)[1][1]["train_loss"] > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train_x": None}, "train_x: no such array"),
        ({"train_y": np.array(["a", "b"] * 10)}, "labels <U1"),
        (
            {"train_x": np.zeros((TRAIN, 5), np.uint8)},
            r"train part: images uint8 \(20, 5\), expected \(N, C, H, W\) uint8",
        ),
        (
            {"train_x": np.zeros((TRAIN, 1, 9, 9), np.uint8)},
            r"test part: images \(1, 12, 12\), declared as \(1, 9, 9\)",
        ),
        ({"test_x": np.zeros((TEST, 1, 12, 12))}, r"test part: images float64"),
        ({"test_y": np.arange(TEST) - 1}, "labels: none is 0, but one is -1"),
        ({"train_y": np.arange(5)}, "train part: 20 images but 5 labels"),
        ({"train_y": np.arange(TRAIN) % 4 * 10**9}, "labels: none is 4, but one is 1000000000"),
        ({"train_y": np.array([{}] * TRAIN)}, "not in the expected format"),
        *(
            (
                {"train_owner": np.arange(TRAIN) % 2, "test_owner": np.arange(TEST) % 2}
                | {f"{part}_owner": owners},
                f"{part} part: owners: expected 0, 1, 2",
            )
            for part, owners in (
                ("train", np.arange(TRAIN) - 1),
                ("train", np.arange(TRAIN) * 10**9),
                ("test", np.arange(TEST) - 1),
                ("test", np.full(TEST, 2)),
            )
        ),
        ({"train_owner": np.arange(TRAIN) % 2}, "test_owner: no such array"),
        ({"val_x": np.zeros((TRAIN, 1, 12, 12), np.uint8)}, "val_x: unknown array"),
        *(
            (
                {"class_names": np.array(names)},
                r"class_names: .*expected \(classes,\) different texts",
            )
            for names in (["a", "b", "c", "a"], [["a", "b"], ["c", "d"]], [1, 2, 3, 4])
        ),
        (
            {"class_names": np.array(["a", "b", "c", "d"]), "train_y": np.full(TRAIN, 10**9)},
            "labels 1000000000..1000000000",
        ),
    ],
)
def test_a_wrong_npz_file_is_one_message_with_its_name(changes, words, tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path}/mine.npz.*{words}") as caught:
        datasets.extent(npz(tmp_path, **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((), "no such folder"),
        (("train/a", "test/a"), "two classes or more"),
        (("train/a", "train/b", "test/a"), "the same in train and test"),
        (
            ("train/a", "train/b", "valid/a", "valid/b"),
            r"expected train and test, .*\(got train, valid",
        ),
        (
            ("train/a", "train/b", "test/a", "test/b", "val/a"),
            r"expected train and test, .*\(got test, train, val",
        ),
        (("a", "b", "b/more"), r"expected train and test, .*\(got a, b"),
        (
            ("train/a", "train/b", "test/a", "test/b", "test/b/more"),
            "/test/b: 1 of 4 are no pictures that are read: more",
        ),
        (("a", "b", "."), ": 3 pictures outside of the class folders, e.g. 0.png"),
        (
            ("train/a", "train/b", "train", "test/a", "test/b"),
            "/train: 3 pictures outside of the class folders",
        ),
    ],
)
def test_wrong_folders_are_one_message(parts, words, tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path}/p.*{words}"):
        provided(pictures(tmp_path / "p", parts), tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        [str(number) for number in range(12)],
        ["-10", "-1", "0", "0.25", "0.5", "10"],
        ["v1.9", "v1.10"],
        ["Class10", "class2", "class10", "class10b"],
        ["00", "01", "1"],
    ],
)
def test_numbers_in_names_of_classes_and_pictures_count_as_numbers(names, tmp_path):
    choice = pictures(
        tmp_path / "p", [f"{part}/{name}" for part in ("train", "test") for name in names], 1
    )
    assert datasets.classes(choice) == tuple(names)
    for number in range(12):
        Image.new("RGB", (9, 9), (number,) * 3).save(
            tmp_path / "p/test" / names[0] / f"{number}.png"
        )
    assert provided(choice, tmp_path).test_x[:12, 0, 0, 0].tolist() == list(range(12))


def test_capital_letters_in_the_names_of_parts(tmp_path):
    data = provided(pictures(tmp_path / "p", ("Train/a", "Train/b", "TEST/a", "TEST/b")), tmp_path)
    assert (len(data.train_y), len(data.test_y)) == (6, 6)


def test_every_picture_of_a_class_is_read_or_refused(tmp_path):
    choice, place = pictures(tmp_path / "p"), tmp_path / "p/train/a"
    picture = Image.new("RGB", (9, 9), (200, 100, 0))
    for number, suffix in enumerate((*_image_folders.SUFFIXES, ".JPG")):
        picture.save(place / f"more{number}{suffix}")
    for ignored in ("Thumbs.db", ".DS_Store"):
        (place / ignored).write_text("no picture")
    data = provided(choice, tmp_path)
    assert len(data.train_y) == 6 + 12 and data.train_y.tolist().count(0) == 15
    colours = data.train_x[3:15, :, 4, 4].int()  # GIF, JPEG and WebP round them
    assert (colours[:, :2] - colours.new_tensor([200, 100])).abs().max() <= 4 and (
        colours.diff(dim=0)[:, 0].abs() <= 4
    ).all()
    for name in ("phone.heic", "9.jp2", "notes.txt"):
        (place / name).write_text("something else")
    with pytest.raises(
        UserError,
        match=rf"{place}: 3 of 18 are no pictures that are read: 9\.jp2, notes\.txt, "
        rf"phone\.heic\. Put",
    ):
        provided(choice, tmp_path)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
def test_pictures_are_turned_upright(suffix, tmp_path):
    """A camera stores what its sensor saw, and in EXIF how to turn it: 6 is a quarter turn
    clockwise."""
    choice, exif = pictures(tmp_path / "p", count=1), Image.Exif()
    exif[274] = 6
    picture = np.zeros((16, 16), np.uint8)
    picture[8:] = 255  # the lower half, which is the left one once it is upright
    (tmp_path / "p/train/a/0.png").unlink()
    Image.fromarray(picture).save(tmp_path / f"p/train/a/0{suffix}", exif=exif)
    upright = provided(choice, tmp_path).train_x[0, 0]
    assert (upright[:, :4] > 200).all() and (upright[:, 4:] < 55).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pictures_are_laid_on_white(mode, tmp_path):
    choice = pictures(tmp_path / "p", count=1)
    picture = Image.new("RGBA", (8, 8), (0, 0, 0, 0))  # a hidden black
    picture.paste((60, 60, 60, 255), (0, 0, 4, 8))
    picture.convert(mode).save(tmp_path / "p/train/a/0.png")
    assert provided(choice, tmp_path).train_x[0, 0, 0].tolist() == [60] * 4 + [255] * 4


def test_several_pictures_in_one_file_are_refused(tmp_path):
    choice = pictures(tmp_path / "p")
    frames = [Image.new("L", (9, 9), value) for value in (0, 200)]
    frames[0].save(tmp_path / "p/train/a/moving.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(UserError, match=r"moving\.gif: 2 pictures in one file"):
        provided(choice, tmp_path)


def test_nothing_waits_for_a_pipe_or_reads_an_endless_file(tmp_path, monkeypatch):
    os.mkfifo(pipe := tmp_path / "pipe")
    (large := tmp_path / "large").touch()
    os.truncate(large, (1 << 32) + 1)
    for path, words in (
        (pipe, "not a file"),
        ("/dev/zero", "not a file"),
        (large, "at most 4294967296 are read"),
    ):
        for kind, name in (("datasets", "npz"), ("partitions", "listed")):
            with pytest.raises(UserError, match=f"file: {path}: .*{words}"):
                registry.parse_options(kind, Choice(name=name, file=str(path)))
    choice = pictures(tmp_path / "p")
    os.mkfifo(tmp_path / "p/train/a/pipe.png")
    with pytest.raises(UserError, match=r"pipe\.png: not a file"):
        provided(choice, tmp_path)


def test_a_small_npz_file_that_claims_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(own, "MAX_FILE", 1 << 20)
    np.savez_compressed(
        tmp_path / "mine.npz", **arrays(train_x=np.zeros((64 << 20, 1, 1, 1), np.uint8))
    )
    choice = Choice(name="npz", file=str(tmp_path / "mine.npz"))
    tracemalloc.start()
    with pytest.raises(
        UserError, match=r"mine\.npz: claims 67108992 bytes, and an array may have at most 1048576"
    ):
        datasets.extent(choice)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: expected client,image"),
        ("a,b\n", "line 1: expected client,image"),
        ("client,image\n0,1\n0,x\n", r"line 3: expected two whole numbers from 0 \(got 0,x\)"),
        ("client,image\n0,1\n0,-1\n", r"line 3: expected two whole numbers from 0 \(got 0,-1\)"),
        (
            "client,image,part\n0,1,tests\n",
            "line 2: expected two whole numbers from 0, train or test",
        ),
        (
            "client,image\n0,1\n1,20\n",
            "line 3: image 20: the data set has 20 train images, 0 to 19",
        ),
        (
            "client,image,part\n0,1,train\n0,8,test\n",
            "line 3: image 8: the data set has 8 test images, 0 to 7",
        ),
        ("client,image\n0,1\n\n1,1\n", "line 4: train image 1 is on line 2 too"),
        ("client,image\n0,1\n2,2\n", "client 1 has no train images"),
        ("client,image\n", "no train images"),
        ("client,image\n0,1\n1000000000,2\n", "client 1 has no train images"),
        (
            "client,image,part\n0,1,train\n1000000000,2,test\n",
            "client 1000000000 has no train images",
        ),
    ],
)
def test_a_wrong_list_of_clients_is_one_message_with_its_line(text, words, tmp_path):
    tracemalloc.start()
    with pytest.raises(UserError, match=rf"{tmp_path}/clients\.csv: .*{words}") as caught:
        sets = (LabelledSubset(np.arange(count) % 4, 4) for count in (TRAIN, TEST))
        partitions.create(listed(tmp_path, text), *sets, pixels=4, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in str(caught.value) and peak < 8 << 20  # whatever number a client has
