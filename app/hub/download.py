"""Downloads into the hub's cache that survive everything: cuts, waits, full disks, wrong bytes.

The client of the hub begins a cut download again from its first byte and checks no hash. So the bytes are fetched
here, by the client's own HTTP session, into the place where the client looks for them; names, links, locks and
credentials stay the client's business.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import httpx2
from huggingface_hub import constants, get_session, hf_hub_download, hf_hub_url
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, tqdm

from app.errors import HubError, Interrupted, WaitError
from app.hub import store
from app.hub.choose import RemoteFile
from app.hub.trouble import host, translated

_CHUNK = 1 << 20
_TIMEOUT = httpx2.Timeout(20.0, connect=10.0)
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 60.0
_PATIENCE = 8
"""Failures in a row, without a new byte between them, until it is given up: about four minutes of waiting."""
_TICK_S = 1.0
_BUSY_S = 1.0


class Watcher(Protocol):
    """Told how a download goes, on the thread that downloads."""

    def received(self, n_bytes: int) -> None:
        """More bytes have come."""

    def found(self, n_bytes: int) -> None:
        """More bytes were here already; negative when some turned out to be worthless."""

    def waiting(self, reason: str, seconds: float) -> None:
        """Nothing happens for the reason given, and will not for some seconds; 0 when it goes on."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How to wait. Tests replace it.

    Attributes:
        pause: Waits some seconds; True as soon as the download was cancelled.
        attempts: Failures in a row until it is given up.
    """

    pause: Callable[[float], bool]
    attempts: int = _PATIENCE


def fetch(
    repo: str, commit: str, file: RemoteFile, watcher: Watcher, cancelled: Callable[[], bool], patience: Patience
) -> Path:
    """Bring one file of a repository into the cache, or find it there.

    What has come stays on disk, whatever happens, and the next call goes on behind it.

    Args:
        repo: `owner/name`.
        commit: Its revision, as a commit, so that all requests mean the same bytes.
        file: What to bring.
        watcher: Told how it goes.
        cancelled: Read between two chunks.
        patience: How to wait, and how often.

    Returns:
        The path to load.

    Raises:
        HubError: It cannot be had; `CacheError` if it is the disk.
        Interrupted: Cancelled.
    """
    if (here := store.cached(repo, commit, file.path)) is not None:
        watcher.found(file.size)
        return here
    with translated(repo):
        if file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
            return _by_client(repo, commit, file, watcher, cancelled)
        content = store.blob(repo, file)
        content.parent.mkdir(parents=True, exist_ok=True)
        with _turn(repo, file, watcher, cancelled, patience):
            if not content.exists():
                _Download(repo, commit, file, watcher, cancelled, patience).run()
            else:
                watcher.found(file.size)
        # Outside of the lock: the client takes the same one to make the link.
        return store.place(repo, commit, file)


def _by_client(repo: str, commit: str, file: RemoteFile, watcher: Watcher, cancelled: Callable[[], bool]) -> Path:
    """The hub serves its largest files by a protocol that only its own client speaks, and that resumes by itself."""

    def count(n_bytes: int) -> None:
        if cancelled():
            raise Interrupted
        watcher.received(n_bytes)

    path = Path(hf_hub_download(repo, file.path, revision=commit, tqdm_class=_counting_bar(count)))
    digest = hashlib.sha256()
    with path.open("rb") as whole:
        while chunk := whole.read(_CHUNK):
            digest.update(chunk)
            if cancelled():
                raise Interrupted
    if file.sha256 not in (None, digest.hexdigest()):
        path.resolve().unlink()
        raise _damaged(file)
    return path


def _damaged(file: RemoteFile) -> HubError:
    return HubError(
        f"{file.path} arrives damaged: its checksum is not the one that the hub names.",
        "Something on the way changes it, such as a proxy or a failing disk. Try another network.",
    )


@contextmanager
def _turn(
    repo: str, file: RemoteFile, watcher: Watcher, cancelled: Callable[[], bool], patience: Patience
) -> Iterator[None]:
    """Wait until no other program writes the same content."""
    while True:
        with store.locked(repo, file) as ours:
            if ours:
                watcher.waiting("", 0)
                yield
                return
        watcher.waiting("another program is downloading this file", _BUSY_S)
        if cancelled() or patience.pause(_BUSY_S):
            raise Interrupted


class _Download:
    """One file on its way."""

    def __init__(
        self,
        repo: str,
        commit: str,
        file: RemoteFile,
        watcher: Watcher,
        cancelled: Callable[[], bool],
        patience: Patience,
    ) -> None:
        self._repo = repo
        self._file = file
        self._watcher = watcher
        self._cancelled = cancelled
        self._patience = patience
        self._url = hf_hub_url(repo, file.path, revision=commit)
        self._path = store.partial(repo, file)
        self._hash = hashlib.sha256()
        self._have = 0

    def run(self) -> None:
        """Download until all is there and right.

        Raises:
            HubError: Patience ran out, or it cannot be had.
            Interrupted: Cancelled.
        """
        for last in (False, True):
            with self._path.open("a+b") as out:
                self._read_what_is_here(out)
                self._bring_the_rest(out)
            if self._file.sha256 in (None, self._hash.hexdigest()):
                self._path.replace(store.blob(self._repo, self._file))
                return
            # The bytes are worthless; once, a broken disk or proxy is given another chance.
            self._drop()
            if last:
                break
            self._watcher.waiting("what came was damaged; it is downloaded again", 0)
        raise _damaged(self._file)

    def _read_what_is_here(self, out: BinaryIO) -> None:
        """Take the beginning that an earlier download left into the checksum."""
        self._hash, self._have = hashlib.sha256(), 0
        out.seek(0)
        while chunk := out.read(_CHUNK):
            self._keep(chunk)
            self._watcher.found(len(chunk))
            self._stop_if_cancelled()
        if self._have > self._file.size:
            self._start_over(out)

    def _bring_the_rest(self, out: BinaryIO) -> None:
        failures, had = 0, self._have
        while self._have < self._file.size:
            self._stop_if_cancelled()
            try:
                with translated(self._repo):
                    self._request(out)
            except WaitError as error:
                failures = 1 if self._have > had else failures + 1
                had = self._have
                if failures >= self._patience.attempts:
                    raise HubError(error.message, f"{error.hint} Ask again to go on.") from error
                self._wait(error, failures)

    def _request(self, out: BinaryIO) -> None:
        """One request for what is missing; returns when its answer ends, whether or not that was all."""
        headers = build_hf_headers()
        if self._have:
            headers["Range"] = f"bytes={self._have}-"
        # A compressed answer could not be continued by its length.
        headers["Accept-Encoding"] = "identity"
        with get_session().stream(
            "GET", self._url, headers=headers, timeout=_TIMEOUT, follow_redirects=True
        ) as response:
            if response.status_code == 416:
                self._start_over(out)
                raise WaitError("The hub no longer knows the rest of the file.", "It is downloaded from its beginning.")
            hf_raise_for_status(response)
            self._check_answer(response)
            skip = 0 if response.status_code == 206 else self._have
            # As they arrive: what is collected for a larger chunk would be lost with the connection.
            for chunk in response.iter_raw():
                self._stop_if_cancelled()
                # A server that cannot continue sends all again; what is here stays, in case it is cut short again.
                new = chunk[skip:]
                skip = max(0, skip - len(chunk))
                if self._have + len(new) > self._file.size:
                    raise HubError(
                        f"{self._file.path} is longer than the hub said.", "It may have changed; ask again in a minute."
                    )
                # What was counted is the system's even when this process is killed.
                out.write(new)
                out.flush()
                self._keep(new)
                self._watcher.received(len(new))
        if self._have < self._file.size:
            raise WaitError(f"The connection to {host()} ended too early.", "What is downloaded already is kept.")

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

    def _wait(self, error: WaitError, failures: int) -> None:
        """Wait as long as the hub asks, or a little longer every time, second by second."""
        seconds = (
            error.after_s if error.after_s is not None else min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (failures - 1))
        )
        while seconds > 0:
            self._watcher.waiting(error.message, seconds)
            if self._patience.pause(min(_TICK_S, seconds)):
                raise Interrupted
            seconds -= _TICK_S
        self._watcher.waiting("", 0)

    def _keep(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self._have += len(chunk)

    def _start_over(self, out: BinaryIO) -> None:
        out.truncate(0)
        self._forget()

    def _drop(self) -> None:
        self._path.unlink(missing_ok=True)
        self._forget()

    def _forget(self) -> None:
        self._watcher.found(-self._have)
        self._hash, self._have = hashlib.sha256(), 0

    def _stop_if_cancelled(self) -> None:
        if self._cancelled():
            raise Interrupted


def _length(response: httpx2.Response) -> int | None:
    """Length of the whole file, as an answer tells it."""
    if response.status_code == 206:
        text = response.headers.get("content-range", "").rpartition("/")[2]
    else:
        text = response.headers.get("content-length", "")
    return int(text) if text.isdigit() else None


def _counting_bar(count: Callable[[int], None]) -> Any:
    """A progress bar, as the client wants one, that only counts."""

    class Bar(tqdm):
        def update(self, n: float | None = 1) -> bool | None:
            count(int(n or 0))
            return None

    return Bar
