"""Declarations of a mirror about its copies, and copies that differ from them."""

import json

import pytest

from fedrepro.core.errors import UserError
from fedrepro.data import datasets
from fedrepro.data.datasets import SOURCES, _release
from fedrepro.data.source_label import format_label
from support.files import change_source, declare, leftovers, mnist_files, write_all

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
    change_source(monkeypatch, "mnist", pixels=declare(mirror))
    write(mirror, mnist=OTHER)
    with pytest.raises(UserError, match="the files hold the official release"):
        provide(tmp_path, mirror)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"mnist": 1}',
        '{"mnist": {"release": "a"}}',
        json.dumps({"mnist": OTHER | {"more": 1}}),
        *(
            json.dumps({"mnist": OTHER | {"release": name}})
            for name in ("", "a (b)", "a\nb", "x" * 61)
        ),
        json.dumps({"mnist": OTHER | {"pixels": "00"}}),
    ],
)
def test_a_damaged_declaration(text, mirror, tmp_path):
    (mirror / "release.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=rf"{mirror}/release\.json: "):
        datasets.planned_identity("mnist", tmp_path / "raw", tmp_path / "out", str(mirror))
    with pytest.raises(UserError, match=rf"{mirror}/release\.json: "):
        provide(tmp_path, mirror)


def test_a_urls_declaration_is_fetched_before_runs_get_names_and_stored(
    server, mirror, tmp_path, monkeypatch
):
    pixels = declare(mirror)
    server.files = {f"/mnist/{name}": data for name, data in mnist_files().items()}
    server.files["/release.json"] = (mirror / "release.json").read_bytes()
    raw, out = tmp_path / "raw", tmp_path / "out"
    assert datasets.planned_identity("mnist", raw, out, server.url) is None and not server.log
    assert datasets.identify("mnist", raw, out, server.url) == pixels and len(server.log) == 1
    assert provide(tmp_path, server.url)["identity"] == pixels
    (raw / "mnist" / "source.json").unlink()
    server.files["/release.json"] = json.dumps({"mnist": OTHER}).encode()
    with pytest.raises(
        UserError, match=r"/release\.json: changed what it declares\. Start the same command again"
    ):
        datasets.fetch("mnist", raw, server.url)
    monkeypatch.setattr(_release, "MAX_BYTES", 10)
    server.files["/release.json"] = b"{" + b" " * 20
    # one that is too large is none
    with pytest.raises(UserError, match="changed what it declares"):
        datasets.fetch("mnist", raw, server.url)
    monkeypatch.undo()
    with pytest.raises(UserError, match="damaged"):
        datasets.fetch("mnist", raw, server.url)
    # what is damaged is not kept
    assert datasets.planned_identity("mnist", raw, tmp_path / "other", server.url) is None


def test_a_url_without_a_declaration_has_the_official_release(server, tmp_path):
    for _ in range(2):
        assert (
            datasets.identify("mnist", tmp_path / "raw", tmp_path / "out", server.url)
            == SOURCES["mnist"].pixels
        )
    assert len(server.log) == 1


@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize("change", ["another mirror", "another URL", "other files", "another name"])
def test_what_the_mirror_of_today_declares_is_used(change, prepared, server, mirror, tmp_path):
    """Prepared data, and fetched ones that were not prepared, are replaced, and all is known before
    the data are fetched."""
    raw, out = tmp_path / "raw", tmp_path / "out"
    declare(mirror)
    datasets.provide("mnist", raw, out, str(mirror)) if prepared else datasets.fetch(
        "mnist", raw, str(mirror)
    )
    other = tmp_path / "other" if change == "another mirror" else mirror
    changed = mnist_files(train=30 if change != "another name" else 20)
    (other / "mnist").mkdir(parents=True, exist_ok=True)
    write_all(other / "mnist", changed)
    write(other, mnist={"release": "new", "pixels": (pixels := declare(other))})
    given = str(other)
    if change == "another URL":
        given = server.url
        server.files = {f"/mnist/{name}": data for name, data in changed.items()}
        server.files["/release.json"] = (other / "release.json").read_bytes()
    assert (
        datasets.identify("mnist", raw, out, given)
        == datasets.planned_identity("mnist", raw, out, given)
        == pixels
    )
    meta = provide(tmp_path, given)
    assert (meta["identity"], meta["release"], meta["train"]) == (
        pixels,
        "new",
        20 if change == "another name" else 30,
    )
    asked = len(server.log)
    assert provide(tmp_path, given) == meta and len(server.log) == asked  # once


def test_a_copy_gives_way_to_a_mirror_of_the_official_release(mirror, tmp_path, monkeypatch):
    """And stays where that mirror is gone or its files are the same."""
    declare(mirror)
    copy = provide(tmp_path, mirror)
    official = tmp_path / "official"
    write_all(official, {})
    write_all(official / "mnist", mnist_files(train=30))
    with pytest.raises(
        UserError, match="not declared, though the files are not the official release"
    ):
        provide(tmp_path, official)
    change_source(monkeypatch, "mnist", pixels=declare(official))
    (official / "release.json").unlink()
    assert (
        datasets.planned_identity("mnist", tmp_path / "raw", tmp_path / "out", str(official))
        == SOURCES["mnist"].pixels
    )
    assert provide(tmp_path, official)["official"] and copy["identity"] != SOURCES["mnist"].pixels
    assert provide(tmp_path, tmp_path / "gone")["official"]
