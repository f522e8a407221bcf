"""Fetching, decoding and preparing data sets: on small made files, and on real data if there is a
mirror."""

import contextlib
import gzip
import io
import os
import pickle
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import create_model

from fedrepro.config import registry
from fedrepro.config.types import Frozen, InputFile
from fedrepro.core import provenance, rng
from fedrepro.core.errors import DataUnavailable, UserError
from fedrepro.data import datasets
from fedrepro.data.datasets import (
    SOURCES,
    _fetch,
    _formats,
    _image_folders,
    digits,
    kaggle,
    synthetic,
)
from fedrepro.data.datasets.source import Contents, DataSource, File
from fedrepro.data.source_label import DIFFERS, NOTES, OFFICIAL, format_label, parse_label
from fedrepro.runs import records
from support.checkout import ROOT
from support.files import (
    CIFAR10_ARCHIVE,
    CIFAR10_PATHS,
    IMAGES,
    change_source,
    cifar10_files,
    cifar_batch,
    damage,
    declare,
    idx_bytes,
    leftovers,
    md5,
    mnist_files,
    tar_gz,
    write_all,
)

TINY = {"name": "synthetic", "devices": 3, "train": 40, "test": 20, "side": 8, "hidden": 16}
EYES = {"name": "aptos", "size": 10}
BATCHES = cifar10_files()
FILES = {
    "mnist": {f"mnist/{name}": data for name, data in mnist_files().items()},
    "cifar10": BATCHES,
}


@pytest.fixture
def mirror(tmp_path):
    return write_all(tmp_path / "mirror", {})


def put(mirror: Path, name: str, changes: dict[str, bytes | None] | None = None) -> None:
    """Write all files of a data set below a mirror, some changed or, with None, absent."""
    for path, data in (FILES.get(name, {}) | (changes or {})).items():
        (mirror / path).parent.mkdir(parents=True, exist_ok=True)
        (mirror / path).unlink(missing_ok=True)
        if data is not None:
            (mirror / path).write_bytes(data)


def provide(choice, tmp_path: Path) -> datasets.Dataset:
    """Prepare a data set and return it; a mirror declares its copy if that is readable."""
    out, mirror = tmp_path / datasets.key(choice), tmp_path / "mirror"
    if mirror.is_dir() and SOURCES[datasets.origin(choice)].files:
        with contextlib.suppress(UserError):
            declare(mirror, datasets.key(choice))
    datasets.provide(choice, tmp_path / "raw", out, str(mirror))
    return datasets.load(out)


def assert_refused(choice, tmp_path: Path, *words: str) -> UserError:
    """Assert that the error is one line that contains `words`, and that nothing is half written."""
    with pytest.raises(UserError) as caught:
        provide(choice, tmp_path)
    message = str(caught.value)
    assert "\n" not in message and all(word in message for word in words), message
    assert not (tmp_path / datasets.key(choice)).exists() and not leftovers(tmp_path)
    return caught.value


# What a data set is


def test_every_data_set_declares_the_contract():
    # which declare it by their options' files
    for name in set(registry.names("datasets")) - {"npz", "folders"}:
        source, contents = SOURCES[name], datasets.contents(name)
        assert (
            source.about
            and source.title
            and len(set(contents.classes)) == len(contents.classes) >= 2
        )
        assert (
            min(*contents.shape, contents.train, contents.test) >= 1
            and len(source.pixels or "0" * 64) == 64
        )
        assert all(
            len(file.md5) == 32 and file.urls and file.urls[0].startswith("http")
            for file in source.files
        )
        assert (
            bool(source.files) == bool(source.mirror)
            and SOURCES[datasets.origin(name)].files == source.files
        )
        assert not any(
            ".." in path or path.startswith("/") for layout in source.mirror for path in layout
        )
    assert [len(datasets.classes(name)) for name in ("cifar100", "emnist_letters")] == [100, 26]


@pytest.mark.parametrize(
    ("title", "source", "official", "note"),
    [
        ("MNIST", "official", True, OFFICIAL),
        ("MNIST", "mirror", False, f"mirror; {DIFFERS}"),
        ("synthetic devices (0, 0.5)", "drawn", False, "drawn here"),
        ("Shapes", "our own", False, "our own"),
        ("Chest X-Ray Images (Pneumonia)", "folder", False, NOTES["folder"]),
    ],
)
def test_the_label_of_data_reads_back(title, source, official, note):
    phrase = format_label({"title": title, "source": source, "official": official})
    assert phrase == f"{title} ({note})" and parse_label(phrase) == (title, note)


def test_options_name_the_folder_and_a_file_by_its_content(shapes, tmp_path, monkeypatch):
    assert datasets.key("mnist") == datasets.key({"name": "mnist"}) == "mnist"
    keys = {datasets.key(TINY | {"alpha": alpha}) for alpha in (0, 0.5, 1)}
    assert len(keys) == 3 and all(key.startswith("synthetic/") for key in keys)
    assert datasets.key("synthetic") == datasets.key(
        {"name": "synthetic", "alpha": 0.0, "devices": 10}
    )
    file = tmp_path / "names.txt"
    change_source(
        monkeypatch,
        "shapes",
        options=create_model("Options", __base__=Frozen, file=(InputFile, ...)),
    )
    choice = {"name": "shapes", "file": str(file)}
    assert (
        len(
            {
                file.write_text(text) and datasets.key(choice)
                for text in ("round", "square", "round")
            }
        )
        == 2
    )


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("mnist", {"alpha": 1}, "alpha: unknown key"),
        ("synthetic", {"gamma": 1}, "gamma: unknown key: choose from alpha, beta"),
        *(
            ("synthetic", {option: number}, "1073741824")
            for option, number in (
                ("devices", 10**9),
                ("side", 10**6),
                ("hidden", 10**9),
                ("train", 10**12),
            )
        ),
        ("synthetic", {"alpha": 1e308}, "alpha: at most 1e6"),
        ("synthetic", {"beta": 3e38}, "beta: at most 1e6"),
    ],
)
def test_invalid_options(name, options, words, tmp_path):
    with pytest.raises(UserError, match=f"dataset {name}: .*{words}"):
        datasets.identify({"name": name} | options, tmp_path / "raw", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_identity_without_prepared_data_touches_no_network(tmp_path, monkeypatch):
    monkeypatch.setattr(_fetch, "download", None)
    assert datasets.identify("mnist", tmp_path, tmp_path / "out") == SOURCES["mnist"].pixels
    digest = datasets.identify("cifar10", tmp_path, tmp_path / "out")
    assert len(digest) == 64 and digest != datasets.identify(
        "fashion_mnist", tmp_path, tmp_path / "out"
    )
    assert (
        datasets.identify("digits", tmp_path, tmp_path / "out", "http://localhost:1")
        == SOURCES["digits"].pixels
    )
    assert list(tmp_path.iterdir()) == []


def test_one_pixel_or_label_changes_the_identity():
    arrays = tuple(
        np.zeros(shape, t)
        for shape, t in zip([(2, 1, 2, 2), (2,)] * 2, (np.uint8, np.int64) * 2, strict=True)
    )
    seen = {datasets._prepared.pixels_digest(arrays)}
    for k in range(4):
        changed = [a.copy() for a in arrays]
        changed[k].flat[-1] = 1
        seen.add(datasets._prepared.pixels_digest(tuple(changed)))
    assert len(seen) == 5


# Sets that are made here


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("digits", (1, 16, 16), (1438, 359)),
        ("digits_rgb", (3, 16, 16), (1438, 359)),
        ("digits_100", (1, 16, 16), (6000, 1500)),
    ],
)
def test_digits_need_no_network(name, shape, counts, tmp_path, monkeypatch):
    monkeypatch.setattr(_fetch, "download", None)
    data = provide(name, tmp_path)
    meta = data.meta
    assert meta["pixels"] == meta["identity"] == SOURCES[name].pixels
    assert (len(data.train_x), len(data.test_x)) == counts == (meta["train"], meta["test"])
    assert (
        tuple(data.train_x.shape[1:]) == shape
        and data.train_x.dtype == torch.uint8
        and data.train_y.dtype == torch.int64
    )
    assert (
        torch.equal(data.test_y.unique(), torch.arange(data.classes))
        and len(meta["class_names"]) == data.classes
    )
    unit = data.train_x.double() / 255
    assert torch.allclose(
        unit.mean((0, 2, 3)), torch.tensor(meta["mean"], dtype=torch.float64), atol=1e-9
    )
    assert torch.allclose(
        unit.std((0, 2, 3), correction=0), torch.tensor(meta["std"], dtype=torch.float64), atol=1e-9
    )


def test_pairs_never_share_a_digit_between_train_and_test(tmp_path):
    bank = [{x.tobytes() for x in images} for images in digits.split()[::2]]
    assert not bank[0] & bank[1]
    for images, digits_of_part in zip(
        digits.read_pairs(tmp_path, Frozen())[::2], bank, strict=True
    ):
        halves = np.concatenate([images[:, 0, ::2, :8], images[:, 0, ::2, 8:]])
        assert {np.ascontiguousarray(x).tobytes() for x in halves} <= digits_of_part


def test_a_drawn_set_with_options(tmp_path):
    """Also into the folder after which the lock of the data set is named."""
    choice, out = TINY | {"beta": 0.5}, tmp_path / datasets.key(TINY | {"beta": 0.5})
    identity = datasets.identify(choice, tmp_path, out)
    data, labels = datasets.load(out), datasets.labels(out)
    shape, train, test = datasets.extent(TINY)
    assert (
        data.meta["identity"] == data.meta["pixels"] == identity
        and data.meta["title"] == "synthetic devices (0, 0.5)"
    )
    assert (
        data.train_x.shape == (train, *shape) == (120, 1, 8, 8) and len(data.test_x) == test == 60
    )
    assert (
        data.train_x.dtype == torch.float32
        and datasets.contents(TINY).real
        and not datasets.contents("digits").real
    )
    assert data.train.owners.tolist() == np.repeat(range(3), 40).tolist()
    assert data.train_x.double().mean().item() == pytest.approx(data.meta["mean"][0])
    assert data.train_x.double().std(correction=0).item() == pytest.approx(data.meta["std"][0])
    assert (labels.name, labels.pixels, labels.meta) == ("synthetic", data.pixels, data.meta)
    for mine, whole in ((labels.train, data.train), (labels.test, data.test)):
        assert np.array_equal(mine.labels, whole.labels) and np.array_equal(
            mine.owners, whole.owners
        )


def test_declared_checksums_are_those_of_what_is_drawn(tmp_path):
    """Only of small sets: the large ones take seconds to draw."""
    runs = records.load_kept(ROOT / "results/kept/fedmax.jsonl")
    choices = {
        record["data"]: record["config"]["dataset"]
        for run, record in runs.items()
        if run.startswith("synthetic-")
    }
    identities = {datasets.key(choice): data for data, choice in choices.items()}
    assert len(identities) == 3
    for params, checksum in synthetic.CHECKSUMS.items():
        choice = {"name": "synthetic", **params.model_dump()}
        if (key := datasets.key(choice)) not in identities:
            identities[key] = provide(choice, tmp_path).meta["identity"]
        assert identities[key] == checksum == datasets.pinned(choice)


def test_synthetic_devices_by_their_definition(tmp_path):
    """alpha changes the networks that draw labels, beta the inputs, both only between devices; the
    largest values stay finite."""
    choices = (
        {},
        {"alpha": 2},
        {"beta": 3},
        {"devices": 1, "train": 4000},
        {"alpha": 1e6, "beta": 1e6},
        {"alpha": 0.5},
    )
    plain, other, moved, large, wide, half = (
        provide(TINY | choice, tmp_path) for choice in choices
    )
    assert torch.equal(plain.train_x, other.train_x) and not torch.equal(
        plain.train_y, other.train_y
    )
    assert wide.train_x.isfinite().all() and len(wide.train_y.unique()) > 1
    devices = [data.train_x.view(3, 40, 64) for data in (plain, moved)]
    shift = devices[1] - devices[0]  # b of each device, the same for all of its numbers
    assert (shift - shift[:, :1, :1]).abs().max() < 1e-5 and shift[:, 0, 0].unique().numel() == 3
    x = large.train_x.flatten(1).double()
    assert torch.allclose(x.var(0), torch.arange(64).double().clamp(min=1) ** -1.2, rtol=0.2)
    assert x.mean(0).std().item() == pytest.approx(1, rel=0.2)  # v ~ N(0, 1) where beta is 0
    draw = rng.numpy_generator(0, "synthetic", client=2)
    u, _, _ = draw.normal(0, 0.5), draw.normal(), draw.normal(size=64)
    sizes = ((64, 16), (16,), (16, 10), (10,))
    first, first_bias, second, second_bias = (
        torch.from_numpy(u + draw.standard_normal(size)) for size in sizes
    )
    x = half.test_x[40:].flatten(1).double()
    assert torch.equal(
        ((x @ first + first_bias).relu() @ second + second_bias).argmax(1), half.test_y[40:]
    )


# Sets of one's own, and arrays that are none


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    """Return arrays for a data set of one's own, which reads a file of `data/raw/shapes`."""

    def read(raw, options):
        with np.load(raw / "shapes.npz") as arrays:
            return tuple(arrays[name] for name in ("train_x", "train_y", "test_x", "test_y"))

    contents, code_of = (
        Contents((1, 28, 28), 1000, 200, ("round", "square")),
        provenance.dataset_digest,
    )
    source = DataSource(
        title="Shapes", about="Shapes.", source="our own pictures", contents=contents, read=read
    )
    monkeypatch.setitem(SOURCES, "shapes", source)
    monkeypatch.setattr(
        provenance,
        "dataset_digest",
        lambda module: "mine" if module == __name__ else code_of(module),
    )
    draw = np.random.default_rng(0)
    arrays = {}
    for part, size in (("train", contents.train), ("test", contents.test)):
        arrays[f"{part}_x"] = draw.integers(256, size=(size, *contents.shape), dtype=np.uint8)
        arrays[f"{part}_y"] = draw.integers(2, size=size, dtype=np.uint8)
    (tmp_path / "raw/shapes").mkdir(parents=True)
    np.savez(tmp_path / "raw/shapes/shapes.npz", **arrays)
    return arrays


def test_raw_files_are_fetched_whatever_the_options_are(shapes, tmp_path, monkeypatch):
    """Also of a set with an option that has no default, which only settings give."""
    options = create_model("Options", __base__=Frozen, size=(int, ...))
    files, layouts = (File("shapes.npz", (), "0" * 32),), (("shapes/shapes.npz",),)
    change_source(monkeypatch, "shapes", options=options, files=files, mirror=layouts)
    mirror = tmp_path / "mirror" / "shapes"
    mirror.mkdir(parents=True)
    (tmp_path / "raw/shapes/shapes.npz").rename(mirror / "shapes.npz")
    assert (datasets.fetch("shapes", tmp_path / "raw", str(mirror.parent)) / "shapes.npz").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"train_x": np.zeros((1000, 28, 28), np.uint8)},
            ("train part", "uint8 (1000, 28, 28)", "(N, C, H, W) uint8"),
        ),
        (
            {"train_x": np.zeros((1000, 1, 28, 28))},
            ("train part", "float64 (1000, 1, 28, 28)", "(N, C, H, W) uint8"),
        ),
        (
            {"train_x": np.zeros((1000, 1, 8, 8), np.uint8)},
            ("train part", "(1, 8, 8)", "(1, 28, 28)"),
        ),
        ({"train_y": np.full(1000, 2)}, ("train part", "labels 2..2", "0..1")),
        ({"test_y": np.full(200, -1)}, ("test part", "labels -1..-1", "0..1")),
        ({"train_y": np.zeros((1000, 1), int)}, ("train part", "int64 (1000, 1)", "(N,)")),
        ({"train_y": np.full(1000, 0.5)}, ("train part", "float64 (1000,)", "(N,)")),
        (
            {"test_x": np.zeros((0, 1, 28, 28), np.uint8), "test_y": np.zeros(0, int)},
            ("test part: no images",),
        ),
        (
            {"test_x": np.zeros((20, 1, 28, 28), np.uint8), "test_y": np.zeros(20, int)},
            ("[1000, 20]", "[1000, 200]"),
        ),
        (None, ("shapes.npz", "No such file")),
    ],
    ids=[
        "no channel",
        "float64",
        "larger",
        "from 1",
        "negative",
        "column",
        "halves",
        "none",
        "counts",
        "no file",
    ],
)
def test_invalid_own_data_are_not_deleted(changes, words, shapes, tmp_path):
    """The message does not advise deleting what cannot be fetched again; the recipe's own data are
    valid."""
    file = tmp_path / "raw/shapes/shapes.npz"
    if changes is None:
        file.unlink()
    else:
        np.savez(file, **shapes | changes)
    for _ in range(2):
        message = str(assert_refused("shapes", tmp_path, *words))
        assert "delete" not in message and "fetch" not in message
    np.savez(file, **shapes)
    data = provide("shapes", tmp_path)
    assert data.meta["source"] == "our own pictures" and np.array_equal(
        data.test_x, shapes["test_x"]
    )


@pytest.mark.parametrize(("place", "wrong", "words"), [
    (0, np.full((120, 1, 8, 8), np.nan, np.float32), "train part: not all numbers are finite"),
    (0, np.zeros((120, 1, 8, 8), np.uint8), "train part: images uint8"),
    (5, np.zeros(59, int), "test part: 60 images but 59 owners"),
], ids=["nan", "bytes", "owners"])  # fmt: skip
def test_invalid_drawn_arrays(place, wrong, words, tmp_path, monkeypatch):
    arrays = list(synthetic.read(tmp_path, registry.parse_options("datasets", TINY)))
    arrays[place] = wrong
    change_source(monkeypatch, "synthetic", read=lambda raw, options: tuple(arrays))
    monkeypatch.setattr(provenance, "dataset_digest", lambda module: "mine")
    assert_refused(TINY, tmp_path, f"synthetic, {words}")


# Prepared once, and again where code or files are others


def test_other_code_prepares_again(tmp_path, monkeypatch):
    """A corrected decoder is not used with arrays of the old one."""
    meta, arrays = provide("digits_rgb", tmp_path).meta, tmp_path / "digits_rgb/arrays.npz"
    made = arrays.stat().st_mtime_ns
    provide("digits_rgb", tmp_path)
    assert arrays.stat().st_mtime_ns == made and meta["code"] == datasets.reader_digest(
        "digits_rgb"
    )
    monkeypatch.setattr(provenance, "dataset_digest", lambda name: f"corrected {name}")
    change_source(monkeypatch, "digits_rgb", pixels=None)
    provide("digits_rgb", tmp_path)
    assert arrays.stat().st_mtime_ns > made
    assert (
        datasets.planned_identity("digits_rgb", tmp_path / "raw", tmp_path / "digits_rgb")
        == meta["pixels"]
    )


def test_own_files_that_change_are_prepared_again(shapes, tmp_path):
    """A set without official files has no checksums: names, sizes and times are compared."""
    raw, out = tmp_path / "raw", tmp_path / "out"
    first = datasets.identify("shapes", raw, out)
    made = (out / "arrays.npz").stat().st_mtime_ns
    assert (
        datasets.identify("shapes", raw, out) == first
        and (out / "arrays.npz").stat().st_mtime_ns == made
    )
    np.savez(raw / "shapes/shapes.npz", **shapes | {"train_x": 255 - shapes["train_x"]})
    second = datasets.identify("shapes", raw, out)
    assert second != first and datasets.load(out).meta["identity"] == second == datasets.identify(
        "shapes", raw, out
    )


def test_a_copy_stays_a_copy_when_it_is_prepared_again(mirror, tmp_path, monkeypatch):
    """Even without its mirror: from the raw files; without these it stays as it is."""
    put(mirror, "mnist")
    identity, raw, out = (
        provide("mnist", tmp_path).meta["identity"],
        tmp_path / "raw",
        tmp_path / "mnist",
    )
    monkeypatch.setattr(_fetch, "download", None)
    monkeypatch.setattr(provenance, "dataset_digest", lambda name: "corrected")
    assert datasets.identify("mnist", raw, out) == identity
    meta = datasets.load(out).meta
    assert (meta["code"], meta["source"]) == ("corrected", "mirror") and datasets.is_copy(out)
    monkeypatch.setattr(provenance, "dataset_digest", lambda name: "once more")
    shutil.rmtree(raw)
    assert (
        datasets.identify("mnist", raw, out) == identity
        and datasets.load(out).meta["code"] == "corrected"
    )


def test_a_copy_is_prepared_to_the_same_bytes_again(mirror, tmp_path, caplog):
    put(mirror, "mnist")
    data, raw, out = provide("mnist", tmp_path), tmp_path / "raw", tmp_path / "mnist"
    assert not data.meta["official"] and data.meta["identity"] == data.meta["pixels"]
    assert "[20, 10]" in caplog.text and "[60000, 10000]" in caplog.text
    assert data.train_y.tolist() == [k % 10 for k in range(20)]
    first = (out / "arrays.npz").read_bytes()
    (out / "keep.txt").write_text("mine")
    shutil.rmtree(mirror)
    datasets.fetch("mnist", raw, str(mirror))  # complete: the mirror is not asked again
    write_all(out.with_name(".mnist.part"), {"arrays.npz": b"what a killed process left"})
    datasets.prepare("mnist", raw, out)
    assert (out / "arrays.npz").read_bytes() == first and not leftovers(tmp_path)
    assert sorted(path.name for path in out.iterdir()) == ["arrays.npz", "keep.txt", "meta.json"]


def test_official_release_is_recognised_by_its_pixels_or_its_files(mirror, tmp_path, monkeypatch):
    put(mirror, "mnist")
    pixels, raw, out = (
        provide("mnist", tmp_path).meta["pixels"],
        tmp_path / "raw",
        tmp_path / "mnist",
    )
    (mirror / "release.json").unlink()
    shutil.rmtree(raw)
    datasets.fetch("mnist", raw, str(mirror))
    change_source(monkeypatch, "mnist", pixels=pixels)
    assert datasets.prepare("mnist", raw, out)["official"] and not datasets.is_copy(out)
    files = tuple(
        File(name, ("http://localhost:1/",), md5(data)) for name, data in mnist_files().items()
    )
    change_source(monkeypatch, "mnist", pixels=None, files=files)
    expected = datasets.identify("mnist", raw, tmp_path / "nothing")
    meta = datasets.prepare("mnist", raw, out)
    assert meta["official"] and meta["identity"] == expected != meta["pixels"] == pixels


def test_processes_that_need_the_same_data_prepare_them_once(tmp_path):
    """Loading them needs only the training core, loading labels not even that."""
    start = (
        "import sys; from pathlib import Path; from fedrepro.data import datasets; out = "
        "Path('digits')\n"
    )
    code = (
        start + "for _ in range(2): datasets.provide('digits', Path('raw'), "
        "out)\nprint(datasets.labels(out).pixels)"
    )
    calls = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    assert [call.communicate(timeout=120)[0] for call in calls] == ["256\n"] * 2
    code = start + "datasets.labels(out); assert 'torch' not in sys.modules; datasets.load(out)\n"
    code += "assert not {'torchvision', 'sklearn', 'requests', 'PIL', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


# Formats


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("packed", [True, False])
def test_cifar_batches_loose_and_in_an_archive(protocol, packed, mirror, tmp_path):
    files = cifar10_files(protocol)
    if packed:
        tar_gz(mirror / CIFAR10_ARCHIVE, files)
    else:
        put(mirror, "cifar10", files)
    data = provide("cifar10", tmp_path)
    batches = [cifar_batch(count) for count in (4, 5, 6, 7, 8, 9)]
    (*train, test), (*train_labels, test_labels) = (
        [batch[key] for batch in batches] for key in (b"data", b"labels")
    )
    assert (
        np.array_equal(data.test_x.numpy().reshape(9, -1), test)
        and data.test_y.tolist() == test_labels
    )
    assert np.array_equal(data.train_x.numpy().reshape(30, -1), np.concatenate(train))
    assert data.train_y.tolist() == sum(train_labels, []) and data.train_x.shape[1:] == (3, 32, 32)


def test_pickles_of_python_2_and_both_numpys_are_read():
    # what python 2 and numpy 1 wrote into the official batches, opcode by opcode
    python2 = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq\x05"
        b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U\x06\x00\x01\x02\x03\xfe\xfftbU\x06labelsq\x08]q\x09(K\x00K\x01eu."
    )

    def unpickle(data: bytes):
        return _formats._ArraysOnly(io.BytesIO(data), encoding="bytes").load()

    record = unpickle(python2)
    assert record[b"labels"] == [0, 1] and _formats._array(record[b"data"]).tolist() == [
        [0, 1, 2],
        [3, 254, 255],
    ]
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    data = pickle.dumps({b"data": array, "bytes": b"\xff"}, 2)
    for home in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        moved = data.replace(b"numpy._core.multiarray", home)
        assert np.array_equal(_formats._array(unpickle(moved)[b"data"]), array)


def test_the_first_classes_of_cifar100(mirror, tmp_path):
    parts = {"train": 230, "test": 130}
    files = {
        part: pickle.dumps(cifar_batch(count, b"fine_labels", 100)) for part, count in parts.items()
    }
    write_all(mirror / "cifar-100-python", files)
    declare(mirror, "cifar100_20")
    whole, first = (provide(name, tmp_path) for name in ("cifar100", "cifar100_20"))
    assert (whole.classes, first.classes) == (100, 20)
    for part in ("train", "test"):
        images, labels = getattr(whole, f"{part}_x"), getattr(whole, f"{part}_y")
        assert torch.equal(getattr(first, f"{part}_x"), images[labels < 20])
        assert torch.equal(getattr(first, f"{part}_y"), labels[labels < 20])
    # fetched once
    assert [path.name for path in (tmp_path / "raw").iterdir() if path.is_dir()] == ["cifar100"]


def test_emnist_letters_stand_upright_start_at_zero_and_may_be_padded(mirror, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (26, 28, 28)).astype(np.uint8)
    (mirror / "emnist").mkdir()
    with zipfile.ZipFile(mirror / "emnist/gzip.zip", "w") as archive:
        for part in ("train", "test"):
            stem = f"gzip/emnist-letters-{part}"
            archive.writestr(f"{stem}-images-idx3-ubyte.gz", gzip.compress(idx_bytes(images)))
            archive.writestr(
                f"{stem}-labels-idx1-ubyte.gz", gzip.compress(idx_bytes(np.arange(1, 27)))
            )
    declare(mirror, "emnist_letters")
    datasets.provide("emnist_letters", tmp_path / "raw", tmp_path / "out", str(mirror))
    data = datasets.load(tmp_path / "out")
    source = SOURCES["emnist_letters"]
    padded = source.read(tmp_path / "raw/emnist_letters", source.options(pad=2))
    assert data.train_y.tolist() == padded[1].tolist() == list(range(26)) and data.classes == 26
    assert np.array_equal(data.train_x[:, 0].numpy(), images.transpose(0, 2, 1))
    assert np.array_equal(padded[0], np.pad(data.train_x.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2))))
    choices = ("emnist_letters", {"name": "emnist_letters", "pad": 2})
    assert [datasets.extent(choice)[0] for choice in choices] == [(1, 28, 28), (1, 32, 32)]
    assert len({datasets.pinned(choice) for choice in choices}) == 2


def npz(**arrays: np.ndarray) -> dict[str, bytes]:
    """Write the file of the pneumonia set."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return {"pneumonia28/pneumoniamnist.npz": buffer.getvalue()}


@pytest.mark.parametrize(("images", "labels"), [("images", "labels"), ("x", "y")])
def test_pneumonia_joins_train_and_val(images, labels, mirror, tmp_path):
    arrays = {}
    for part, count in (("train", 4), ("val", 3), ("test", 2)):
        arrays[f"{part}_{images}"] = np.full((count, 28, 28), count, np.uint8)
        # MedMNIST stores a column
        arrays[f"{part}_{labels}"] = np.arange(count, dtype=np.uint8)[:, None] % 2
    put(mirror, "pneumonia", npz(**arrays))
    data = provide("pneumonia", tmp_path)
    assert data.train_x[:, 0, 0, 0].tolist() == [4] * 4 + [3] * 3 and data.train_y.tolist() == [
        0,
        1,
        0,
        1,
        0,
        1,
        0,
    ]
    assert data.test_x.shape == (2, 1, 28, 28)


# Folders of pictures


def xrays(root: Path) -> Path:
    for part in ("train", "test", "val"):
        for value, name in ((10, "NORMAL"), (200, "PNEUMONIA")):
            folder = root / "chest_xray" / part / name
            folder.mkdir(parents=True)
            for k in range(2):
                Image.new("RGB", (90, 70), (value + k,) * 3).save(folder / f"{k}.png")
            (folder / ".DS_Store").write_text("no image")
    return root / "chest_xray"


@pytest.mark.parametrize("place", ["mirror", "raw"])
def test_class_folders_from_where_the_user_unpacked_them(place, tmp_path):
    """The mirror's, if the data folder has only some: they are not mixed. Prepared data do not need
    the mirror."""
    if place == "mirror":
        part = tmp_path / "raw/chest_xray/train/NORMAL"
        part.mkdir(parents=True)
        Image.new("RGB", (90, 70), (99,) * 3).save(part / "9.png")
    tree = xrays(tmp_path / place)
    data = provide("chest_xray", tmp_path)
    assert data.train_x[:, 0, 0, 0].tolist() == [10, 11, 200, 201] * 2 and data.test_x.shape == (
        4,
        1,
        64,
        64,
    )
    assert data.test_y.tolist() == [0, 0, 1, 1] and data.meta["source"] == "folder"
    shutil.rmtree(tree)
    assert provide("chest_xray", tmp_path).meta == data.meta
    with pytest.raises(DataUnavailable):
        datasets.fetch("chest_xray", tmp_path / "raw", str(tmp_path / "mirror"))


def test_class_folders_without_pictures(mirror, tmp_path):
    words = ("train/NORMAL", "kaggle.com", str(tmp_path / "raw/chest_xray"), str(mirror))
    assert isinstance(assert_refused("chest_xray", tmp_path, *words), DataUnavailable)
    empty = xrays(tmp_path / "raw") / "test" / "NORMAL"
    for path in empty.iterdir():
        path.unlink()
    assert_refused("chest_xray", tmp_path, str(empty), "no .jpeg")


def test_class_folders_of_another_size_and_pooled(tmp_path, monkeypatch):
    monkeypatch.setattr(
        kaggle,
        "draw_test_part",
        lambda labels, share, purpose: np.isin(np.arange(len(labels)), (1, 7)),
    )
    xrays(tmp_path / "mirror")
    data = provide({"name": "chest_xray", "size": 20, "pooled": True}, tmp_path)
    assert data.train_x.shape == (10, 1, 20, 20) and data.test_y.tolist() == [0, 1]


def test_grey_images_of_16_bits(tmp_path):
    """They are scaled to the same bytes as the 8-bit image, and refused if they may have 12
    bits."""
    ramp = np.tile(np.arange(4, 256, 4, dtype=np.uint8), (63, 1))
    folder = xrays(tmp_path / "raw") / "train/NORMAL"
    Image.fromarray(ramp).save(folder / "0.png")
    Image.fromarray(ramp.astype(np.uint16) * 257).save(folder / "1.png")
    images = provide({"name": "chest_xray", "size": 63}, tmp_path).train_x
    assert torch.equal(images[0], images[1]) and images[0, 0].tolist() == ramp.tolist()
    Image.fromarray(ramp.astype(np.uint16) * 16).save(folder / "1.png")
    assert_refused({"name": "chest_xray", "size": 62}, tmp_path, "NORMAL/1.png", "64 to 4032")


def test_a_share_of_each_class_is_held_out_at_random():
    labels = np.repeat([0, 1, 3], [100, 39, 7])
    test = _image_folders.draw_test_part(labels, 0.15, "a split")
    assert np.bincount(labels[test], minlength=4).tolist() == [15, 5, 0, 1] and not test[:15].all()
    assert np.array_equal(test, _image_folders.draw_test_part(labels, 0.15, "a split"))
    assert not np.array_equal(test, _image_folders.draw_test_part(labels, 0.15, "another"))


@pytest.mark.parametrize(("choice", "counts", "total"), [
    ({"name": "chest_xray", "pooled": True}, [1583, 4273], 5856),
    ("aptos", np.add([1805, 370, 999, 193, 295], [25810, 2443, 5292, 873, 708]), 38_788),
], ids=["chest_xray", "aptos"])  # fmt: skip
def test_sizes_of_drawn_test_parts(choice, counts, total):
    """From the releases' counts of each class, with the paper's totals."""
    test = _image_folders.draw_test_part(np.repeat(range(len(counts)), counts), 0.15, "sizes").sum()
    assert datasets.extent(choice)[1:] == (sum(counts) - test, test) and sum(counts) == total


GRADES = {"aptos2019": [0, 1, 2, 3, 4, 0], "retinopathy": [4, 3, 2, 1, 0, 0, 0, 0]}


def retinas(root: Path, grades: dict = GRADES) -> Path:
    """Make both sources: a red square of 20 pixels on black images of 60 x 40, brighter the worse
    the grade."""
    for name, (table, columns, inner) in kaggle.RETINAS.items():
        folder = root / "aptos" / name / inner
        folder.mkdir(parents=True)
        rows = [",".join(columns)]
        for place, grade in enumerate(grades[name]):
            picture = Image.new("RGB", (60, 40))
            picture.paste((50 + 40 * grade, 0, 0), (20, 10, 40, 30))
            picture.save(folder / f"{place}_left.png")
            rows.append(f"{place}_left,{grade}")
        (root / "aptos" / name / table).write_text("\n".join(rows) + "\n")
    return root / "aptos"


@pytest.fixture
def few_retinas(monkeypatch):
    monkeypatch.setattr(
        kaggle, "draw_test_part", lambda labels, share, purpose: np.arange(len(labels)) % 4 == 3
    )


@pytest.mark.parametrize("place", ["mirror", "raw"])
def test_retinas_of_two_sources(place, few_retinas, tmp_path):
    """Also one folder deeper, with hidden files, and with tables that Excel saved."""
    retinas(tmp_path / "plain" / "mirror")
    plain, root = provide(EYES, tmp_path / "plain"), retinas(tmp_path / place)
    labels, held = (
        np.array([grade for grades in GRADES.values() for grade in grades]),
        np.arange(14) % 4 == 3,
    )
    assert (
        plain.train_y.tolist() == labels[~held].tolist()
        and plain.test_y.tolist() == labels[held].tolist()
    )
    assert plain.train_x.shape == (11, 3, 10, 10) and (plain.train_x[:, 1:] == 0).all()
    # nothing but the eye
    assert (
        plain.train_x[:, 0].flatten(1).min(1).values.tolist() == (50 + 40 * labels[~held]).tolist()
    )
    assert plain.meta["source"] == "folder"
    for name, (table, _, inner) in kaggle.RETINAS.items():
        folder = root / name / inner
        for path in list(folder.iterdir()):
            path.with_name(f"._{path.name}").write_bytes(b"a note")
        (folder / ".DS_Store").write_bytes(b"a note")
        folder.rename(folder.with_name("moved"))
        folder.mkdir()
        folder.with_name("moved").rename(folder / inner)
        text = (root / name / table).read_text()
        first = text.splitlines()[1]  # once more, as it was
        (root / name / table).write_text(f"\ufeff{text}{first}\n,\n")
    assert provide(EYES, tmp_path).meta["pixels"] == plain.meta["pixels"]


@pytest.mark.parametrize(
    ("size", "expected"), [((60, 20), (60, 60)), ((30, 20), (30, 20))], ids=["wide", "dark"]
)
def test_cropping_to_an_eye_beyond_the_image_or_absent(size, expected):
    eye = kaggle.crop_to_eye(Image.new("RGB", size, (9, 9, 9) if size == (60, 20) else 0))
    assert eye.size == expected and np.asarray(eye)[:20].max() == 0


@pytest.mark.parametrize(
    ("grades", "table", "words"),
    [
        (GRADES, "id_code,grade\n0_left,1\n", ("train.csv", "no column diagnosis")),
        (GRADES, "id_code,diagnosis\n", ("train.csv", "no rows")),
        (GRADES, "id_code,diagnosis\n0_left,\n", ("train.csv", "0_left", "(got )")),
        (
            GRADES,
            "id_code,diagnosis\n0_left,0\n0_left,4\n9_left,1\n1_left,7\n",
            ("0_left: listed as class 0 and as class 4", "no picture 9_left", "1_left", "(got 7)"),
        ),
        (GRADES, None, ("train.csv: not there",)),
        ({"aptos2019": [0, 1, 2], "retinopathy": [0, 4]}, "", ("no picture of grade 3",)),
    ],
    ids=["no column", "no rows", "no grade", "all faults at once", "no table", "no grade 3"],
)
def test_invalid_tables_of_retinas(grades, table, words, few_retinas, tmp_path):
    file = retinas(tmp_path / "mirror", grades) / "aptos2019" / "train.csv"
    if table is None:
        file.unlink()
    elif table:
        file.write_text(table)
    assert_refused(EYES, tmp_path, *words)


def test_missing_too_few_or_broken_retinas(mirror, tmp_path, request):
    assert isinstance(
        assert_refused(EYES, tmp_path, "aptos2019/train_images", "kaggle.com", "retinopathy"),
        DataUnavailable,
    )
    root = retinas(mirror)
    assert_refused(EYES, tmp_path, "mirror/aptos", "7 images")
    request.getfixturevalue("few_retinas")
    for path in (root / "retinopathy/resized_train").iterdir():
        path.write_bytes(b"no picture")
    for place in range(8, 20):
        shutil.copy(path, path.with_name(f"{place}_left.png"))
    table = root / "retinopathy" / kaggle.RETINAS["retinopathy"][0]
    table.write_text(table.read_text() + "".join(f"{place}_left,0\n" for place in range(8, 20)))
    message = str(assert_refused(EYES, tmp_path, "0_left.png", "and 12 more"))
    assert message.count("truncated or damaged") == 8


def test_changes_behind_a_link_are_noticed(few_retinas, tmp_path):
    root = retinas(tmp_path / "raw")
    folder = root / "aptos2019" / "train_images"
    folder.rename(tmp_path / "disk")
    folder.symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "ring").symlink_to(root)
    before = provide(EYES, tmp_path).meta["identity"]
    (tmp_path / "disk" / ".DS_Store").write_bytes(b"a note")
    assert not _fetch.has_changed(root)
    Image.new("RGB", (60, 40), (9, 9, 9)).save(tmp_path / "disk" / "0_left.png")
    assert _fetch.has_changed(root) and provide(EYES, tmp_path).meta["identity"] != before


def test_images_are_in_memory_once(tmp_path):
    """Of 38,788 retinas of 256 x 256 pixels a second copy is 7 GiB."""
    retinas(tmp_path / "raw", {"aptos2019": [0, 1, 2, 3, 4], "retinopathy": [0] * 195})
    choice = {"name": "aptos", "size": 256}
    datasets.fetch(choice, tmp_path / "raw")
    tracemalloc.start()
    datasets.prepare(choice, tmp_path / "raw", tmp_path / "out")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * 3 * 256 * 256 + (20 << 20)  # numpy hands 16 MiB at a time to the archive


# Files that are not what they should be


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def idx(array) -> bytes:
    return gzip.compress(idx_bytes(np.asarray(array)))


LABELS, BATCH, MARK = "train-labels-idx1-ubyte.gz", "data_batch_2", Path("mark-of-a-pickle")
BLANK, PIXELS = np.zeros((20, 28, 28)), cifar_batch(5)[b"data"]
EVIL = [Evil(os.mkdir, str(MARK)), Evil(eval, "1"), Evil(np.load, "x"), Evil(getattr, "x", "y")]
BAD_IDX = {
    "truncated gz": (IMAGES, damage(mnist_files()[IMAGES]), "truncated"),
    "not gz": (IMAGES, b"<html>not found</html>", "truncated or damaged"),
    "empty": (IMAGES, b"", "not an IDX file"),
    "wrong magic": (IMAGES, gzip.compress(b"\0\0\x0d\x03" + bytes(12)), "not an IDX file"),
    "absurd size": (IMAGES, gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12), "4294967295 x"),
    "short": (IMAGES, gzip.compress(idx_bytes(BLANK)[:-1]), "fewer bytes"),
    "long": (IMAGES, gzip.compress(idx_bytes(BLANK) + b"x"), "more bytes"),
    "label out of range": (LABELS, idx(np.full(20, 10)), "train part", "labels 10..10", "0..9"),
    "count mismatch": (LABELS, idx(np.zeros(19)), "train part", "20 images but 19 labels"),
    "no labels": (LABELS, idx(np.zeros(0)), "train part", "20 images but 0 labels"),
    "absent": (LABELS, None, f"mirror/mnist/{LABELS}", "is not there", "FEDREPRO_DATA_MIRROR"),
}
BAD_BATCHES = {
    "garbage": (b"garbage", "not in the expected format"),
    "cut": (pickle.dumps(cifar_batch(5))[:-900],),
    "a list": (pickle.dumps([1, 2]), "not in the expected format"),
    "no labels": (pickle.dumps({b"data": PIXELS}), "labels"),
    "one label": (pickle.dumps({b"data": PIXELS, b"labels": [0]}), "1 x 3072 bytes"),
    "pairs": (pickle.dumps({b"data": PIXELS, b"labels": [[0, 1]] * 5}), "(5, 2)"),
    "uneven": (
        pickle.dumps({b"data": PIXELS, b"labels": [[0, 1], [0]]}),
        "not in the expected format",
    ),
    "a number": (pickle.dumps({b"data": PIXELS, b"labels": 5}), "not in the expected format"),
    "halves": (
        pickle.dumps({b"data": PIXELS / 2, b"labels": [0] * 5}),
        "5 x 3072 bytes",
        "float64",
    ),
} | {
    f"{evil.call[0].__name__}, protocol {protocol}": (
        pickle.dumps({b"data": evil, b"labels": []}, protocol),
        "refused",
    )
    for evil in EVIL
    for protocol in (0, 2, 4)
}
OBJECTS = np.array(EVIL[:1], dtype=object)
PARTS = [f"{part}_{key}" for part in ("train", "val", "test") for key in ("images", "labels")]
PACKED = npz(train_images=np.zeros((5, 28, 28), np.uint8))
NPZ = next(iter(PACKED))
BAD_FILES = [
    *(
        pytest.param(
            "mnist", {f"mnist/{file}": data}, (file if file == IMAGES else "", *words), id=title
        )
        for title, (file, data, *words) in BAD_IDX.items()
    ),
    *(
        pytest.param("cifar10", {f"cifar-10-batches-py/{BATCH}": data}, (BATCH, *words), id=title)
        for title, (data, *words) in BAD_BATCHES.items()
    ),
    pytest.param(
        "emnist_letters",
        {"emnist/gzip.zip": b"PK\x03\x04" + bytes(50)},
        ("gzip.zip", "truncated"),
        id="zip",
    ),
    pytest.param(
        "pneumonia", {NPZ: damage(PACKED[NPZ])}, ("pneumoniamnist.npz", "truncated"), id="npz"
    ),
    pytest.param("pneumonia", PACKED, ("val_images or val_x", "train_images"), id="no array"),
    pytest.param(
        "pneumonia",
        npz(**dict.fromkeys(PARTS, OBJECTS)),
        ("pneumoniamnist.npz", "allow_pickle"),
        id="objects",
    ),
]


@pytest.mark.parametrize(("name", "files", "words"), BAD_FILES)
def test_damaged_files_of_a_mirror_are_fetched_again_once_they_are_mended(
    name, files, words, mirror, tmp_path, monkeypatch
):
    """And no code of a pickle runs."""
    monkeypatch.chdir(tmp_path)
    put(mirror, name, files)
    for _ in range(2):
        assert_refused(name, tmp_path, *words)
    assert not MARK.exists()
    if name in FILES:
        put(mirror, name)
        assert provide(name, tmp_path).meta["name"] == name


@pytest.mark.parametrize(("left_out", "links", "words"), [
    ((), {"link": "/etc/passwd"}, None),
    (("test_batch",), {CIFAR10_PATHS[-1]: "/etc/passwd"}, ("test_batch", "is a link")),
    (("test_batch",), {}, ("test_batch", "is not in it")),
    (None, {}, ("truncated or damaged",)),
], ids=["members outside", "link", "absent", "cut"])  # fmt: skip
def test_archives(left_out, links, words, mirror, tmp_path):
    """None can write outside of the folder or contain links."""
    files = {
        name: data for name, data in BATCHES.items() if name.split("/")[1] not in (left_out or ())
    }
    outside = {} if words else {"../../evil": b"x", str(tmp_path / "evil"): b"x"}
    tar_gz(mirror / CIFAR10_ARCHIVE, files | outside, links)
    if left_out is None:
        (mirror / CIFAR10_ARCHIVE).write_bytes(damage((mirror / CIFAR10_ARCHIVE).read_bytes()))
    if words:
        assert_refused("cifar10", tmp_path, CIFAR10_ARCHIVE, *words)
    else:
        provide("cifar10", tmp_path)
    assert not list(tmp_path.rglob("evil")) and not list(tmp_path.rglob("link"))


def test_every_flipped_bit_of_an_archive_is_noticed(tmp_path):
    tar_gz(tmp_path / "whole.tar.gz", BATCHES | {"last": b"\0" * 5000})
    whole, draw = (tmp_path / "whole.tar.gz").read_bytes(), np.random.default_rng(0)
    assert _formats.tar_members(tmp_path / "whole.tar.gz", list(BATCHES)) == BATCHES
    # the header's ten bytes say nothing of the data
    for place in (len(whole) - 6, len(whole) - 2, *draw.integers(10, len(whole), 30)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(draw.integers(8))
        (tmp_path / "flipped.tar.gz").write_bytes(flipped)
        with pytest.raises(UserError, match="flipped.tar.gz: "):
            _formats.tar_members(tmp_path / "flipped.tar.gz", list(BATCHES))


ARRAY = (
    b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntC\x01btR(I1\n(I2\nI3072\nt"
    b"cnumpy\ndtype\n(X\x02\x00\x00\x00%sI0\nI1\ntR%sI00\n%stb"
)
PLAIN, SIX = b"(I3\nX\x01\x00\x00\x00|NNNI-1\nI-1\nI0\ntb", b"C\x06abcdef"
HOSTILE = {
    "an array made by ndarray, over no memory of its own": b"cnumpy\nndarray\n((I1000000\n"
    b"tX\x02\x00\x00\x00u1NI0\n(I1000000000\nttR",
    "an array's state with too few bytes": ARRAY % (b"u1", PLAIN, SIX),
    "an array of objects": ARRAY % (b"O8", PLAIN, b"]"),
    "a type whose state says that it holds objects": ARRAY
    % (
        b"u1",
        b"(I3\nX\x01\x00\x00\x00|(cnumpy\ndtype\n(X\x02\x00\x00\x00O8tRttNNI8\nI8\nI63\ntb",
        SIX,
    ),
    "a new ndarray": b"cnumpy\nndarray\n(I5\nt\x81",
    "a function with a state": b"cnumpy\ndtype\n}X\x01\x00\x00\x00xI1\nsb",
    "a type where an array is expected": b"cnumpy\ndtype\n(X\x02\x00\x00\x00u1tR",
}


def test_pickles_execute_no_code():
    """In a process of its own, since it may crash."""
    batches = {
        title: b"\x80\x03}C\x04data" + data + b"sC\x06labels]I0\naI1\nas."
        for title, data in HOSTILE.items()
    }
    code = (
        "from fedrepro.data.datasets import _formats; from fedrepro.core.errors import UserError\n"
    )
    code += f"for title, batch in {batches!r}.items():\n"
    code += (
        "    try: _formats.cifar_batch(batch, 'labels', title)\n    except UserError as "
        "error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    told = [line for line in done.stdout.splitlines() if ": not in the expected format" in line]
    assert done.returncode == 0 and [line.partition(": not in")[0] for line in told] == list(
        HOSTILE
    ), done


@pytest.mark.parametrize("gone", [True, False])
def test_a_raw_file_that_changed_is_fetched_again(gone, mirror, tmp_path):
    put(mirror, "mnist")
    declare(mirror)
    raw, out = tmp_path / "raw", tmp_path / "mnist"
    with pytest.raises(UserError, match=f"{raw}/mnist: raw files missing"):
        datasets.prepare("mnist", raw, out)
    assert not raw.exists()
    path = datasets.fetch("mnist", raw, str(mirror)) / IMAGES
    path.unlink() if gone else path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(UserError, match=rf"{IMAGES}: changed or gone"):
        datasets.prepare("mnist", raw, out)
    # which is all that Snakemake asks for: it fetches again
    assert not (raw / "mnist/source.json").exists()
    assert len(provide("mnist", tmp_path).train_y) == 20


def test_unwritable_folders(mirror, tmp_path):
    put(mirror, "mnist")
    provide("mnist", tmp_path)
    blocker = tmp_path / "blocker"  # a file where a folder is needed stops even root
    blocker.write_text("")
    for write in (
        lambda: datasets.fetch("mnist", blocker, str(mirror)),
        lambda: datasets.prepare("mnist", tmp_path / "raw", blocker / "mnist"),
    ):
        with pytest.raises(UserError, match=r"blocker.*cannot read or write \("):
            write()


def test_changed_arrays_are_refused(tmp_path):
    """Other labels, fewer images, other pixels."""
    provide("digits", tmp_path)
    file = tmp_path / "digits/arrays.npz"
    with np.load(file) as arrays:
        whole = dict(arrays)
    changes = {
        "train_y": whole["train_y"][::-1],
        "test_y": whole["test_y"][:-1],
        "train_x": 255 - whole["train_x"],
    }
    for name, array in changes.items():
        np.savez(file, **whole | {name: array})
        for read in (datasets.load, datasets.labels)[: 1 if name == "train_x" else 2]:
            with pytest.raises(UserError, match=rf"arrays\.npz: {name}"):
                read(file.parent)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(UserError, match=r"arrays\.npz: truncated or damaged"):
        datasets.load(file.parent)


@pytest.mark.parametrize(
    "text", (None, "", "{", "{}", "[]", "[" * 100000), ids=lambda text: str(text)[:4]
)
def test_missing_or_damaged_metadata(text, tmp_path):
    provide("digits", tmp_path)
    out = tmp_path / "digits"
    (out / "meta.json").unlink() if text is None else (out / "meta.json").write_text(text)
    for read in (
        datasets.load,
        datasets.labels,
        lambda out: datasets.identify("digits", tmp_path / "raw", out),
    ):
        if text is not None or read in (datasets.load, datasets.labels):
            with pytest.raises(UserError, match=r"meta\.json: "):
                read(out)


# Real data


REAL = {
    "mnist": ((60000, 10000), "official"),
    "cifar100": ((50000, 10000), "official"),
    "cifar100_20": ((10000, 2000), "official"),
    "pneumonia": ((5232, 624), "mirror"),
}


@pytest.mark.parametrize("name", REAL)
def test_real_sets(name, tmp_path, mirror):
    """From the user's mirror, or the packed MNIST next to the repository."""
    shared = ROOT.parent / "shared" / "data"
    folder = (
        Path(os.environ.get("FEDREPRO_DATA_MIRROR") or shared)
        / Path(SOURCES[name].mirror[-1][0]).parent
    )
    if not folder.is_dir():
        pytest.skip(f"no {folder.name} in FEDREPRO_DATA_MIRROR")
    (mirror / folder.name).symlink_to(folder)
    meta, (counts, source) = provide(name, tmp_path).meta, REAL[name]
    assert (meta["train"], meta["test"]) == counts and (source == "mirror" or meta["official"])
    if name == "mnist":
        assert meta["mean"] == pytest.approx([0.1307], abs=1e-4) and meta["std"] == pytest.approx(
            [0.3081], abs=1e-4
        )
