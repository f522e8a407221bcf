"""Fetching over HTTP, from a local server that breaks off, is busy, refuses or is silent."""

import functools
import hashlib
import io
import itertools
import json
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from fedrepro.core.errors import UserError
from fedrepro.data import datasets
from fedrepro.data.datasets import SOURCES, _download
from fedrepro.data.datasets.source import File
from fedrepro.data.source_label import format_label
from fedrepro.models import resnet50
from support.files import (
    CIFAR10_PATHS,
    IMAGES,
    change_source,
    cifar10_files,
    declare,
    leftovers,
    md5,
    mnist_files,
    write_all,
)


@pytest.fixture
def release(server, monkeypatch):
    """Pin a made release of MNIST on the server as the official one."""
    files = mnist_files()
    server.files = {f"/{name}": data for name, data in files.items()}
    pinned = tuple(File(name, (f"{server.url}/{name}",), md5(data)) for name, data in files.items())
    change_source(monkeypatch, "mnist", files=pinned, pixels=None)
    return server


def test_official_download_then_nothing_to_do(release, tmp_path):
    expected = datasets.identify("mnist", tmp_path / "raw", tmp_path / "out")
    folder = datasets.fetch("mnist", tmp_path / "raw")
    assert len(release.log) == 4 and not leftovers(tmp_path)
    meta = datasets.prepare("mnist", tmp_path / "raw", tmp_path / "out")
    assert meta["source"] == "official" and meta["official"] and meta["identity"] == expected
    assert format_label(meta) == "MNIST (official release)"
    datasets.fetch("mnist", tmp_path / "raw")
    assert len(release.log) == 4
    # files held by their checksums are adopted, not downloaded again
    (folder / "source.json").unlink()
    datasets.fetch("mnist", tmp_path / "raw")
    assert len(release.log) == 4


def test_processes_fetch_the_same_data_once(release, tmp_path):
    with ThreadPoolExecutor(4) as callers:
        folders = set(callers.map(lambda _: datasets.fetch("mnist", tmp_path / "raw"), range(4)))
    assert len(release.log) == 4 and len(folders) == 1 and not leftovers(tmp_path)


def test_download_resumes_after_a_break(release, tmp_path):
    release.drops = 1
    folder = datasets.fetch("mnist", tmp_path / "raw")
    data = release.files[f"/{IMAGES}"]
    assert (folder / IMAGES).read_bytes() == data
    assert release.log[1] == (f"/{IMAGES}", f"bytes={len(data) // 2}-")
    assert len(release.log) == 5  # once for each file, and once more for the rest of the first


@pytest.mark.parametrize("ranges", [True, False, None])
@pytest.mark.parametrize(
    "stale",
    [None, b"of another file", b"x" * 100_000],
    ids=["its beginning", "another", "too long"],
)
def test_download_goes_on_where_an_earlier_process_stopped(stale, ranges, release, tmp_path):
    """With a part that does not match, it begins again."""
    release.ranges, data = ranges, release.files[f"/{IMAGES}"]
    part = data[:100] if stale is None else stale
    write_all(tmp_path / "raw" / "mnist", {f"{IMAGES}.part": part})
    folder = datasets.fetch("mnist", tmp_path / "raw")
    assert release.log[0] == (f"/{IMAGES}", f"bytes={len(part)}-") and (
        stale is not None or len(release.log) == 4
    )
    assert (folder / IMAGES).read_bytes() == data and not leftovers(folder)


@pytest.mark.parametrize("status", [503, 429, 408])
def test_requests_to_a_busy_server_are_repeated_a_few_times(status, release, tmp_path, caplog):
    release.busy, release.status = 2, status
    datasets.fetch("mnist", tmp_path / "raw")
    assert len(release.log) == 6
    release.busy = 10**6
    with pytest.raises(UserError, match=r"cannot download .*tried 3 times"):
        datasets.fetch("mnist", tmp_path / "other")
    # the error alone tells why
    assert len(release.log) == 9 and not leftovers(tmp_path) and not caplog.text


def answer(head: str, body: bytes = b"page") -> list[bytes]:
    return [f"HTTP/1.1 {head}\r\n\r\n".encode("latin-1"), body]


ENDLESS = itertools.repeat(b"x" * 4096)
OTHERS = [
    *(
        (answer(f"{status} X"), f"HTTP {status}", 1)
        for status in (201, 204, 206, 226, 300, 304, 404, 700, 999)
    ),
    (answer("302 Found\r\nLocation: "), "HTTP 302", 1),
    (answer("206 X\r\nContent-Range: bytes 0-3/9"), "HTTP 206", 1),  # without the end
    (answer("206 X\r\nContent-Range: bytes 5-8/9"), "HTTP 206", 1),  # without the beginning
    (answer("200 OK", b"not the release"), f"wrong checksum {md5(b'not the release')}", 1),
    (itertools.chain(answer("200 OK"), ENDLESS), "more than 1048576 bytes", 1),
    (
        itertools.chain(answer("200 OK\r\nContent-Length: 99999999999"), ENDLESS),
        "more than 1048576 bytes",
        1,
    ),
    (answer("200 OK\r\nContent-Length: abc"), "InvalidHeader, tried 3 times", 3),
    (answer("200 OK\r\nContent-Length: 1e3"), "InvalidHeader, tried 3 times", 3),
    (
        answer("302 Found\r\nLocation: http://127.0.0.1/\xff"),
        "UnicodeDecodeError, tried 3 times",
        3,
    ),
]


@pytest.mark.parametrize(("pieces", "words", "requests"), OTHERS)
def test_responses_that_are_not_the_file(pieces, words, requests, release, tmp_path, monkeypatch):
    monkeypatch.setattr(_download, "MAX_BYTES", 1 << 20)
    release.answers[f"/{IMAGES}"] = lambda: pieces
    with pytest.raises(UserError, match=rf"MNIST: cannot download {IMAGES} .*{words}"):
        datasets.fetch("mnist", tmp_path / "raw")
    assert len(release.log) == requests and list((tmp_path / "raw" / "mnist").iterdir()) == []


def test_odd_headers_cause_no_traceback(release, tmp_path, caplog):
    data = release.files[f"/{IMAGES}"]
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n: no name\r\nno colon\r\n\r\n" % len(data)
    release.answers[f"/{IMAGES}"] = lambda: [head, data]
    assert (
        datasets.fetch("mnist", tmp_path / "raw") / IMAGES
    ).read_bytes() == data and "Traceback" not in caplog.text


def test_a_very_slow_response_is_abandoned(release, tmp_path, monkeypatch):
    """Also if a length is declared, and if headers are slow."""
    monkeypatch.setattr(_download, "WINDOW", 0.02)
    monkeypatch.setattr(_download, "TIMEOUT", (0.2, 0.2))

    def slowly(head: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n" + head
        for _ in range(1000):
            time.sleep(0.005)
            yield b"x"

    for head in (b"\r\n", b"Content-Length: 100000\r\n\r\n", b"X: "):
        release.answers[f"/{IMAGES}"] = functools.partial(slowly, head)
        with pytest.raises(UserError, match=r"cannot download .*ReadTimeout, tried 3 times"):
            datasets.fetch("mnist", tmp_path / "raw")


def test_two_versions_of_a_file_are_not_joined(server, tmp_path):
    """The mirror's file changes between two attempts, and its checksum is not known."""
    old, new = mnist_files(train=30), mnist_files()
    server.files = {f"/mnist/{name}": data for name, data in new.items()}

    def changing():
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(old[IMAGES]) + old[IMAGES][:99]
        server.answers.clear()

    server.answers[f"/mnist/{IMAGES}"] = changing
    folder = datasets.fetch("mnist", tmp_path / "raw", server.url)
    assert (
        server.log[1:3] == [(f"/mnist/{IMAGES}", None)] * 2
        and (folder / IMAGES).read_bytes() == new[IMAGES]
    )


@pytest.mark.parametrize("whole", [True, False])
def test_a_chunked_response(whole, release, tmp_path):
    """Its end shows that it is complete; it is stored as sent, even if declared as compressed."""
    data = release.files[f"/{IMAGES}"]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
    pieces = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (data[:500], data[500:])]
    release.answers[f"/{IMAGES}"] = lambda: (
        [head, *pieces, b"0\r\n\r\n"] if whole else [head, pieces[0]]
    )
    if whole:
        folder = datasets.fetch("mnist", tmp_path / "raw")
        assert (folder / IMAGES).read_bytes() == data
    else:
        with pytest.raises(UserError, match="cannot download .*tried 3 times"):
            datasets.fetch("mnist", tmp_path / "raw")


def test_a_part_that_is_a_link_is_not_written_through(release, tmp_path):
    folder, precious = write_all(tmp_path / "raw" / "mnist", {}), tmp_path / "precious"
    precious.write_bytes(b"mine")
    (folder / f"{IMAGES}.part").symlink_to(precious)
    datasets.fetch("mnist", tmp_path / "raw")
    assert (
        precious.read_bytes() == b"mine"
        and (folder / IMAGES).read_bytes() == release.files[f"/{IMAGES}"]
    )
    assert not (folder / IMAGES).is_symlink()
    (folder / IMAGES).unlink()
    os.mkfifo(folder / f"{IMAGES}.part")  # nobody reads what would be written
    (folder / "source.json").unlink()
    datasets.fetch("mnist", tmp_path / "raw")
    assert (folder / IMAGES).read_bytes() == release.files[f"/{IMAGES}"]


def test_the_second_address_is_used_if_the_first_fails(release, tmp_path, monkeypatch):
    first, *rest = SOURCES["mnist"].files
    release.files["/wrong"] = b"wrong"
    urls = (f"{release.url}/gone", f"{release.url}/wrong", *first.urls)
    change_source(monkeypatch, "mnist", files=(replace(first, urls=urls), *rest))
    datasets.fetch("mnist", tmp_path / "raw")
    assert [path for path, _ in release.log[:3]] == ["/gone", "/wrong", f"/{IMAGES}"]


def test_without_network_the_error_mentions_the_mirror(release, tmp_path, monkeypatch):
    first, *rest = SOURCES["mnist"].files
    change_source(
        monkeypatch, "mnist", files=(replace(first, urls=("http://127.0.0.1:1/x",)), *rest)
    )
    with pytest.raises(UserError) as caught:
        datasets.fetch("mnist", tmp_path / "raw")
    for words in (
        "MNIST",
        IMAGES,
        "ConnectionError",
        "FEDREPRO_DATA_MIRROR",
        "--config data_mirror=PATH_OR_URL",
    ):
        assert words in str(caught.value)
    assert list((tmp_path / "raw" / "mnist").iterdir()) == []


def test_mirror_by_url_falls_back_to_its_other_layout(server, tmp_path):
    server.files = {f"/data/{path}": data for path, data in cifar10_files().items()}
    folder = datasets.fetch("cifar10", tmp_path / "raw", f"{server.url}/data/")
    assert json.loads((folder / "source.json").read_text())["source"] == "mirror"
    server.files.pop(f"/data/{CIFAR10_PATHS[-1]}")
    with pytest.raises(UserError, match=r"data mirror http.*cannot download test_batch .*HTTP 404"):
        datasets.fetch("cifar10", tmp_path / "other", f"{server.url}/data")
    assert list((tmp_path / "other" / "cifar10").iterdir()) == []


def test_an_unresponsive_mirror_is_asked_once(direct, monkeypatch, tmp_path):
    monkeypatch.setattr(_download, "TIMEOUT", (5, 0.05))
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and says nothing
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        words = "data mirror .*release.*ReadTimeout, tried 3 times.*Run it again"
        with pytest.raises(UserError, match=words) as caught:
            datasets.fetch("cifar10", tmp_path / "raw", mirror=url)
    assert not leftovers(tmp_path)
    # nor for another set by the same process, which would wait as long
    with pytest.raises(UserError) as again:
        datasets.fetch("mnist", tmp_path / "raw", mirror=url)
    assert str(again.value) == str(caught.value)


def test_files_of_a_mirror_give_way_to_the_official_release(release, tmp_path):
    write_all(tmp_path / "mirror" / "mnist", mnist_files(train=30))
    declare(tmp_path / "mirror")
    raw, out = tmp_path / "raw", tmp_path / "out"
    datasets.fetch("mnist", raw, str(tmp_path / "mirror"))
    assert datasets.prepare("mnist", raw, out)["train"] == 30
    datasets.fetch("mnist", raw)
    meta = datasets.prepare("mnist", raw, out)
    assert meta["train"] == 20 and meta["official"]
    assert json.loads((raw / "mnist" / "source.json").read_text())["source"] == "official"


@pytest.fixture
def weights(server, tmp_path, monkeypatch):
    """Serve two weights in place of torchvision's. Return where torch's cache has the file."""
    torch.save({"conv1.weight": torch.ones(2)}, buffer := io.BytesIO())
    monkeypatch.setattr(resnet50, "SHA256", hashlib.sha256(buffer.getvalue()).hexdigest())
    monkeypatch.setattr(
        resnet50, "imagenet_weights", lambda: SimpleNamespace(url=f"{server.url}/weights.pth")
    )
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    server.files = {"/weights.pth": buffer.getvalue()}
    return tmp_path / "hub/checkpoints/weights.pth"


def test_imagenet_weights_are_downloaded_once(server, weights):
    for _ in range(2):
        assert torch.equal(resnet50.load_imagenet_weights()["conv1.weight"], torch.ones(2))
    assert len(server.log) == 1 and weights.is_file()


@pytest.mark.parametrize(("pieces", "words"), [
    (None, "HTTP 404.*pretrained: false"), ("pipe", "weights.pth: not a file"),
    (itertools.chain(answer("200 OK"), ENDLESS), "more than 1048576 bytes.*pretrained: false"),
])  # fmt: skip
def test_imagenet_weights_that_cannot_be_had(pieces, words, server, weights, monkeypatch):
    monkeypatch.setattr(_download, "MAX_BYTES", 1 << 20)
    weights.parent.mkdir(parents=True)
    if pieces == "pipe":
        os.mkfifo(weights)
    elif pieces:
        server.answers["/weights.pth"] = lambda: pieces
    else:
        server.files.clear()
    with pytest.raises(UserError, match=words):
        resnet50.load_imagenet_weights()
    assert not weights.is_file() and not leftovers(weights.parent)
