"""Download a file into the cache: resume at its byte, verify its checksum, take turns with other programs.

huggingface_hub 2.4 starts a stopped download over and checks no hash. So the bytes are fetched here, by its own HTTP
session, to the path where it looks for them. Files above 50 GB come through its Xet protocol, which resumes by itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from huggingface_hub import constants, hf_hub_download, hf_hub_url
from huggingface_hub.utils import tqdm

from app.core import atomic
from app.core.errors import HubError, Interrupted, WaitError
from app.models.hub import cache
from app.models.hub.choose import RemoteFile
from app.models.hub.client import bytes_behind
from app.models.hub.errors import host, short, translated
from app.models.hub.request import Retries, RetryPolicy
from app.models.progress import Watcher

_BUSY_S = 1.0
_BLOCK = 1 << 20
_REPORT_S = 0.2


@dataclass(frozen=True, slots=True)
class DownloadRequest:
    """One file to download.

    Attributes:
        repo: `owner/name`.
        commit: Its revision, as a commit, so that all requests mean the same bytes.
        file: The file.
        watcher: Receives the progress.
        retry: How to wait, and whether to stop; checked between two chunks.
    """

    repo: str
    commit: str
    file: RemoteFile
    watcher: Watcher
    retry: RetryPolicy

    @property
    def damaged(self) -> HubError:
        return HubError(
            f"{self.file.path} arrives damaged: its checksum is not the listed one.",
            "A proxy or a failing disk may change it. Try another network.",
        )


def delete_if_damaged(request: DownloadRequest) -> bool:
    """Delete a complete file with a wrong checksum; return whether there was one.

    Raises:
        HubError: The disk refuses, or Hugging Face sends no checksum.
        Interrupted: Canceled.
    """
    with translated(request.repo):
        here = cache.complete(request.repo, request.commit, request.file)
        if here is None:
            return False
        # A cached name tells its own checksum; Hugging Face may list another file by now.
        expected = cache.sha256_of(here) or request.file.sha256
        with here.open("rb", buffering=0) as file:
            if expected in (None, _hashed(file, here.stat().st_size, request).hexdigest()):
                return False
        here.resolve().unlink()
        here.unlink(missing_ok=True)
        return True


def fetch(request: DownloadRequest) -> Path:
    """Download one file into the cache, or find it there; return the path to load.

    Downloaded bytes stay on disk, and the next call resumes after them.

    Raises:
        HubError: It is not available; `CacheError` if it is the disk.
        Interrupted: Canceled.
    """
    repo, commit, file = request.repo, request.commit, request.file
    if (named := cache.cached(repo, commit, file.path, file.size)) is not None:
        request.watcher.found(file.size)
        return named
    with translated(repo):
        if file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
            return _by_xet(request)
        with _turn(request):
            # Only now: deleting another file may have removed the empty folder.
            cache.blob(repo, file).parent.mkdir(parents=True, exist_ok=True)
            here = cache.complete(repo, commit, file)
            if here is None:
                _transfer(request)
            else:
                request.watcher.found(file.size)
                if here != cache.blob(repo, file):
                    return here
            return cache.place(repo, commit, file)


@contextmanager
def _turn(request: DownloadRequest) -> Iterator[None]:
    """Wait until no other program downloads the same content."""
    while True:
        with cache.locked_content(cache.blob(request.repo, request.file)) as is_locked:
            if is_locked:
                request.watcher.waiting("", 0)
                yield
                return
        request.watcher.waiting("Another program is downloading this file", _BUSY_S)
        request.retry.stop_if_cancelled()
        if request.retry.pause(_BUSY_S):
            raise Interrupted


def _hashed(file: BinaryIO, length: int, request: DownloadRequest) -> Any:
    """Hash the first bytes of a file, with progress."""
    digest, done, block = hashlib.sha256(), 0, bytearray(_BLOCK)
    told = monotonic()
    file.seek(0)
    while done < length and (n := file.readinto(memoryview(block)[: length - done])):  # type: ignore[attr-defined]
        digest.update(memoryview(block)[:n])
        done += n
        if monotonic() - told > _REPORT_S:
            told = monotonic()
            request.watcher.waiting(f"{done / length:.0%} verified", 0)
        request.retry.stop_if_cancelled()
    request.watcher.waiting("", 0)
    return digest


def _transfer(request: DownloadRequest) -> None:
    """Download the missing bytes; start over once if the checksum is wrong.

    Raises:
        HubError: Every attempt failed, or the checksum stays wrong.
        Interrupted: Canceled.
    """
    for again in (True, False):
        path = cache.partial(request.repo, request.file)
        with path.open("a+b", buffering=0) as out:
            part = _Part(request, out)
            part.complete()
            is_right = request.file.sha256 in (None, part.digest.hexdigest())
            # The name must not outlive a power cut without its bytes.
            os.fsync(out.fileno())
        if is_right:
            return atomic.replace(path, cache.blob(request.repo, request.file))
        path.unlink(missing_ok=True)
        request.watcher.found(-part.have)
        if again:
            request.watcher.waiting("The file arrived damaged; downloading it again", 0)
    raise request.damaged


class _Part:
    """An incomplete file, with the checksum of its bytes."""

    def __init__(self, request: DownloadRequest, out: BinaryIO) -> None:
        self._request = request
        self._file = request.file
        self._out = out
        self._url = hf_hub_url(request.repo, request.file.path, revision=request.commit)
        self.have = out.seek(0, os.SEEK_END)
        if self.have > self._file.size:
            self.have = out.truncate(0)
        request.watcher.found(self.have)
        self.digest = _hashed(out, self.have, request)

    def complete(self) -> None:
        """Request the missing bytes until all are here."""
        retries, had = Retries(self._request.retry, self._request.watcher), self.have
        while self.have < self._file.size:
            self._request.retry.stop_if_cancelled()
            try:
                with translated(self._request.repo):
                    self._append()
            except WaitError as error:
                if self.have > had:
                    retries.reset()
                had = self.have
                retries.wait(error)

    def _append(self) -> None:
        """Write one answer as it arrives.

        Raises:
            WaitError: It ended too early.
        """
        with closing(bytes_behind(self._url, self._file, self.have)) as chunks:
            for chunk in chunks:
                self._request.retry.stop_if_cancelled()
                self._write(chunk)
        if self.have < self._file.size:
            raise WaitError(f"The connection to {host()} ended too early.", "Downloaded bytes are kept.")

    def _write(self, chunk: memoryview) -> None:
        while chunk:
            # Unbuffered: counted bytes survive a kill of this process.
            n = self._out.write(chunk)
            self.digest.update(chunk[:n])
            self.have += n
            self._request.watcher.received(n)
            chunk = chunk[n:]


def _by_xet(request: DownloadRequest) -> Path:
    """Download a file above 50 GB through huggingface_hub, then verify it."""

    def count(n_bytes: int) -> None:
        request.retry.stop_if_cancelled()
        request.watcher.received(n_bytes)

    try:
        named = hf_hub_download(
            request.repo, request.file.path, revision=request.commit, tqdm_class=_counting_bar(count)
        )
    except (RuntimeError, ValueError) as error:
        # hf_xet raises RuntimeError for everything; without it there is a ValueError.
        raise HubError(f"The download of {request.file.path} failed: {short(error)}.", "Try again later.") from error
    with Path(named).open("rb", buffering=0) as file:
        is_right = request.file.sha256 in (None, _hashed(file, request.file.size, request).hexdigest())
    if not is_right:
        Path(named).resolve().unlink()
        raise request.damaged
    return Path(named)


def _counting_bar(count: Callable[[int], None]) -> Any:
    """Return a progress bar class that only counts bytes once they are written."""

    class Bar(tqdm):
        def update(self, n: float | None = 1) -> bool | None:
            count(int(n or 0))
            return None

        def update_transfer(self, n: float | None = 1) -> None:
            count(0)

        def set_transfer_postfix_str(self, *_: object, **__: object) -> None:
            pass

    return Bar
