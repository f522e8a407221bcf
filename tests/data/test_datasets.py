"""Fetching, decoding and preparing: on small made files, and on real data where a mirror is at hand."""

import contextlib
import gzip
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from fedrepro.config import registry
from fedrepro.config.types import Frozen, InputFile
from fedrepro.core import provenance, rng
from fedrepro.core.errors import Unavailable, UserError
from fedrepro.data import datasets
from fedrepro.data.datasets import (
    _fetch,
    _formats,
    _image_folders,
    aptos,
    chest_xray,
    cifar10,
    cifar100,
    emnist_letters,
    mnist,
    synthetic,
)
from fedrepro.data.source_label import DIFFERS, NOTES, OFFICIAL, describe, described
from fedrepro.runs import kept
from support.files import (
    IMAGES,
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

META_KEYS = {
    *("name", "title", "classes", "class_names", "shape", "train", "test"),
    *("pixels", "arrays", "identity", "official", "source", "release", "code", "mean", "std"),
}


@pytest.fixture
def mirror(tmp_path):
    write_all(tmp_path / "mirror" / "mnist", mnist_files())
    declare(tmp_path / "mirror")
    return tmp_path / "mirror"


def ready(name: str, tmp_path: Path, mirror: Path) -> tuple[Path, Path]:
    """Fetch from a mirror that declares its copy, where that can be read."""
    if registry.find("datasets", name).FILES:
        with contextlib.suppress(UserError):
            declare(mirror, name)
    datasets.fetch(name, tmp_path / "raw", str(mirror))
    return tmp_path / "raw", tmp_path / "prepared" / name


def assert_fails(name: str, tmp_path: Path, mirror: Path, *words: str) -> str:
    """Fetching or preparing fails with one line that holds `words`, and leaves nothing half-written."""
    with pytest.raises(UserError) as caught:
        raw, out = ready(name, tmp_path, mirror)
        datasets.prepare(name, raw, out)
    message = str(caught.value)
    assert "\n" not in message and all(word in message for word in words), message
    assert not (tmp_path / "prepared" / name / "meta.json").exists() and not leftovers(tmp_path)
    return message


# What a data set is


def test_every_module_declares_the_contract():
    names = registry.names("datasets")
    assert {"digits", "mnist", "cifar10", "cifar100", "emnist_letters", "pneumonia", "chest_xray", "aptos"} <= set(names)
    for name in names:
        module = registry.find("datasets", name)
        assert module.__doc__ and module.TITLE and callable(module.read)
        assert len(set(datasets.classes(name))) == len(module.CLASSES) >= 2
        shape, train, test = datasets.extent(name)
        assert len(shape) == 3 and min(*shape, train, test) >= 1
        assert module.PIXELS is None or len(module.PIXELS) == 64
        for file in module.FILES:
            assert len(file.md5) == 32 and file.urls and all(url.startswith("http") for url in file.urls)
        assert bool(module.FILES) == bool(module.MIRROR)
        assert registry.find("datasets", datasets.origin(name)).FILES == module.FILES
        for layout in module.MIRROR:
            assert all(".." not in path and not path.startswith("/") for path in layout)
    assert len(cifar100.CLASSES) == 100 and len(emnist_letters.CLASSES) == 26


@pytest.mark.parametrize(("title", "source", "official", "note"), [
    ("MNIST", "official", True, OFFICIAL), ("synthetic devices (0, 0.5)", "drawn", False, "drawn here"),
    ("Chest X-Ray Images (Pneumonia)", "folder", False, NOTES["folder"]),
    ("MNIST", "mirror", False, f"mirror; {DIFFERS}"),
])  # fmt: skip
def test_what_is_said_of_data_reads_back(title, source, official, note):
    """Titles have brackets of their own."""
    phrase = describe({"title": title, "source": source, "official": official})
    assert phrase == f"{title} ({note})" and described(phrase) == (title, note)


def test_what_other_code_prepared_is_prepared_anew(tmp_path, monkeypatch):
    """A corrected decoder does not train on what the old one made."""
    raw, out = tmp_path / "raw", tmp_path / "out"
    datasets.provide("digits_rgb", raw, out)
    meta, made = json.loads((out / "meta.json").read_text(encoding="utf-8")), (out / "arrays.npz").stat().st_mtime_ns
    datasets.provide("digits_rgb", raw, out)
    assert (out / "arrays.npz").stat().st_mtime_ns == made and meta["code"] == datasets.code("digits_rgb")
    monkeypatch.setattr(provenance, "dataset_digest", lambda name: f"corrected {name}")
    monkeypatch.setattr(registry.find("datasets", "digits_rgb"), "PIXELS", None)
    datasets.provide("digits_rgb", raw, out)
    assert (out / "arrays.npz").stat().st_mtime_ns > made and datasets.known("digits_rgb", raw, out) == meta["pixels"]


def test_a_users_own_files_are_prepared_anew_when_they_change(tmp_path, monkeypatch):
    """A set without official files has no checksums: names, sizes and times tell. What it comes from is in its own words."""
    module, raw, out = registry.find("datasets", "digits_rgb"), tmp_path / "raw", tmp_path / "out"
    arrays = module.read(raw)
    monkeypatch.setattr(module, "PIXELS", None)
    monkeypatch.setattr(module, "SOURCE", "my own pictures")
    monkeypatch.setattr(module, "read", lambda folder: tuple(np.load(folder / f"{part}.npy") for part in range(4)))
    folder = raw / "digits_rgb"
    folder.mkdir(parents=True)
    for part, array in enumerate(arrays):
        np.save(folder / f"{part}.npy", array)
    first = datasets.identify("digits_rgb", raw, out)
    made = (out / "arrays.npz").stat().st_mtime_ns
    assert datasets.identify("digits_rgb", raw, out) == first and (out / "arrays.npz").stat().st_mtime_ns == made
    assert describe(datasets.load(out).meta).endswith("(my own pictures)")
    np.save(folder / "0.npy", 255 - arrays[0])
    second = datasets.identify("digits_rgb", raw, out)
    assert second != first and datasets.load(out).meta["identity"] == second
    assert datasets.identify("digits_rgb", raw, out) == second


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    """CONTRIBUTING's recipe for a data set, as it stands there, and arrays for it."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = re.search("## Data of your own.*?```python\n(.*?)```", text, re.DOTALL)[1]
    module = ModuleType("fedrepro.data.datasets.shapes")
    exec(code, module.__dict__)
    names, code_of = registry.names, provenance.dataset_digest
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(registry, "names", lambda kind: [*names(kind), "shapes"])
    monkeypatch.setattr(provenance, "dataset_digest", lambda name: "mine" if name == "shapes" else code_of(name))
    own = tmp_path / "raw/shapes"
    own.mkdir(parents=True)
    draw, (shape, *sizes) = np.random.default_rng(0), module.EXTENT
    arrays = {
        f"{part}_{what}": draw.integers(high, size=(size, *more), dtype=np.uint8)
        for part, size in zip(("train", "test"), sizes, strict=True)
        for what, high, more in (("x", 256, shape), ("y", 2, ()))
    }
    np.savez(own / "shapes.npz", **arrays)
    return arrays


def test_a_file_that_an_option_names_names_the_folder(shapes, tmp_path, monkeypatch):
    """Of other content is another data set."""
    module, file = registry.find("datasets", "shapes"), tmp_path / "names.txt"
    choice = {"name": "shapes", "file": str(file)}
    monkeypatch.setattr(module, "Params", type("Params", (Frozen,), {"__annotations__": {"file": InputFile}}), raising=False)
    keys = {file.write_text(text) and datasets.key(choice) for text in ("round", "square", "round")}
    assert len(keys) == 2


@pytest.mark.parametrize(("changes", "words"), [
    ({"train_x": np.zeros((1000, 28, 28), np.uint8)}, r"train part: images uint8 \(1000, 28, 28\), expected \(N, C, H, W\) "),
    ({"train_x": np.zeros((1000, 1, 28, 28))}, r"images float64 \(1000, 1, 28, 28\), expected \(N, C, H, W\) uint8"),
    ({"train_x": np.zeros((1000, 1, 8, 8), np.uint8)}, r"train part: images \(1, 8, 8\), declared as \(1, 28, 28\)"),
    ({"train_y": np.full(1000, 2)}, r"train part: labels 2\.\.2, expected 0\.\.1"),
    ({"test_y": np.full(200, -1)}, r"test part: labels -1\.\.-1, expected 0\.\.1"),
    ({"train_y": np.zeros((1000, 1), int)}, r"train part: labels int64 \(1000, 1\), expected \(N,\)"),
    ({"train_y": np.full(1000, 0.5)}, r"train part: labels float64 \(1000,\), expected \(N,\) whole numbers"),
    ({"test_x": np.zeros((0, 1, 28, 28), np.uint8), "test_y": np.zeros(0, int)}, "test part: no images"),
    ({"test_x": np.zeros((20, 1, 28, 28), np.uint8), "test_y": np.zeros(20, int)},
     r"\[1000, 20\] train and test images, declared as \[1000, 200\]"),
    (None, r"shapes\.npz: cannot read or write \(No such file"),
], ids=["no channel", "float64", "larger", "from 1", "negative", "column", "halves", "none", "counts", "no file"])  # fmt: skip
def test_a_users_own_data_that_do_not_fit_stay(changes, words, shapes, tmp_path):
    """The message says what was expected, and not to delete what nobody can fetch; the recipe's own data fit."""
    file = tmp_path / "raw/shapes/shapes.npz"
    if changes is None:
        file.unlink()
    else:
        np.savez(file, **shapes | changes)
    for _ in range(2):
        with pytest.raises(UserError, match=words) as told:
            datasets.provide("shapes", tmp_path / "raw", tmp_path / "out")
        assert "delete" not in str(told.value) and "fetch" not in str(told.value)
    np.savez(file, **shapes)
    datasets.provide("shapes", tmp_path / "raw", tmp_path / "out")
    data = datasets.load(tmp_path / "out")
    assert describe(data.meta) == "Shapes (our own pictures)" and np.array_equal(data.test_x, shapes["test_x"])


def test_a_copy_stays_a_copy_when_it_is_prepared_anew(mirror, tmp_path, monkeypatch):
    """Though its mirror is not set any more: from the raw files that lie here; where they do not, it stays as it is."""
    raw, out = tmp_path / "raw", tmp_path / "out"
    datasets.provide("mnist", raw, out, str(mirror))
    before = json.loads((out / "meta.json").read_text(encoding="utf-8"))
    monkeypatch.setattr(_fetch, "download", None)
    monkeypatch.setattr(provenance, "dataset_digest", lambda name: "corrected")
    assert datasets.identify("mnist", raw, out) == before["identity"]
    after = json.loads((out / "meta.json").read_text(encoding="utf-8"))
    assert (after["code"], after["source"]) == ("corrected", "mirror") and datasets.is_copy(out)
    monkeypatch.setattr(provenance, "dataset_digest", lambda name: "once more")
    shutil.rmtree(raw)
    assert datasets.identify("mnist", raw, out) == before["identity"] and datasets.load(out).meta["code"] == "corrected"


@pytest.mark.parametrize(("name", "shape", "counts"), [
    ("digits", (1, 16, 16), (1438, 359)), ("digits_rgb", (3, 16, 16), (1438, 359)), ("digits_100", (1, 16, 16), (6000, 1500)),
])  # fmt: skip
def test_digits_need_no_network(name, shape, counts, tmp_path, monkeypatch):
    monkeypatch.setattr(_fetch, "download", None)
    datasets.fetch(name, tmp_path / "raw")
    meta = datasets.prepare(name, tmp_path / "raw", tmp_path / name)
    data = datasets.load(tmp_path / name)
    assert set(meta) == META_KEYS and data.meta == meta
    assert meta["pixels"] == meta["identity"] == registry.find("datasets", name).PIXELS
    assert (len(data.train_x), len(data.test_x)) == counts == (meta["train"], meta["test"])
    assert tuple(data.train_x.shape[1:]) == shape and data.train_x.dtype == torch.uint8 and data.train_y.dtype == torch.int64
    assert torch.equal(data.test_y.unique(), torch.arange(data.classes))
    assert int(data.train_x.max()) > 240
    assert describe(meta) == f"{meta['title']} (quick scale stand-in)"
    unit = data.train_x.double() / 255
    assert torch.allclose(unit.mean((0, 2, 3)), torch.tensor(meta["mean"], dtype=torch.float64), atol=1e-9)
    assert torch.allclose(unit.std((0, 2, 3), correction=0), torch.tensor(meta["std"], dtype=torch.float64), atol=1e-9)


TINY = {"name": "synthetic", "devices": 3, "train": 40, "test": 20, "side": 8, "hidden": 16}


def drawn(tmp_path, **options):
    raw, out = tmp_path / "raw", tmp_path / datasets.key(choice := TINY | options)
    identity = datasets.identify(choice, raw, out)
    data = datasets.load(out)
    assert data.meta["identity"] == data.meta["pixels"] == identity
    return data


def test_a_drawn_set_with_options(tmp_path):
    data, labels = drawn(tmp_path, beta=0.5), datasets.labels(tmp_path / datasets.key(TINY | {"beta": 0.5}))
    shape, train, test = datasets.extent(TINY)
    assert data.train_x.shape == (train, *shape) == (120, 1, 8, 8) and len(data.test_x) == test == 60
    assert data.train_x.dtype == torch.float32 and datasets.is_real(TINY) and not datasets.is_real("digits")
    assert data.train.owners.tolist() == np.repeat(range(3), 40).tolist()
    assert describe(data.meta) == "synthetic devices (0, 0.5) (drawn here)"
    assert data.train_x.double().mean().item() == pytest.approx(data.meta["mean"][0])
    assert data.train_x.double().std(correction=0).item() == pytest.approx(data.meta["std"][0])
    assert (labels.name, labels.pixels, labels.meta) == ("synthetic", data.pixels, data.meta)
    for mine, whole in ((labels.train, data.train), (labels.test, data.test)):
        assert np.array_equal(mine.labels, whole.labels) and np.array_equal(mine.owners, whole.owners)


def test_declared_checksums_are_those_of_what_is_drawn(tmp_path):
    """The large sets, which take seconds to draw, were drawn for the kept runs."""
    records = kept.runs(Path(__file__).parents[2] / "results/kept/fedmax")
    choices = {record["data"]: record["config"]["dataset"] for run, record in records.items() if run.startswith("synthetic-")}
    identities = {datasets.key(choice): data for data, choice in choices.items()}
    assert len(identities) == 3
    for params, checksum in synthetic.CHECKSUMS.items():
        choice = {"name": "synthetic", **params.model_dump()}
        assert datasets.pinned(choice) == checksum
        if (key := datasets.key(choice)) not in identities:
            datasets.provide(choice, tmp_path / "raw", tmp_path / key)
            identities[key] = datasets.load(tmp_path / key).meta["identity"]
        assert identities[key] == checksum


def test_synthetic_devices_by_their_definition(tmp_path):
    """alpha moves the networks that label, beta the inputs; both only between devices."""
    plain, other, moved = drawn(tmp_path), drawn(tmp_path, alpha=2), drawn(tmp_path, beta=3)
    assert torch.equal(plain.train_x, other.train_x) and not torch.equal(plain.train_y, other.train_y)
    devices = [data.train_x.view(3, 40, 64) for data in (plain, moved)]
    shift = devices[1] - devices[0]  # b of each device, the same for all of its numbers
    assert (shift - shift[:, :1, :1]).abs().max() < 1e-5 and shift[:, 0, 0].unique().numel() == 3
    large = drawn(tmp_path, devices=1, train=4000).train_x.flatten(1).double()
    assert torch.allclose(large.var(0), torch.arange(64).double().clamp(min=1) ** -1.2, rtol=0.2)
    assert large.mean(0).std().item() == pytest.approx(1, rel=0.2)  # v ~ N(0, 1) where beta is 0


def test_synthetic_labels_are_what_a_drawn_network_says(tmp_path):
    data, draw = drawn(tmp_path, alpha=0.5), rng.numpy_generator(0, "synthetic", client=2)
    u, _, _ = draw.normal(0, 0.5), draw.normal(), draw.normal(size=64)
    sizes = ((64, 16), (16,), (16, 10), (10,))
    first, first_bias, second, second_bias = (torch.from_numpy(u + draw.standard_normal(size)) for size in sizes)
    x = data.test_x[40:].flatten(1).double()
    assert torch.equal(((x @ first + first_bias).relu() @ second + second_bias).argmax(1), data.test_y[40:])


def test_options_name_a_folder():
    assert datasets.key("mnist") == datasets.key({"name": "mnist"}) == "mnist"
    keys = {datasets.key(TINY | {"alpha": alpha}) for alpha in (0, 0.5, 1)}
    assert len(keys) == 3 and all(key.startswith("synthetic-") for key in keys)
    assert datasets.key("synthetic") == datasets.key({"name": "synthetic", "alpha": 0.0, "devices": 10})
    with pytest.raises(UserError, match="dataset mnist: alpha: unknown key"):
        datasets.key({"name": "mnist", "alpha": 1})
    with pytest.raises(UserError, match="dataset synthetic: gamma: unknown key: choose from alpha, beta"):
        datasets.key({"name": "synthetic", "gamma": 1})


@pytest.mark.parametrize(("options", "words"), [
    ({"devices": 10**9}, "at most 1073741824 numbers at once"), ({"side": 10**6}, "at most 1073741824 numbers at once"),
    ({"hidden": 10**9}, "at most 1073741824 numbers at once"), ({"train": 10**12}, "at most 1073741824 numbers at once"),
    ({"alpha": 1e308}, "alpha: at most 1e6"), ({"beta": 3e38}, "beta: at most 1e6"),
])  # fmt: skip
def test_a_drawn_set_that_cannot_be_is_refused_before_it_is_drawn(options, words, tmp_path):
    with pytest.raises(UserError, match=f"dataset synthetic: .*{words}"):
        datasets.identify(TINY | options, tmp_path / "raw", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_largest_spreads_stay_finite(tmp_path):
    data = drawn(tmp_path, alpha=1e6, beta=1e6)
    assert data.train_x.isfinite().all() and len(data.train_y.unique()) > 1


@pytest.mark.parametrize(("place", "wrong", "words"), [
    (0, np.full((120, 1, 8, 8), np.nan, np.float32), "train part: not all numbers are finite"),
    (0, np.zeros((120, 1, 8, 8), np.uint8), "train part: images uint8"),
    (5, np.zeros(59, int), "test part: 60 images but 59 owners"),
], ids=["nan", "bytes", "owners"])  # fmt: skip
def test_drawn_arrays_that_cannot_be(place, wrong, words, tmp_path, monkeypatch):
    module = registry.find("datasets", "synthetic")
    arrays = list(module.read(tmp_path, registry.settings("datasets", TINY)))
    arrays[place] = wrong
    monkeypatch.setattr(module, "read", lambda raw, params: tuple(arrays))
    with pytest.raises(UserError, match=f"synthetic, {words}"):
        datasets.identify(TINY, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_first_classes_of_cifar100(tmp_path):
    write_all(tmp_path / "mirror" / cifar100.FOLDER, {
        part: pickle.dumps(cifar_batch(count, b"fine_labels", 100)) for part, count in (("train", 230), ("test", 130))
    })  # fmt: skip
    for name in ("cifar100", "cifar100_20"):
        declare(tmp_path / "mirror", name)
    wholes, firsts = ([], [])
    for name, found in (("cifar100", wholes), ("cifar100_20", firsts)):
        raw, out = ready(name, tmp_path, tmp_path / "mirror")
        datasets.prepare(name, raw, out)
        data = datasets.load(out)
        found += [(data.train_x, data.train_y), (data.test_x, data.test_y)]
        assert data.classes == len(data.meta["class_names"]) == (100 if name == "cifar100" else 20)
    for (images, labels), (first_images, first_labels) in zip(wholes, firsts, strict=True):
        assert torch.equal(first_images, images[labels < 20]) and torch.equal(first_labels, labels[labels < 20])
        assert sorted(set(first_labels.tolist())) == list(range(20))
    assert [path.name for path in raw.iterdir() if path.is_dir()] == ["cifar100"]  # fetched once


def test_pairs_never_share_a_digit_between_train_and_test(tmp_path):
    from fedrepro.data.datasets import digits, digits_100

    parts = dict(zip(("train", "test"), digits_100.read(tmp_path)[::2], strict=True))
    pool = dict(zip(("train", "test"), digits.split()[::2], strict=True))
    bank = {part: {x.tobytes() for x in images} for part, images in pool.items()}
    assert not bank["train"] & bank["test"]
    for part, images in parts.items():
        halves = np.concatenate([images[:, 0, ::2, :8], images[:, 0, ::2, 8:]])
        assert {np.ascontiguousarray(x).tobytes() for x in halves} <= bank[part]


def test_loading_needs_the_training_core_only(tmp_path):
    datasets.fetch("digits", tmp_path / "raw")
    datasets.prepare("digits", tmp_path / "raw", tmp_path / "out")
    code = (
        "import sys; from pathlib import Path; from fedrepro.data import datasets; datasets.labels(Path(sys.argv[1]));"
        "assert 'torch' not in sys.modules; datasets.load(Path(sys.argv[1]));"
        "print([m for m in ('torchvision', 'sklearn', 'requests', 'PIL', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "out"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Mirrors and formats


def test_official_release_is_recognised_by_its_pixels_or_its_files(mirror, tmp_path, monkeypatch):
    raw, out = ready("mnist", tmp_path, mirror)
    pixels = datasets.prepare("mnist", raw, out)["pixels"]
    assert datasets.is_copy(out)
    (mirror / "release.json").unlink()
    shutil.rmtree(raw)
    datasets.fetch("mnist", raw, str(mirror))
    monkeypatch.setattr(mnist, "PIXELS", pixels)
    assert describe(datasets.prepare("mnist", raw, out)) == "MNIST (official release)" and not datasets.is_copy(out)
    files = tuple(_fetch.File(name, ("http://localhost:1/",), md5(data)) for name, data in mnist_files().items())
    monkeypatch.setattr(mnist, "PIXELS", None)
    monkeypatch.setattr(mnist, "FILES", files)
    expected = datasets.identify("mnist", raw, tmp_path / "nothing")
    meta = datasets.prepare("mnist", raw, out)
    assert meta["official"] and meta["identity"] == expected != meta["pixels"] == pixels


def test_a_copy_from_a_folder_is_prepared_to_the_same_bytes_again(mirror, tmp_path, caplog):
    raw, out = ready("mnist", tmp_path, mirror)
    meta = datasets.prepare("mnist", raw, out)
    assert meta["source"] == "mirror" and not meta["official"] and meta["identity"] == meta["pixels"]
    assert "[20, 10] train and test images, declared as [60000, 10000]" in caplog.text
    assert datasets.load(out).train_y.tolist() == [k % 10 for k in range(20)]
    first = (out / "arrays.npz").read_bytes()
    (out / "keep.txt").write_text("mine")
    shutil.rmtree(mirror)
    assert datasets.fetch("mnist", raw, str(mirror)) == raw / "mnist"  # complete: the mirror is not asked again
    datasets.prepare("mnist", raw, out)
    assert (out / "arrays.npz").read_bytes() == first
    assert sorted(path.name for path in out.iterdir()) == ["arrays.npz", "keep.txt", "meta.json"]
    assert sorted(path.name for path in out.parent.iterdir()) == [".mnist.lock", "mnist"]


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("packed", [True, False])
def test_cifar_batches_loose_and_in_an_archive(protocol, packed, tmp_path):
    files, mirror = cifar10_files(protocol), tmp_path / "mirror"
    if packed:
        mirror.mkdir()
        tar_gz(mirror / cifar10.ARCHIVE, {f"{cifar10.FOLDER}/{name}": data for name, data in files.items()})
    else:
        write_all(mirror / cifar10.FOLDER, files)
    raw, out = ready("cifar10", tmp_path, mirror)
    assert datasets.prepare("cifar10", raw, out)["shape"] == [3, 32, 32]
    data = datasets.load(out)
    assert len(data.train_x) == 4 + 5 + 6 + 7 + 8 and len(data.test_x) == 9
    batches = [cifar_batch(count) for count in (4, 5, 6, 7, 8, 9)]
    (*train, test), (*train_labels, test_labels) = ([batch[key] for batch in batches] for key in (b"data", b"labels"))
    assert np.array_equal(data.test_x.numpy().reshape(9, -1), test) and data.test_y.tolist() == test_labels
    assert np.array_equal(data.train_x.numpy().reshape(30, -1), np.concatenate(train))
    assert data.train_y.tolist() == sum(train_labels, [])


def test_pickles_of_python_2_and_both_numpys_are_read():
    # what python 2 and numpy 1 wrote into the official batches, opcode by opcode
    python2 = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq\x05"
        b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U\x06\x00\x01\x02\x03\xfe\xfftbU\x06labelsq\x08]q\x09(K\x00K\x01eu."
    )
    record = _formats.unpickle(python2, "batch")
    assert record[b"labels"] == [0, 1] and record[b"data"].tolist() == [[0, 1, 2], [3, 254, 255]]
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    data = pickle.dumps({b"data": array, "bytes": b"\xff"}, 2)
    for home in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        moved = data.replace(b"numpy._core.multiarray", home)
        assert np.array_equal(_formats.unpickle(moved, "batch")[b"data"], array)


def test_emnist_letters_stand_upright_start_at_zero_and_may_be_padded(tmp_path):
    images, raw = np.random.default_rng(0).integers(0, 256, (26, 28, 28)).astype(np.uint8), tmp_path / "raw"
    (tmp_path / "emnist").mkdir()
    with zipfile.ZipFile(tmp_path / "emnist/gzip.zip", "w") as archive:
        for part in ("train", "test"):
            stem = f"gzip/emnist-letters-{part}"
            archive.writestr(f"{stem}-images-idx3-ubyte.gz", gzip.compress(idx_bytes(images)))
            archive.writestr(f"{stem}-labels-idx1-ubyte.gz", gzip.compress(idx_bytes(np.arange(1, 27))))
    declare(tmp_path, "emnist_letters")
    datasets.provide("emnist_letters", raw, tmp_path / "out", str(tmp_path))
    data, padded = datasets.load(tmp_path / "out"), emnist_letters.read(raw / "emnist_letters", emnist_letters.Params(pad=2))
    assert data.train_y.tolist() == padded[1].tolist() == list(range(26)) and data.classes == 26
    assert np.array_equal(data.train_x[:, 0].numpy(), images.transpose(0, 2, 1))
    assert np.array_equal(padded[0], np.pad(data.train_x.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2))))
    choices = ("emnist_letters", {"name": "emnist_letters", "pad": 2})
    assert [datasets.extent(choice)[0] for choice in choices] == [(1, 28, 28), (1, 32, 32)]
    assert len({datasets.pinned(choice) for choice in choices}) == 2


@pytest.mark.parametrize("keys", [("images", "labels"), ("x", "y")])
def test_pneumonia_joins_train_and_val(keys, tmp_path):
    folder = tmp_path / "mirror" / "pneumonia28"
    folder.mkdir(parents=True)
    arrays = {}
    for part, count in (("train", 4), ("val", 3), ("test", 2)):
        arrays[f"{part}_{keys[0]}"] = np.full((count, 28, 28), count, np.uint8)
        arrays[f"{part}_{keys[1]}"] = np.arange(count, dtype=np.uint8)[:, None] % 2  # MedMNIST stores a column
    np.savez_compressed(folder / "pneumoniamnist.npz", **arrays)
    raw, out = ready("pneumonia", tmp_path, tmp_path / "mirror")
    datasets.prepare("pneumonia", raw, out)
    data = datasets.load(out)
    assert data.train_x[:, 0, 0, 0].tolist() == [4] * 4 + [3] * 3 and data.train_y.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert data.test_x.shape == (2, 1, 28, 28)


def xray_tree(root: Path) -> Path:
    for part in ("train", "test", "val"):
        for value, name in ((10, "NORMAL"), (200, "PNEUMONIA")):
            folder = root / part / name
            folder.mkdir(parents=True)
            for k in range(2):
                Image.new("RGB", (90, 70), (value + k,) * 3).save(folder / f"{k}.png")
            (folder / ".DS_Store").write_text("no image")
    return root


@pytest.mark.parametrize("place", ["mirror", "raw"])
def test_class_folders_from_where_the_user_unpacked_them(place, tmp_path):
    """Those of a mirror where they are elsewhere in part: nothing is mixed."""
    part = tmp_path / "raw/chest_xray/train/NORMAL"
    part.mkdir(parents=True)
    Image.new("RGB", (90, 70), (99,) * 3).save(part / "9.png")
    if place == "raw":
        shutil.rmtree(part.parents[1])
    xray_tree(tmp_path / place / "chest_xray")
    raw, out = ready("chest_xray", tmp_path, tmp_path / "mirror")
    meta = datasets.prepare("chest_xray", raw, out)
    data = datasets.load(out)
    assert data.train_x[:, 0, 0, 0].tolist() == [10, 11, 200, 201] * 2 and data.test_x.shape == (4, 1, 64, 64)
    assert data.test_y.tolist() == [0, 0, 1, 1]
    assert describe(meta).endswith("(user's copy, not checked against the official release)")


def test_class_folders_without_pictures(tmp_path):
    message = assert_fails("chest_xray", tmp_path, tmp_path / "mirror", "train/NORMAL", "kaggle.com", "chest_xray")
    assert str(tmp_path / "mirror") in message
    empty = xray_tree(tmp_path / "raw" / "chest_xray") / "test" / "NORMAL"
    for path in empty.iterdir():
        path.unlink()
    assert_fails("chest_xray", tmp_path, tmp_path / "mirror", str(empty), "no .jpeg")


def test_class_folders_of_another_size_and_pooled(tmp_path, monkeypatch):
    monkeypatch.setattr(chest_xray, "held_out", lambda labels, share, purpose: np.isin(np.arange(len(labels)), (1, 7)))
    xray_tree(tmp_path / "mirror" / "chest_xray")
    choice = {"name": "chest_xray", "size": 20, "pooled": True}
    datasets.fetch(choice, tmp_path / "raw", str(tmp_path / "mirror"))
    datasets.prepare(choice, tmp_path / "raw", tmp_path / "out")
    data = datasets.load(tmp_path / "out")
    assert data.train_x.shape == (10, 1, 20, 20) and data.test_y.tolist() == [0, 1]


def test_a_share_of_each_class_is_held_out():
    labels = np.repeat([0, 1, 3], [100, 39, 7])
    test = _image_folders.held_out(labels, 0.15, "a split")
    assert np.bincount(labels[test], minlength=4).tolist() == [15, 5, 0, 1]
    assert np.array_equal(test, _image_folders.held_out(labels, 0.15, "a split"))
    assert not np.array_equal(test, _image_folders.held_out(labels, 0.15, "another"))
    assert not test[:15].all()  # at random


@pytest.mark.parametrize(("module", "options", "counts"), [
    (chest_xray, {"pooled": True}, [1583, 4273]),
    (aptos, {}, np.add([1805, 370, 999, 193, 295], [25810, 2443, 5292, 873, 708])),
], ids=["chest_xray", "aptos"])  # fmt: skip
def test_the_sizes_that_are_planned_with(module, options, counts):
    """From the releases' counts of each class; the paper's totals."""
    test = _image_folders.held_out(np.repeat(range(len(counts)), counts), 0.15, "sizes").sum()
    assert module.extent(module.Params(**options))[1:] == (sum(counts) - test, test)
    assert sum(counts) == {chest_xray: 5856, aptos: 38_788}[module]


GRADES = {"aptos2019": [0, 1, 2, 3, 4, 0], "retinopathy": [4, 3, 2, 1, 0, 0, 0, 0]}


def retinas(root: Path, grades: dict = GRADES) -> Path:
    """Both sources: a red square of 20 pixels on black pictures of 60 x 40, brighter the worse the grade."""
    for name, (table, columns, inner) in aptos.SOURCES.items():
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


def of_retinas(tmp_path):
    choice = {"name": "aptos", "size": 10}
    datasets.fetch(choice, tmp_path / "raw", str(tmp_path / "mirror"))
    datasets.prepare(choice, tmp_path / "raw", tmp_path / "out")
    return datasets.load(tmp_path / "out")


def test_retinas_of_two_sources(tmp_path, monkeypatch):
    held = np.arange(14) % 4 == 3
    monkeypatch.setattr(aptos, "held_out", lambda labels, share, purpose: held)
    retinas(tmp_path / "mirror")
    data = of_retinas(tmp_path)
    labels = np.array([grade for grades in GRADES.values() for grade in grades])
    assert data.train_y.tolist() == labels[~held].tolist() and data.test_y.tolist() == labels[held].tolist()
    assert data.train_x.shape == (11, 3, 10, 10) and (data.train_x[:, 1:] == 0).all()
    assert data.train_x[:, 0].flatten(1).min(1).values.tolist() == (50 + 40 * labels[~held]).tolist()  # nothing but the eye
    assert "not checked against the official release" in describe(data.meta)


def test_an_eye_beyond_the_picture_or_none():
    wide = Image.new("RGB", (60, 20), (9, 9, 9))
    assert aptos.eye(wide).size == (60, 60) and np.asarray(aptos.eye(wide))[:20].max() == 0
    dark = Image.new("RGB", (30, 20))
    assert aptos.eye(dark).size == (30, 20)


def test_retinas_that_are_not_there_or_broken(tmp_path, monkeypatch):
    monkeypatch.setattr(aptos, "held_out", lambda labels, share, purpose: np.arange(len(labels)) % 4 == 3)
    mirror = tmp_path / "mirror"
    mirror.mkdir()

    def fails(*words):
        shutil.rmtree(tmp_path / "raw", ignore_errors=True)
        with pytest.raises(UserError) as caught:
            of_retinas(tmp_path)
        assert "\n" not in str(caught.value) and all(word in str(caught.value) for word in words), str(caught.value)
        assert not (tmp_path / "out").exists() and not leftovers(tmp_path)
        return caught.value

    assert isinstance(fails("aptos2019/train_images", "kaggle.com", "retinopathy"), Unavailable)
    folder = retinas(mirror)
    for text, words in (
        ("id_code,grade\n0_left,1\n", "train.csv: no column diagnosis"),
        ("id_code,diagnosis\n", "train.csv: no rows"),
        ("id_code,diagnosis\n0_left,\n", "train.csv: 0_left: expected a class 0 to 4 (got )"),
    ):
        (folder / "aptos2019" / "train.csv").write_text(text)
        fails(words)
    (folder / "aptos2019" / "train.csv").unlink()
    fails("train.csv: not there")
    shutil.rmtree(folder)
    retinas(mirror, {"aptos2019": [0, 1, 2], "retinopathy": [0, 4]})
    fails("no picture of grade 3 (severe)")
    monkeypatch.undo()
    shutil.rmtree(folder)
    retinas(mirror)
    fails("mirror/aptos: no class has the 7 images")


@pytest.fixture
def few_retinas(monkeypatch):
    monkeypatch.setattr(aptos, "held_out", lambda labels, share, purpose: np.arange(len(labels)) % 4 == 3)


@pytest.mark.parametrize("place", ["mirror", "raw"])
def test_retinas_as_kaggle_and_a_file_manager_leave_them(place, few_retinas, tmp_path):
    """One folder deeper, with notes beside the pictures and in a folder, and tables that Excel has saved: the same pixels."""
    retinas(tmp_path / "plain" / "mirror")
    plain, root = of_retinas(tmp_path / "plain"), retinas(tmp_path / place)
    for name, (table, _, inner) in aptos.SOURCES.items():
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
    data = of_retinas(tmp_path)
    assert torch.equal(data.train_x, plain.train_x) and torch.equal(data.test_x, plain.test_x)
    assert data.meta["pixels"] == plain.meta["pixels"]


def test_all_faults_of_the_tables_and_of_the_pictures_are_told_at_once(few_retinas, tmp_path):
    root = retinas(tmp_path / "raw", {"aptos2019": [0, 1, 2, 3, 4, 0], "retinopathy": [0] * 30})
    table = root / "aptos2019" / "train.csv"
    whole = table.read_text()
    table.write_text(f"{whole}0_left,4\n9_left,1\n1_left,7\n")
    with pytest.raises(UserError) as tables:
        of_retinas(tmp_path)
    for words in ("0_left: listed as class 0 and as class 4", "no picture 9_left", "1_left: expected a class 0 to 4 (got 7)"):
        assert words in str(tables.value)
    table.write_text(whole)
    for place in range(20):
        (root / "retinopathy" / "resized_train" / f"{place}_left.png").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"0_left\.png: truncated.*and 12 more; mend it and run again") as pictures:
        of_retinas(tmp_path)
    assert str(pictures.value).count("truncated or damaged") == 8


def test_what_changes_behind_a_link_to_a_folder_is_noticed(few_retinas, tmp_path):
    root = retinas(tmp_path / "raw")
    folder = root / "aptos2019" / "train_images"
    folder.rename(tmp_path / "disk")
    folder.symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "ring").symlink_to(root)
    before, raw = of_retinas(tmp_path), tmp_path / "raw" / "aptos"
    (tmp_path / "disk" / ".DS_Store").write_bytes(b"a note")
    assert not _fetch.changed(raw)
    Image.new("RGB", (60, 40), (9, 9, 9)).save(tmp_path / "disk" / "0_left.png")
    choice = {"name": "aptos", "size": 10}
    assert _fetch.changed(raw) and datasets.identify(choice, tmp_path / "raw", tmp_path / "out") != before.meta["identity"]


def test_preparing_pictures_holds_them_once(tmp_path):
    """Of 38,788 retinas of 256 x 256 pixels a second copy is 7 GiB."""
    retinas(tmp_path / "raw", {"aptos2019": [0, 1, 2, 3, 4], "retinopathy": [0] * 195})
    choice = {"name": "aptos", "size": 256}
    datasets.fetch(choice, tmp_path / "raw")
    tracemalloc.start()
    datasets.prepare(choice, tmp_path / "raw", tmp_path / "out")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * 3 * 256 * 256 + (20 << 20)  # numpy hands 16 MiB at a time to the archive


def test_grey_pictures_of_16_bits(tmp_path):
    """Scaled to the same bytes as the picture in 8 bits; refused where they may be of 12."""
    ramp = np.tile(np.arange(4, 256, 4, dtype=np.uint8), (63, 1))
    tree = xray_tree(tmp_path / "raw" / "chest_xray")
    Image.fromarray(ramp).save(tree / "train" / "NORMAL" / "0.png")
    Image.fromarray(ramp.astype(np.uint16) * 257).save(tree / "train" / "NORMAL" / "1.png")
    choice = {"name": "chest_xray", "size": 63}
    datasets.provide(choice, tmp_path / "raw", tmp_path / "out")
    images = datasets.load(tmp_path / "out").train_x
    assert torch.equal(images[0], images[1]) and images[0, 0].tolist() == ramp.tolist()
    Image.fromarray(ramp.astype(np.uint16) * 16).save(tree / "train" / "NORMAL" / "1.png")
    with pytest.raises(UserError, match=r"NORMAL/1\.png: grey values from 64 to 4032, of which the range is not known"):
        datasets.prepare(choice, tmp_path / "raw", tmp_path / "out")


@pytest.mark.parametrize(("name", "advice"), [
    ("mnist", "mend it in the data mirror and run again"), ("chest_xray", "mend it and run again"),
])  # fmt: skip
def test_a_mirror_that_was_mended_is_read_again_by_the_same_command(name, advice, mirror, tmp_path):
    """Not a page that it had served before in the place of a file."""
    xray_tree(mirror / "chest_xray")
    broken = {"mnist": mirror / "mnist" / IMAGES, "chest_xray": mirror / "chest_xray/train/NORMAL/0.png"}[name]
    whole = broken.read_bytes()
    broken.write_bytes(b"<html>Sign in</html>")
    for _ in range(2):
        with pytest.raises(UserError, match=f"{broken.name}: truncated or damaged.*; {advice}"):
            datasets.provide(name, tmp_path / "raw", tmp_path / "out", str(mirror))
    broken.write_bytes(whole)
    datasets.provide(name, tmp_path / "raw", tmp_path / "out", str(mirror))
    assert datasets.load(tmp_path / "out").meta["name"] == name


def test_class_folders_of_a_mirror_that_is_gone(tmp_path):
    """What was prepared from them stays."""
    raw, out, mirror = tmp_path / "raw", tmp_path / "out", tmp_path / "mirror"
    xray_tree(mirror / "chest_xray")
    first = datasets.identify("chest_xray", raw, out, str(mirror))
    shutil.rmtree(mirror)
    assert datasets.identify("chest_xray", raw, out, str(mirror)) == first
    with pytest.raises(Unavailable):
        datasets.fetch("chest_xray", raw, str(mirror))


# Identity


def test_identity_without_prepared_data_touches_no_network(tmp_path, monkeypatch):
    monkeypatch.setattr(_fetch, "download", None)
    assert datasets.identify("mnist", tmp_path, tmp_path / "out") == mnist.PIXELS
    digest = datasets.identify("cifar10", tmp_path, tmp_path / "out")
    assert len(digest) == 64 and digest != datasets.identify("fashion_mnist", tmp_path, tmp_path / "out")
    assert (
        datasets.identify("digits", tmp_path, tmp_path / "out", "http://localhost:1")
        == registry.find("datasets", "digits").PIXELS
    )
    assert list(tmp_path.iterdir()) == []


def test_one_pixel_or_label_changes_the_identity():
    arrays = tuple(np.zeros(shape, t) for shape, t in zip([(2, 1, 2, 2), (2,)] * 2, (np.uint8, np.int64) * 2, strict=True))
    seen = {datasets._prepared.pixels(arrays)}
    for k in range(4):
        changed = [a.copy() for a in arrays]
        changed[k].flat[-1] = 1
        seen.add(datasets._prepared.pixels(tuple(changed)))
    assert len(seen) == 5


# Files that are not what they should be


def replaced(name: str, data: bytes) -> dict[str, bytes]:
    return mnist_files() | {name: data}


LABELS = "train-labels-idx1-ubyte.gz"
BAD_MNIST = {
    "truncated gz": (IMAGES, damage(mnist_files()[IMAGES]), "truncated"),
    "not gz": (IMAGES, b"<html>not found</html>", "truncated or damaged"),
    "empty": (IMAGES, b"", "not an IDX file"),
    "wrong magic": (IMAGES, gzip.compress(b"\0\0\x0d\x03" + bytes(12)), "not an IDX file"),
    "absurd size": (IMAGES, gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12), "4294967295 x"),
    "short": (IMAGES, gzip.compress(idx_bytes(np.zeros((20, 28, 28)))[:-1]), "fewer bytes"),
    "long": (IMAGES, gzip.compress(idx_bytes(np.zeros((20, 28, 28))) + b"x"), "more bytes"),
    "label out of range": (LABELS, gzip.compress(idx_bytes(np.full(20, 10))), "labels 10..10, expected 0..9"),
    "count mismatch": (LABELS, gzip.compress(idx_bytes(np.zeros(19))), "20 images but 19 labels"),
    "no images": (LABELS, gzip.compress(idx_bytes(np.zeros(0))), "20 images but 0 labels"),
}


@pytest.mark.parametrize("case", BAD_MNIST)
def test_damaged_idx(case, mirror, tmp_path):
    name, data, words = BAD_MNIST[case]
    write_all(mirror / "mnist", {name: data})
    message = assert_fails("mnist", tmp_path, mirror, words, "fetch")
    assert (name if name == IMAGES else "train part") in message


@pytest.mark.parametrize("gone", [True, False])
def test_raw_file_changed_after_fetching(gone, mirror, tmp_path):
    raw, out = ready("mnist", tmp_path, mirror)
    path = raw / "mnist" / IMAGES
    path.unlink() if gone else path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(UserError, match=rf"{IMAGES}: changed or gone since it was fetched; start again"):
        datasets.prepare("mnist", raw, out)
    assert not (raw / "mnist/source.json").exists()  # which is all that Snakemake asks for: it fetches again
    ready("mnist", tmp_path, mirror)
    assert datasets.prepare("mnist", raw, out)["train"] == 20


def test_preparing_before_fetching(tmp_path):
    with pytest.raises(UserError, match="raw files missing or incomplete; fetch"):
        datasets.prepare("mnist", tmp_path / "raw", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_incomplete_mirror_names_the_file_and_leaves_none(mirror, tmp_path):
    (mirror / "mnist" / LABELS).unlink()
    assert_fails("mnist", tmp_path, mirror, str(mirror / "mnist" / LABELS), "is not there", "FEDREPRO_DATA_MIRROR")
    assert list((tmp_path / "raw" / "mnist").iterdir()) == []


def test_truncated_archives(tmp_path):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    tar_gz(mirror / cifar10.ARCHIVE, {f"{cifar10.FOLDER}/{name}": data for name, data in cifar10_files().items()})
    write_all(mirror, {cifar10.ARCHIVE: damage((mirror / cifar10.ARCHIVE).read_bytes())})
    assert_fails("cifar10", tmp_path, mirror, cifar10.ARCHIVE, "truncated or damaged")
    write_all(mirror / "emnist", {"gzip.zip": b"PK\x03\x04" + bytes(50)})
    assert_fails("emnist_letters", tmp_path, mirror, "gzip.zip", "truncated or damaged")
    buffer = io.BytesIO()
    np.savez(buffer, train_images=np.zeros((5, 28, 28), np.uint8))
    write_all(mirror / "pneumonia28", {"pneumoniamnist.npz": damage(buffer.getvalue())})
    assert_fails("pneumonia", tmp_path, mirror, "pneumoniamnist.npz", "truncated or damaged")
    shutil.rmtree(tmp_path / "raw")
    write_all(mirror / "pneumonia28", {"pneumoniamnist.npz": buffer.getvalue()})
    assert_fails("pneumonia", tmp_path, mirror, "no array val_images or val_x", "train_images")


def test_archive_cannot_write_outside_or_smuggle_links(tmp_path):
    mirror, files = tmp_path / "mirror", {f"{cifar10.FOLDER}/{name}": data for name, data in cifar10_files().items()}
    mirror.mkdir()
    tar_gz(mirror / cifar10.ARCHIVE, files | {"../../evil": b"x", str(tmp_path / "evil"): b"x"}, {"link": "/etc/passwd"})
    raw, out = ready("cifar10", tmp_path, mirror)
    datasets.prepare("cifar10", raw, out)
    assert not list(tmp_path.rglob("evil")) and not list(tmp_path.rglob("link"))
    shutil.rmtree(tmp_path / "raw")
    shutil.rmtree(tmp_path / "prepared")
    test = f"{cifar10.FOLDER}/{cifar10.TEST}"
    tar_gz(mirror / cifar10.ARCHIVE, {name: data for name, data in files.items() if name != test}, {test: "/etc/passwd"})
    assert_fails("cifar10", tmp_path, mirror, cifar10.ARCHIVE, test, "is a link")
    shutil.rmtree(tmp_path / "raw")
    tar_gz(mirror / cifar10.ARCHIVE, {name: data for name, data in files.items() if name != test})
    assert_fails("cifar10", tmp_path, mirror, cifar10.ARCHIVE, test, "is not in it")


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_pickles_that_run_code_are_refused(protocol, tmp_path):
    mirror, mark = tmp_path / "mirror", tmp_path / "mark"
    for evil in (Evil(os.mkdir, str(mark)), Evil(eval, "1"), Evil(np.load, "x"), Evil(getattr, "x", "y")):
        data = pickle.dumps({b"data": evil, b"labels": []}, protocol)
        write_all(mirror / cifar10.FOLDER, cifar10_files() | {"data_batch_3": data})
        shutil.rmtree(tmp_path / "raw", ignore_errors=True)
        assert_fails("cifar10", tmp_path, mirror, "data_batch_3", "pickle asks for", "refused")
    assert not mark.exists()


ARRAY = (
    b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntC\x01btR(I1\n(I2\nI3072\nt"
    b"cnumpy\ndtype\n(X\x02\x00\x00\x00%sI0\nI1\ntR%sI00\n%stb"
)
PLAIN, SIX = b"(I3\nX\x01\x00\x00\x00|NNNI-1\nI-1\nI0\ntb", b"C\x06abcdef"
HOSTILE = {
    "an array made by ndarray, over no memory of its own": b"cnumpy\nndarray\n((I1000000\ntX\x02\x00\x00\x00u1"
    b"NI0\n(I1000000000\nttR",
    "an array's state with too few bytes": ARRAY % (b"u1", PLAIN, SIX),
    "an array of objects": ARRAY % (b"O8", PLAIN, b"]"),
    "a type whose state says that it holds objects": ARRAY
    % (b"u1", b"(I3\nX\x01\x00\x00\x00|(cnumpy\ndtype\n(X\x02\x00\x00\x00O8tRttNNI8\nI8\nI63\ntb", SIX),
    "a new ndarray": b"cnumpy\nndarray\n(I5\nt\x81",
    "a function with a state": b"cnumpy\ndtype\n}X\x01\x00\x00\x00xI1\nsb",
    "a type where an array is expected": b"cnumpy\ndtype\n(X\x02\x00\x00\x00u1tR",
}


@pytest.mark.parametrize("title", HOSTILE)
def test_what_a_hostile_batch_asks_for_is_not_done(title):
    """In a process of its own: it may crash."""
    batch = b"\x80\x03}C\x04data" + HOSTILE[title] + b"sC\x06labels]I0\naI1\nas."
    code = "import sys; from fedrepro.data.datasets import _formats; from fedrepro.core.errors import UserError\n"
    code += f"try: _formats._cifar_batch({batch!r}, 'labels', 'it')\nexcept UserError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.startswith("it: not in the expected format"), done


def test_every_flipped_bit_of_an_archive_is_noticed(tmp_path):
    files = {f"{cifar10.FOLDER}/{name}": data for name, data in cifar10_files().items()}
    tar_gz(tmp_path / "whole.tar.gz", files | {"last": b"\0" * 5000})
    whole, draw = (tmp_path / "whole.tar.gz").read_bytes(), np.random.default_rng(0)
    assert _formats.tar_members(tmp_path / "whole.tar.gz", list(files)) == files
    places = [
        len(whole) - 6,
        len(whole) - 2,
        *draw.integers(10, len(whole), 30),
    ]  # the header's ten bytes say nothing of the data
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(draw.integers(8))
        (tmp_path / "flipped.tar.gz").write_bytes(flipped)
        with pytest.raises(UserError, match="flipped.tar.gz: "):
            _formats.tar_members(tmp_path / "flipped.tar.gz", list(files))


@pytest.mark.parametrize(("batch", "words"), [
    (b"garbage", "not in the expected format"),
    (pickle.dumps(cifar_batch(5))[:-900], "truncated or damaged|not in the expected format"),
    (pickle.dumps([1, 2]), "not in the expected format"),
    (pickle.dumps({b"data": cifar_batch(5)[b"data"]}), "labels"),
    (pickle.dumps({b"data": cifar_batch(5)[b"data"], b"labels": [0]}), "expected 1 x 3072 bytes"),
    (pickle.dumps({b"data": cifar_batch(5)[b"data"], b"labels": [[0, 1]] * 5}), r"expected 5 labels, found \(5, 2\)"),
    (pickle.dumps({b"data": cifar_batch(5)[b"data"], b"labels": [[0, 1], [0]]}), "not in the expected format"),
    (pickle.dumps({b"data": cifar_batch(5)[b"data"], b"labels": 5}), "not in the expected format"),
    (pickle.dumps({b"data": cifar_batch(5)[b"data"] / 2, b"labels": [0] * 5}), "expected 5 x 3072 bytes, found float64"),
])  # fmt: skip
def test_damaged_cifar_batches(batch, words, tmp_path):
    write_all(tmp_path / "mirror" / cifar10.FOLDER, cifar10_files() | {"data_batch_2": batch})
    with pytest.raises(UserError, match=rf"data_batch_2.*({words})"):
        datasets.prepare("cifar10", ready("cifar10", tmp_path, tmp_path / "mirror")[0], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_npz_of_objects_is_not_unpickled(tmp_path):
    folder = tmp_path / "mirror" / "pneumonia28"
    folder.mkdir(parents=True)
    evil = np.array([Evil(os.mkdir, str(tmp_path / "mark"))], dtype=object)
    parts = [f"{part}_{key}" for part in ("train", "val", "test") for key in ("images", "labels")]
    np.savez(folder / "pneumoniamnist.npz", **dict.fromkeys(parts, evil))
    assert_fails("pneumonia", tmp_path, tmp_path / "mirror", "pneumoniamnist.npz", "allow_pickle")
    assert not (tmp_path / "mark").exists()


def test_unwritable_folders(mirror, tmp_path):
    blocker = tmp_path / "blocker"  # a file where a folder is needed stops even root
    blocker.write_text("")
    with pytest.raises(UserError, match=r"blocker.*cannot read or write \(.*check permissions"):
        datasets.fetch("mnist", blocker, str(mirror))
    raw, _ = ready("mnist", tmp_path, mirror)
    with pytest.raises(UserError, match=r"blocker.*cannot read or write \(.*check permissions"):
        datasets.prepare("mnist", raw, blocker / "mnist")


def test_arrays_that_are_not_those_that_were_prepared(mirror, tmp_path):
    """Other labels, fewer images, other pixels."""
    raw, out = ready("mnist", tmp_path, mirror)
    datasets.prepare("mnist", raw, out)
    with np.load(out / "arrays.npz") as file:
        whole = dict(file)
    for name, array in (
        ("train_y", whole["train_y"][::-1]), ("test_y", whole["test_y"][:-1]), ("train_x", 255 - whole["train_x"])
    ):  # fmt: skip
        np.savez(out / "arrays.npz", **whole | {name: array})
        with pytest.raises(UserError, match=r"arrays\.npz: .*not what meta.json says.*prepare the data set again"):
            datasets.load(out)
        if name != "train_x":
            with pytest.raises(UserError, match=name):
                datasets.labels(out)


@pytest.mark.parametrize("text", ("", "{", "{}", "[]", "[" * 100000))
def test_what_is_prepared_is_missing_or_damaged(mirror, tmp_path, text):
    raw, out = ready("mnist", tmp_path, mirror)
    with pytest.raises(UserError, match=r"meta\.json: not there; prepare"):
        datasets.load(out)
    datasets.prepare("mnist", raw, out)
    (out / "arrays.npz").write_bytes(damage((out / "arrays.npz").read_bytes()))
    with pytest.raises(UserError, match=r"arrays\.npz: truncated or damaged.*prepare the data set again"):
        datasets.load(out)
    (out / "meta.json").write_text(text)
    for read in (datasets.load, datasets.labels, lambda out: datasets.identify("mnist", raw, out)):
        with pytest.raises(UserError, match=r"meta\.json: damaged.*delete the folder"):
            read(out)


def test_what_a_killed_one_left_goes(tmp_path):
    raw, out = tmp_path / "raw", tmp_path / "prepared" / "digits"
    datasets.fetch("digits", raw)
    write_all(out.with_name(".digits.part"), {"arrays.npz": b"half of it"})
    assert leftovers(tmp_path)
    datasets.prepare("digits", raw, out)
    assert not leftovers(tmp_path) and datasets.load(out).classes == 10


def test_two_that_need_the_same_data_prepare_them_once(tmp_path):
    code = "from pathlib import Path; from fedrepro.data import datasets\n"
    code += "for _ in range(2): datasets.provide('digits', Path('raw'), Path('digits')); "
    code += "print(len(datasets.load(Path('digits')).train_y))"
    calls = [subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [call.communicate(timeout=120)[0] for call in calls] == ["1438\n1438\n"] * 3


def test_prepared_data_may_lie_beside_raw_data(tmp_path):
    """Also in the folder that the data set's lock is named after."""
    choice = TINY | {"beta": 0.5}
    datasets.provide(choice, tmp_path, tmp_path / datasets.key(choice))
    assert datasets.load(tmp_path / datasets.key(choice)).classes == 10


# Real data


REAL = {
    "mnist": ((60000, 10000), "MNIST (official release)"),
    "cifar100": ((50000, 10000), "CIFAR-100 (official release)"),
    "cifar100_20": ((10000, 2000), "CIFAR-100's first 20 classes (official release)"),
    "pneumonia": ((5232, 624), "PneumoniaMNIST ("),
}


@pytest.mark.parametrize("name", REAL)
def test_real_sets(name, tmp_path):
    """From the user's mirror, or the packed MNIST beside the repository."""
    shared = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("FEDREPRO_DATA_MIRROR") or shared) / Path(registry.find("datasets", name).MIRROR[-1][0]).parent
    if not folder.is_dir():
        pytest.skip(f"no {folder.name} in FEDREPRO_DATA_MIRROR")
    mirror, raw, out = tmp_path / "mirror", tmp_path / "raw", tmp_path / "out"
    mirror.mkdir()
    (mirror / folder.name).symlink_to(folder)
    if name == "pneumonia":
        declare(mirror, name)
    datasets.provide(name, raw, out, str(mirror))
    meta, (counts, phrase) = datasets.load(out).meta, REAL[name]
    assert (meta["train"], meta["test"]) == counts and describe(meta).startswith(phrase)
    if name == "mnist":
        assert meta["mean"] == pytest.approx([0.1307], abs=1e-4) and meta["std"] == pytest.approx([0.3081], abs=1e-4)
