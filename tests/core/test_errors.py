"""Messages never show secrets, and failures of the machine become user errors."""

import errno
import time

import pytest

from fedrepro.core.errors import (
    MAX_LINES,
    Failures,
    UserError,
    as_user_error,
    error_prefix,
    is_interrupt,
    masked,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://name:secret@host/x is gone", "https://***@host/x is gone"),
        ("https://name:se@cret@host/x", "https://***@host/x"),
        ("http://name:se/cret@host:80/x", "http://***@host:80/x"),
        (
            "sources (http://host/x?token=secret; https://name:secret@other)",
            "sources (http://host/x?*** https://***@other)",
        ),
        ("'http://host/?secret'", "'http://host/?***'"),
        (
            "Max retries exceeded with url: /api/2?token=secret (Caused by",
            "Max retries exceeded with url: /api/2?*** (Caused by",
        ),
        ("postgresql://name:secret@host/db", "postgresql://***@host/db"),
        *(
            (text, text)
            for text in (
                "see /a@b/c?",
                "me@there.org",
                "http://host:80/a/b.gz: HTTP 404",
                "sqlite:///a/b.db",
            )
        ),
    ],
)
def test_secrets_in_urls_are_masked(text, shown):
    assert masked(text) == shown and str(UserError(text)) == shown


@pytest.mark.parametrize("text", ["k" * 10**6, "a://" * 10**5, "url: /" * 10**5, "@a://" * 10**5])
def test_a_long_text_is_masked_in_time_that_grows_with_its_length(text):
    """Hours of processor time, where each letter may begin an address that reaches to the end."""
    began = time.process_time()
    masked(text)
    assert time.process_time() - began < 5


def test_a_message_is_twenty_lines_at_most_without_what_a_terminal_obeys():
    many = "\n".join(f"line {number}" for number in range(20_000))
    lines = str(UserError(many)).splitlines()
    assert len(lines) == MAX_LINES == 20 and lines[-2:] == ["line 18", "and 19981 more"]
    assert str(UserError("\n".join(["a"] * 20))).count("a") == 20
    assert len(str(UserError("k" * 10**6))) < 2100
    assert str(UserError("a\x1b[2J\rb\u202e\u2028\n\tc")) == "a\\x1b[2J\\rb\\u202e\\u2028\n\tc"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "results/x"),
            "x: No space left on device; free .*continues",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "results/x"),
            "x: Read-only file system; make it writable: .*continues",
        ),
        (
            OSError(errno.ENOTDIR, "Not a directory", "results/x"),
            "x: Not a directory; choose another path",
        ),
        (MemoryError(), "memory is full .*smaller scale"),
        (
            ImportError("libtorch_cpu.so: failed to map segment from shared object"),
            "memory is full .*libtorch_cpu.so",
        ),
    ],
    ids=("full", "read-only", "wrong path", "memory", "libraries"),
)
def test_a_full_or_closed_place_is_one_message(error, words):
    failures = Failures()
    with failures.collect("run"):
        raise error
    with pytest.raises(UserError, match=words):
        failures.raise_all()


def test_a_crash_stays_a_crash():
    assert (
        as_user_error(OSError(errno.ENOENT, "gone", "x")) is None
        and as_user_error(ValueError("x")) is None
    )
    with (
        pytest.raises(UserError, match=r"^a\.yaml: lr: expected a number$"),
        error_prefix("a.yaml"),
        error_prefix("lr"),
    ):
        raise UserError("expected a number")
    with pytest.raises(ValueError, match="^a crash$"), error_prefix("a.yaml"):
        raise ValueError("a crash")


def test_what_fails_after_a_signal_is_an_interruption(monkeypatch):
    """The import of torch swallows it, and numpy's then fails."""
    monkeypatch.setattr("fedrepro.core.errors.stops", [1.0])
    assert is_interrupt(ImportError("cannot load module more than once per process"))
