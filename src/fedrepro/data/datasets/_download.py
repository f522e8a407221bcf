"""Download of one file over HTTP, bounded in size and time. An attempt that broke off is resumed if
there is a checksum."""

import hashlib
import logging
import os
import re
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from fedrepro.core import files

# it warns of odd headers with a traceback, and reads on
logging.getLogger("urllib3.connection").setLevel(logging.ERROR)

ATTEMPTS = 3  # per address
BACKOFF = 1.0  # seconds before the second attempt; doubles each time
TIMEOUT = (10, 60)  # seconds to connect, seconds without a byte
CHUNK = 1 << 18
MAX_BYTES = files.MAX_BYTES  # of one file: twice the largest of any data set here
# in this many seconds at least this many bytes have to arrive: 1 KiB/s
WINDOW, MIN_BYTES = 60.0, 60 << 10


class NotFound(Exception):
    """The server says that it does not have the file, so that trying again is useless."""


class Unresponsive(NotFound):
    """The server does not answer, or breaks off every time, so that trying another file is
    useless."""


def md5_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def download(
    urls: tuple[str, ...], target: Path, md5: str | None = None, max_bytes: int | None = None
) -> None:
    """Download one file from the first address that delivers it.

    The part that an attempt left when it broke off is kept for the next one only if there is a
    checksum.

    Raises NotFound with the reason of every address; Unresponsive if no server refused the file.
    """
    part = target.with_name(target.name + ".part")
    reasons: list[str] = []
    kind: type[NotFound] = Unresponsive
    for url in urls:
        try:
            _attempts(url, part, md5, max_bytes or MAX_BYTES)
            return os.replace(part, target)
        except NotFound as error:
            reasons.append(f"{url}: {error}")
            kind = kind if isinstance(error, Unresponsive) else NotFound
    if md5 is None:
        part.unlink(missing_ok=True)
    raise kind(f"cannot download {target.name} ({'; '.join(reasons)})")


def _attempts(url: str, part: Path, md5: str | None, most: int) -> None:
    """Download into `part`. Raises NotFound if the server refuses the file, Unresponsive if no
    attempt delivers it."""
    import requests  # not part of the training core
    import urllib3

    reason = ""
    for attempt in range(ATTEMPTS):
        time.sleep(BACKOFF * 2 ** (attempt - 1) if attempt else 0)
        # what a link points to would be overwritten
        if md5 is None or part.is_symlink() or not part.is_file():
            part.unlink(missing_ok=True)
        resumed = part.exists()
        try:
            _stream(url, part, most)
        # the last: of Location
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            UnicodeDecodeError,
        ) as error:
            reason = f"{type(error).__name__}, tried {attempt + 1} times"
            continue
        if md5 is None or md5_of(part) == md5:
            return
        reason = f"wrong checksum {md5_of(part)}, the release has {md5}"
        part.unlink()
        if not resumed:  # a whole file that is wrong will be wrong again
            break
    raise Unresponsive(reason)


def _stream(url: str, part: Path, most: int) -> None:
    """Append to `part` what is missing of `url`. Raises NotFound if the server refuses the file."""
    import requests
    from tqdm import tqdm

    offset = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={offset}-"} if offset else {})
    with _answer(url, headers) as response:
        start = _start(response, offset)
        # the part does not fit the file
        if start is None and offset and response.status_code in (206, 416):
            part.unlink()
            raise requests.RequestException("range refused")
        if start is None and (response.status_code in (408, 429) or response.status_code >= 500):
            response.raise_for_status()
        if start is None:
            raise NotFound(f"HTTP {response.status_code}")
        length = response.headers.get("Content-Length", "0")
        if not re.fullmatch("[0-9]+", length):
            raise requests.exceptions.InvalidHeader("Content-Length")
        size = start + int(length)
        with (
            part.open("ab" if start else "wb") as file,
            # a bar on terminals only
            tqdm(
                total=size or None,
                initial=start,
                unit="B",
                unit_scale=True,
                desc=part.stem,
                disable=None,
            ) as bar,
        ):
            since, then = time.monotonic(), start
            while max(start, size) <= most:
                # whatever has arrived; .gz stays .gz whatever the server declares
                chunk = response.raw.read1(CHUNK, decode_content=False)
                if not chunk:
                    return
                start += file.write(chunk)
                bar.update(len(chunk))
                if time.monotonic() - since > WINDOW:
                    if start - then < MIN_BYTES:
                        raise requests.exceptions.ReadTimeout("too slow")
                    since, then = time.monotonic(), start
    part.unlink()
    raise NotFound(f"more than {most} bytes, the most that a file may have (MAX_BYTES)")


def _answer(url: str, headers: dict[str, str]) -> Any:
    """Request `url` and return the response once its headers are there. Raises RequestException if
    they take too long in total. A connection's timeout limits only the wait for each byte, so that
    the request runs in a thread, which is then abandoned."""
    import requests

    answer: Future[Any] = Future()

    def ask() -> None:
        try:
            answer.set_result(requests.get(url, headers=headers, stream=True, timeout=TIMEOUT))
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(WINDOW + sum(TIMEOUT))
    except TimeoutError:
        raise requests.exceptions.ReadTimeout("too slow") from None


def _start(response: Any, offset: int) -> int | None:
    """Return where in the file a response begins, 0 or the byte `offset`; None if it is not the
    file to its end."""
    if response.status_code == 200:
        return 0
    content_range = re.fullmatch(
        "bytes ([0-9]+)-([0-9]+)/([0-9]+)", response.headers.get("Content-Range", "")
    )
    if response.status_code != 206 or not content_range:
        return None
    first, last, size = (int(number) for number in content_range.groups())
    return first if first in (0, offset) and last + 1 == size else None
