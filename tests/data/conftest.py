"""A local server, reached without a proxy."""

import threading

import pytest

from fedrepro.data.datasets import _download
from support.server import Server


@pytest.fixture
def direct(monkeypatch):
    """Send requests without a proxy, and repeat them without a pause."""
    monkeypatch.setattr(_download, "BACKOFF", 0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server(direct):
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
