"""One file over HTTP: from the first address that delivers it, resumed where an earlier attempt broke off, checksum held."""

import hashlib
import logging
import os
import time
from pathlib import Path

from fedrepro.core.errors import masked

log = logging.getLogger(__name__)

ATTEMPTS = 3  # per address
BACKOFF = 1.0  # seconds before the second attempt; doubles each time
TIMEOUT = (10, 60)  # seconds to connect, seconds without a byte
CHUNK = 1 << 18


class Absent(Exception):
    """A source says that it does not have the file: no use in asking it again."""


class Silent(Absent):
    """A source does not answer, or breaks off every time: no use in asking it for another file."""


def md5_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def download(urls: tuple[str, ...], target: Path, md5: str | None = None) -> None:
    """One file from the first address that delivers it, resumed where an earlier attempt broke off.

    Raises Absent with every address' reason, Silent where none said that it has no such file. A part is kept for the next
    time only if a checksum will tell whether it fits.
    """
    part = target.with_name(target.name + ".part")
    if md5 is None:
        part.unlink(missing_ok=True)
    reasons, refused = [], False
    for url in urls:
        try:
            reason = _attempts(url, part, md5)
        except Absent as absent:
            reason, refused = str(absent), True
        if reason is None:
            os.replace(part, target)
            return
        log.warning("%s: %s", masked(url), reason)
        reasons.append(f"{url}: {reason}")
    if md5 is None:
        part.unlink(missing_ok=True)
    raise (Absent if refused else Silent)(f"cannot download {target.name} ({'; '.join(reasons)})")


def _attempts(url: str, part: Path, md5: str | None) -> str | None:
    """Downloads into `part`; returns None once it is complete and its checksum holds, else the last failure. Raises Absent
    where the server refuses the file."""
    import requests  # not part of the training core
    import urllib3

    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(BACKOFF * 2 ** (attempt - 1))
        resumed = part.exists()
        try:
            _stream(url, part)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            reason = f"{type(error).__name__}, tried {attempt + 1} times"
            continue
        if md5 is None or md5_of(part) == md5:
            return None
        reason = f"wrong checksum {md5_of(part)}, the release has {md5}"
        part.unlink()
        if not resumed:  # a whole file that is wrong will be wrong again
            return reason
    return reason


def _stream(url: str, part: Path) -> None:
    """Appends to `part` what is missing of `url`. Raises Absent where the server refuses the file."""
    import requests
    from tqdm import tqdm

    start = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == 416:  # the part is as long as the file, or longer: not a part of this file
            part.unlink(missing_ok=True)
            raise requests.RequestException("range refused")
        if 400 <= response.status_code < 500 and response.status_code not in (408, 429):
            raise Absent(f"HTTP {response.status_code}")
        response.raise_for_status()
        if not (response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")):
            start = 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with (
            part.open("ab" if start else "wb") as file,
            # a bar on terminals only
            tqdm(total=total, initial=start, unit="B", unit_scale=True, desc=part.stem, disable=None) as bar,
        ):
            for chunk in response.raw.stream(CHUNK, decode_content=False):  # .gz stays .gz whatever the server declares
                bar.update(file.write(chunk))
