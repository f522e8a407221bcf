"""Download one file over HTTP, bounded in size and time; resume a broken-off attempt where a checksum tells whether it fits."""

import hashlib
import logging
import os
import queue
import re
import threading
import time
from pathlib import Path
from typing import Any

from fedrepro.core.errors import masked

log = logging.getLogger(__name__)
logging.getLogger("urllib3.connection").setLevel(logging.ERROR)  # it warns of odd headers with a traceback, and reads on

ATTEMPTS = 3  # per address
BACKOFF = 1.0  # seconds before the second attempt; doubles each time
TIMEOUT = (10, 60)  # seconds to connect, seconds without a byte
CHUNK = 1 << 18
MAX_BYTES = 1 << 30  # of one file: twice the largest of any data set here
WINDOW, MIN_BYTES = 60.0, 60 << 10  # seconds, and the bytes that have to arrive in each such time: 1 KiB/s


class NotFound(Exception):
    """A source says that it does not have the file: no use in asking it again."""


class Unresponsive(NotFound):
    """A source does not answer, or breaks off every time: no use in asking it for another file."""


def md5_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def download(urls: tuple[str, ...], target: Path, md5: str | None = None, max_bytes: int | None = None) -> None:
    """Download one file from the first address that delivers it.

    What a broken-off attempt left is kept for the next one only if a checksum will tell whether it fits.
    Raises Absent with the reason of every address; Silent if no server refused the file.
    """
    part = target.with_name(target.name + ".part")
    reasons, refused = [], False
    for url in urls:
        try:
            reason = _attempts(url, part, md5, max_bytes or MAX_BYTES)
        except NotFound as absent:
            reason, refused = str(absent), True
        if reason is None:
            os.replace(part, target)
            return
        log.warning("%s: %s", masked(url), reason)
        reasons.append(f"{url}: {reason}")
    if md5 is None:
        part.unlink(missing_ok=True)
    raise (NotFound if refused else Unresponsive)(f"cannot download {target.name} ({'; '.join(reasons)})")


def _attempts(url: str, part: Path, md5: str | None, most: int) -> str | None:
    """Download into `part`. Return None if it is complete and its checksum holds, else why the last attempt failed. Raises
    Absent if the server refuses the file."""
    import requests  # not part of the training core
    import urllib3

    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(BACKOFF * 2 ** (attempt - 1))
        if md5 is None or part.is_symlink() or not part.is_file():  # what a link points to would be overwritten
            part.unlink(missing_ok=True)
        resumed = part.exists()
        try:
            _stream(url, part, most)
        except (requests.RequestException, urllib3.exceptions.HTTPError, UnicodeDecodeError) as error:  # the last: of Location
            reason = f"{type(error).__name__}, tried {attempt + 1} times"
            continue
        if md5 is None or md5_of(part) == md5:
            return None
        reason = f"wrong checksum {md5_of(part)}, the release has {md5}"
        part.unlink()
        if not resumed:  # a whole file that is wrong will be wrong again
            return reason
    return reason


def _stream(url: str, part: Path, most: int) -> None:
    """Append to `part` what is missing of `url`. Raises Absent if the server refuses the file."""
    import requests
    from tqdm import tqdm

    asked = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={asked}-"} if asked else {})
    with _answer(url, headers) as response:
        start = _start(response, asked)
        if start is None and asked and response.status_code in (206, 416):  # the part does not fit the file
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
            tqdm(total=size or None, initial=start, unit="B", unit_scale=True, desc=part.stem, disable=None) as bar,
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
    raise NotFound(f"more than {most} bytes, which no such file has")


def _answer(url: str, headers: dict[str, str]) -> Any:
    """Ask for `url` and return the answer once its headers are there. Raises RequestException if they take too long altogether,
    though no byte does: no timeout of a connection ends that, so that a thread is left to it."""
    import requests

    found: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found.put(requests.get(url, headers=headers, stream=True, timeout=TIMEOUT))
        except Exception as error:
            found.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = found.get(timeout=WINDOW + sum(TIMEOUT))
    except queue.Empty:
        raise requests.exceptions.ReadTimeout("too slow") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _start(response: Any, asked: int) -> int | None:
    """Return where in the file the answer begins, 0 or at the byte `asked`; None if it is not the file to its end."""
    if response.status_code == 200:
        return 0
    found = re.fullmatch("bytes ([0-9]+)-([0-9]+)/([0-9]+)", response.headers.get("Content-Range", ""))
    if response.status_code != 206 or not found:
        return None
    first, last, size = (int(number) for number in found.groups())
    return first if first in (0, asked) and last + 1 == size else None
