"""Declarations of a mirror about its copies, and copies that differ from them."""

import json

import pytest

from fedrepro.core.errors import UserError
from fedrepro.data import datasets
from fedrepro.data.datasets import _release, mnist
from fedrepro.data.source_label import format_label
from support.files import declare, leftovers, mnist_files, write_all

OTHER = {"release": "other digits", "pixels": "0" * 64}


@pytest.fixture
def mirror(tmp_path):
    write_all(tmp_path / "mirror" / "mnist", mnist_files())
    return tmp_path / "mirror"


def write(mirror, **entries) -> None:
    (mirror / "release.json").write_text(json.dumps(entries), encoding="utf-8")


def provide(tmp_path, mirror) -> dict:
    datasets.provide("mnist", tmp_path / "raw", tmp_path / "out", str(mirror))
    return datasets.load(tmp_path / "out").meta


def test_a_copy_is_planned_and_labelled_as_it_is_declared(mirror, tmp_path):
    pixels = declare(mirror)
    write(mirror, mnist={"release": "Small MNIST, v2.1", "pixels": pixels})
    assert datasets.identify("mnist", tmp_path / "raw", tmp_path / "out", str(mirror)) == pixels
    meta = provide(tmp_path, mirror)
    assert (meta["identity"], meta["release"]) == (pixels, "Small MNIST, v2.1")
    assert format_label(meta) == "MNIST (Small MNIST, v2.1; differs from the official release)"


@pytest.mark.parametrize("entries", [{}, {"mnist": OTHER}], ids=["none", "other pixels"])
def test_a_copy_unlike_its_declaration_is_refused(entries, mirror, tmp_path):
    """The message says what to declare; then the same command continues."""
    write(mirror, **entries)
    for _ in range(2):
        with pytest.raises(UserError, match=r"release\.json of the data mirror: mnist") as caught:
            provide(tmp_path, mirror)
    assert not (tmp_path / "out").exists() and not leftovers(tmp_path)
    pixels = declare(mirror)
    assert pixels in str(caught.value) and provide(tmp_path, mirror)["identity"] == pixels


def test_the_official_release_under_another_name_is_refused(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "PIXELS", declare(mirror))
    write(mirror, mnist=OTHER)
    with pytest.raises(UserError, match="the files hold the official release"):
        provide(tmp_path, mirror)


@pytest.mark.parametrize("text", [
    "{", "[]", '{"mnist": 1}', '{"mnist": {"release": "a"}}', json.dumps({"mnist": OTHER | {"more": 1}}),
    *(json.dumps({"mnist": OTHER | {"release": name}}) for name in ("", "a (b)", "a\nb", "x" * 61)),
    json.dumps({"mnist": OTHER | {"pixels": "00"}}),
])  # fmt: skip
def test_a_damaged_declaration(text, mirror, tmp_path):
    (mirror / "release.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=rf"{mirror}/release\.json: "):
        datasets.planned_identity("mnist", tmp_path / "raw", tmp_path / "out", str(mirror))
    with pytest.raises(UserError, match=rf"{mirror}/release\.json: "):
        provide(tmp_path, mirror)


def test_a_urls_declaration_is_fetched_by_jobs_and_stored(server, mirror, tmp_path, monkeypatch):
    pixels = declare(mirror)
    server.files = {f"/mnist/{name}": data for name, data in mnist_files().items()}
    server.files["/release.json"] = (mirror / "release.json").read_bytes()
    raw, out = tmp_path / "raw", tmp_path / "out"
    assert datasets.identify("mnist", raw, out, server.url) == mnist.PIXELS and not server.log  # planned so
    with pytest.raises(UserError, match=r"/release\.json: changed what it declares\. Start the same command again"):
        provide(tmp_path, server.url)
    assert datasets.identify("mnist", raw, out, server.url) == pixels and len(server.log) == 1
    assert provide(tmp_path, server.url)["identity"] == pixels
    monkeypatch.setattr(_release, "MAX_BYTES", 10)
    server.files["/release.json"] = b"{" + b" " * 20
    (raw / "mnist" / "source.json").unlink()
    with pytest.raises(UserError, match="changed what it declares"):  # one that is too large is none
        datasets.fetch("mnist", raw, server.url)
    monkeypatch.undo()
    with pytest.raises(UserError, match="damaged"):
        datasets.fetch("mnist", raw, server.url)
    assert datasets.planned_identity("mnist", raw, tmp_path / "other", server.url) is None  # what is damaged is not kept
