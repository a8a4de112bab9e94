"""The bytes of one file, request after request, until all are there and right."""

from __future__ import annotations

import os
from typing import BinaryIO

import httpx2
from huggingface_hub import hf_hub_url
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

from app import atomic
from app.errors import HubError, WaitError
from app.hub import store
from app.hub.bounded import session
from app.hub.checksum import Checksum
from app.hub.download_request import DownloadRequest
from app.hub.errors import host, translated
from app.hub.retry import Retries

_MOST_DIGITS = 20
_TIMEOUT = httpx2.Timeout(20.0, connect=10.0)


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
            right = self._download.check(checksum)
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
        headers = build_hf_headers()
        if self._have:
            headers["Range"] = f"bytes={self._have}-"
        # A compressed answer could not be continued by its length.
        headers["Accept-Encoding"] = "identity"
        with session().stream("GET", self._url, headers=headers, timeout=_TIMEOUT, follow_redirects=True) as response:
            if response.status_code == 416:
                self._start_over(out, checksum)
                raise WaitError("The hub no longer knows the rest of the file.", "It is downloaded from its beginning.")
            hf_raise_for_status(response)
            self._check_answer(response)
            self._take(response, out, checksum)
        if self._have < self._file.size:
            raise WaitError(f"The connection to {host()} ended too early.", "What is downloaded already is kept.")

    def _take(self, response: httpx2.Response, out: BinaryIO, checksum: Checksum) -> None:
        """Write an answer down as it arrives: what is collected for larger chunks would be lost with the connection."""
        # A server that cannot continue sends all again; what is here stays, in case it is cut short again.
        skip = 0 if response.status_code == 206 else self._have
        for chunk in response.iter_raw():
            self._download.stop_if_cancelled()
            new = memoryview(chunk)[skip:]
            skip = max(0, skip - len(chunk))
            if self._have + len(new) > self._file.size:
                raise HubError(
                    f"{self._file.path} is longer than the hub said.", "It may have changed; ask again in a minute."
                )
            while new:
                # Unbuffered: what was counted is the system's even when this process is killed.
                n = out.write(new)
                self._have += n
                self._download.watcher.received(n)
                new = new[n:]
            checksum.reach(self._have)

    def _check_answer(self, response: httpx2.Response) -> None:
        """Whether these are bytes of the file asked for, and from the place asked for."""
        total = _length(response)
        if total is not None and total != self._file.size:
            raise HubError(
                f"{self._file.path} has {total:,} bytes now; the hub said {self._file.size:,}.",
                "It changed in between, or a network login page answered. Ask again in a minute.",
            )
        if response.status_code == 206:
            start = response.headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
            if start != str(self._have):
                raise HubError(f"{host()} sends another part of {self._file.path} than asked for.", "Ask again later.")

    def _start_over(self, out: BinaryIO, checksum: Checksum) -> None:
        out.truncate(0)
        self._forget()
        checksum.reach(0)

    def _forget(self) -> None:
        self._download.watcher.found(-self._have)
        self._have = 0


def _length(response: httpx2.Response) -> int | None:
    """Length of the whole file, as an answer tells it."""
    if response.status_code == 206:
        text = response.headers.get("content-range", "").rpartition("/")[2]
    else:
        text = response.headers.get("content-length", "")
    # Python's digits are not only those of a number, and it refuses to read very many of them.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
