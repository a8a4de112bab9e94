"""The bytes of one file, request after request, until all are there and right."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO

from huggingface_hub import hf_hub_url

from app.core import atomic
from app.core.errors import WaitError
from app.models.hub import store
from app.models.hub.answer import RestUnknownError, bytes_behind
from app.models.hub.checksum import Checksum
from app.models.hub.download_request import DownloadRequest
from app.models.hub.errors import host, translated
from app.models.hub.retry import Retries


class Transfer:
    """One file on its way into the place where the hub's client looks for its content.

    Args:
        request: What is wanted.
    """

    def __init__(self, request: DownloadRequest) -> None:
        self._download = request
        self._file = request.file
        self._url = hf_hub_url(request.repo, request.file.path, revision=request.commit)
        self._path = store.partial(request.repo, request.file)
        self._have = 0

    def run(self) -> None:
        """Download until all is there and right.

        Raises:
            HubError: Every attempt failed, or it cannot be had.
            Interrupted: Cancelled.
        """
        if self._is_right():
            return
        # The bytes are worthless; once, a broken disk or proxy is given another chance.
        self._download.watcher.waiting("what came was damaged; it is downloaded again", 0)
        if not self._is_right():
            raise self._download.damaged

    def _is_right(self) -> bool:
        """Bring what is missing, and put it into its place; if its checksum is wrong, nothing of it stays."""
        with self._path.open("ab", buffering=0) as out, Checksum(self._path) as checksum:
            self._go_on_behind(out.tell(), out, checksum)
            self._bring_the_rest(out, checksum)
            right = self._download.check(checksum, self._file.sha256)
            if right:
                # A name that outlives a power cut must not lead to bytes that do not.
                os.fsync(out.fileno())
        if right:
            atomic.move_large(self._path, store.blob(self._download.repo, self._file))
        else:
            self._path.unlink(missing_ok=True)
            self._forget()
        return right

    def _go_on_behind(self, had: int, out: BinaryIO, checksum: Checksum) -> None:
        """Count what an earlier download left."""
        self._have = had
        self._download.watcher.found(had)
        checksum.reach(had)
        if had > self._file.size:
            self._start_over(out, checksum)

    def _bring_the_rest(self, out: BinaryIO, checksum: Checksum) -> None:
        retries, had = Retries(self._download.retry, self._download.watcher), self._have
        while self._have < self._file.size:
            self._download.stop_if_cancelled()
            try:
                with translated(self._download.repo):
                    self._request(out, checksum)
            except WaitError as error:
                if self._have > had:
                    retries.renew()
                had = self._have
                retries.wait(error)

    def _request(self, out: BinaryIO, checksum: Checksum) -> None:
        """One request for what is missing; returns when its answer ends and that was all.

        Raises:
            WaitError: It was not all.
        """
        try:
            with closing(bytes_behind(self._url, self._file, self._have)) as chunks:
                self._take(chunks, out, checksum)
        except RestUnknownError:
            self._start_over(out, checksum)
            raise
        if self._have < self._file.size:
            raise WaitError(f"The connection to {host()} ended too early.", "What is downloaded already is kept.")

    def _take(self, chunks: Iterator[memoryview], out: BinaryIO, checksum: Checksum) -> None:
        """Write an answer down as it arrives."""
        for new in chunks:
            self._download.stop_if_cancelled()
            while new:
                # Unbuffered: what was counted is the system's even when this process is killed.
                n = out.write(new)
                self._have += n
                self._download.watcher.received(n)
                new = new[n:]
            checksum.reach(self._have)

    def _start_over(self, out: BinaryIO, checksum: Checksum) -> None:
        out.truncate(0)
        self._forget()
        checksum.reach(0)

    def _forget(self) -> None:
        self._download.watcher.found(-self._have)
        self._have = 0
