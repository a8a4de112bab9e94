"""Download a file into the cache: resume, verify its checksum, take turns with other programs.

huggingface_hub 2.4 restarts a stopped download and checks no hash. So Tandem downloads the bytes itself, with the
client's HTTP session, to the path where the client looks for them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from huggingface_hub import constants

from app.core import atomic
from app.core.errors import HubError, WaitError
from app.core.fixes import command
from app.models.hub import cache
from app.models.hub.choose import RemoteFile
from app.models.hub.client import stream_from
from app.models.hub.request import Retries, translated
from app.models.progress import Watcher

_BUSY_S = 1.0
_BLOCK_BYTES = 1 << 20
_REPORT_S = 0.2


@dataclass(frozen=True, slots=True)
class Download:
    """Downloads a file of a repository into the cache; resumes an incomplete download.

    Attributes:
        file: The file at a fixed commit, so that every request gets the same bytes.
        watcher: Receives the progress, and cancels the download between two chunks.
    """

    file: RemoteFile
    watcher: Watcher

    def delete_if_damaged(self) -> bool:
        """Delete a complete file with a wrong checksum; return whether there was one.

        Raises:
            HubError: The disk refuses, or Hugging Face sends no checksum.
            Interrupted: Canceled.
        """
        with translated(self.file.repo):
            here = cache.complete(self.file)
            if here is None:
                return False
            # A cached name contains its own checksum; Hugging Face may list another file now.
            expected = cache.sha256_of(here) or self.file.sha256
            with here.open("rb", buffering=0) as file:
                if expected in (None, self._hash(file, here.stat().st_size).hexdigest()):
                    return False
            here.resolve().unlink()
            here.unlink(missing_ok=True)
            return True

    def run(self) -> Path:
        """Download the file, or find it in the cache; return the path to load.

        Downloaded bytes stay on disk, and the next call resumes after them.

        Raises:
            HubError: It is not available; `CacheError` for a disk error.
            Interrupted: Canceled.
        """
        file = self.file
        if file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
            fix = command(["hf", "download", file.repo, file.path, "--revision", file.commit])
            raise HubError(f"{file.path} is above 50 GB, which Hugging Face does not send over HTTP.", f"Run: {fix}")
        with translated(file.repo), self._lock():
            here = cache.complete(file)
            if here is None:
                self._transfer()
            else:
                self.watcher.found(file.size)
                if here != cache.blob_path(file):
                    return here
            return cache.place(file)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        while True:
            with cache.locked_content(cache.blob_path(self.file)) as is_locked:
                if is_locked:
                    self.watcher.waiting(None, 0)
                    yield
                    return
            self.watcher.waiting("Another program is downloading this file", _BUSY_S)
            self.watcher.pause(_BUSY_S)

    def _transfer(self) -> None:
        """Download the missing bytes; start over once if the checksum is wrong."""
        path = cache.partial_path(self.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        for again in (True, False):
            with path.open("a+b", buffering=0) as out:
                digest = self._resume(out)
                # The name must not survive a power cut without its bytes.
                os.fsync(out.fileno())
            if digest == self.file.sha256:
                return atomic.replace(path, cache.blob_path(self.file))
            path.unlink(missing_ok=True)
            self.watcher.found(-self.file.size)
            if again:
                self.watcher.waiting("The file arrived damaged; downloading it again", 0)
        raise HubError(
            f"{self.file.path} arrives damaged: its checksum is not the listed one.",
            "A proxy or a failing disk may change it. Try another network.",
        )

    def _resume(self, out: BinaryIO) -> str:
        have = out.seek(0, os.SEEK_END)
        if have > self.file.size:
            have = out.truncate(0)
        self.watcher.found(have)
        digest, retries, before = self._hash(out, have), Retries(self.watcher), have
        while have < self.file.size:
            self.watcher.check_cancelled()
            try:
                with closing(stream_from(self.file, have)) as chunks:
                    for chunk in chunks:
                        self.watcher.check_cancelled()
                        while chunk:
                            # Unbuffered, so that counted bytes survive if this process is killed.
                            n = out.write(chunk)
                            digest.update(chunk[:n])
                            have += n
                            self.watcher.received(n)
                            chunk = chunk[n:]
            except WaitError as error:
                if have > before:
                    retries.reset()
                before = have
                retries.wait(error)
        return str(digest.hexdigest())

    def _hash(self, file: BinaryIO, length: int) -> Any:
        digest, done, block = hashlib.sha256(), 0, bytearray(_BLOCK_BYTES)
        told = monotonic()
        file.seek(0)
        while done < length and (n := file.readinto(memoryview(block)[: length - done])):  # type: ignore[attr-defined]
            digest.update(memoryview(block)[:n])
            done += n
            if monotonic() - told > _REPORT_S:
                told = monotonic()
                self.watcher.waiting(f"{done / length:.0%} verified", 0)
            self.watcher.check_cancelled()
        self.watcher.waiting(None, 0)
        return digest
