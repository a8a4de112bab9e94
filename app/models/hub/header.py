"""The header of a model on the hub, read without downloading the model."""

from __future__ import annotations

from contextlib import closing, suppress
from time import monotonic

from huggingface_hub import hf_hub_url

from app.core.errors import HubError, ModelFileError, WaitError
from app.models.gguf import GgufHeader, HeaderError, HeaderIncompleteError, parse_header, read_header
from app.models.hub import cache
from app.models.hub.choose import RemoteFile
from app.models.hub.client import RestUnknownError, bytes_behind
from app.models.hub.errors import translated
from app.models.hub.request import LOOKUP_S, UNWATCHED, Deadline, Retries, RetryPolicy, Watcher, waiting_for_hub

_LARGEST, _LARGEST_KEPT = 1 << 28, 1 << 25
"""Bytes; headers have up to 16 MB, and what lies here with a wrong length in it must not ask for all that there are."""
_PIECE = 1 << 20
_RARE = 10
_HOLE = bytes(4096)
"""What a power cut may leave in the place of what was never written; headers have no such row of zeros."""


def read_remote_header(
    repo: str,
    commit: str,
    file: RemoteFile,
    retry: RetryPolicy,
    watcher: Watcher = UNWATCHED,
    *,
    damaged: bool = False,
) -> GgufHeader:
    """Read a header: from the disk as far as the file is here, and the rest through the network, a few megabytes.

    Args:
        repo: Its repository.
        commit: The revision.
        file: The file.
        retry: How to wait, and whether to stop.
        watcher: Told how it goes.
        damaged: Whether the file is here and is not what it should be: then all comes through the network.

    Raises:
        HubError: It cannot be had, or the file is no GGUF model; `HubTimeoutError` at the deadline.
        Interrupted: Cancelled.
    """
    if damaged:
        return _Reading(repo, commit, _Beginning(file, _LARGEST), retry, watcher).run()
    if (here := cache.cached(repo, commit, file.path, file.size)) is not None:
        # What lies here may be damaged, and is what the download would find.
        with suppress(ModelFileError):
            return read_header(here, tensors=True)
    beginning, has_begun = _Beginning(file, _LARGEST_KEPT), False
    # No one has checked yet what lies there; the hub has the true bytes.
    with suppress(HeaderError):
        if (header := beginning.take_what_came(repo)) is not None:
            return header
        has_begun = beginning.n_from_disk > 0
    if not has_begun:
        beginning = _Beginning(file, _LARGEST)
    return _Reading(repo, commit, beginning, retry, watcher).run()


class _Beginning:
    """The first bytes of a model file, looked at while they become more, until its header is whole.

    Args:
        file: The file.
        most: Bytes that a header can have.
    """

    def __init__(self, file: RemoteFile, most: int) -> None:
        self.file = file
        self.end = min(file.size, most)
        self.n_from_disk = 0
        self._data = bytearray()
        self._next_look = 0
        self._next_look_at = monotonic()

    def __len__(self) -> int:
        return len(self._data)

    def take(self, piece: bytes | memoryview) -> GgufHeader | None:
        """Add what follows; returns the header once it is found to be whole.

        Every look begins at the first byte, so they must be rare: on a fast line there is one when twice as much has
        come, on a slow one after ten times as long as the last one took.

        Raises:
            HeaderError: It is none.
        """
        self._data += piece
        is_time = len(self) >= min(self._next_look, self.end) or monotonic() >= self._next_look_at
        return self.look() if is_time else None

    def look(self) -> GgufHeader | None:
        """The header, if it is whole; otherwise like `take`."""
        began = monotonic()
        try:
            return parse_header(bytes(self._data), tensors=True)
        except HeaderIncompleteError:
            ended = monotonic()
            self._next_look, self._next_look_at = 2 * len(self), ended + _RARE * (ended - began)
            return None

    def take_what_came(self, repo: str) -> GgufHeader | None:
        """Take what a download that was cut has left; otherwise like `take`."""
        header: GgufHeader | None = None
        with suppress(OSError, HubError), cache.downloaded_part(repo, self.file).open("rb") as kept:
            while header is None and (piece := kept.read(min(_PIECE, self.end - len(self)))):
                header = self.take(piece)
        if header is None and len(self):
            header = self.look()
        self.n_from_disk = len(self)
        if header is None and len(self) == self.end:
            raise HeaderIncompleteError
        if _HOLE in self._data[: header.n_bytes if header is not None else None]:
            raise HeaderError("it has a hole")
        return header


class _Reading:
    """Read a header by range requests.

    Args:
        repo: The repository.
        commit: Its revision.
        beginning: What is here.
        retry: How to wait, and whether to stop.
        watcher: Told how it goes.
    """

    def __init__(self, repo: str, commit: str, beginning: _Beginning, retry: RetryPolicy, watcher: Watcher) -> None:
        self._repo = repo
        self._file = beginning.file
        self._url = hf_hub_url(repo, self._file.path, revision=commit)
        self._beginning = beginning
        self._retry = retry
        self._watcher = watcher
        self._deadline = Deadline(LOOKUP_S)
        self._n_reported = 0

    def run(self) -> GgufHeader:
        """Read on until the header is whole; see `read_remote_header`."""
        self._report()
        retries = Retries(self._retry, self._watcher, self._deadline)
        while True:
            had = len(self._beginning)
            self._watcher.waiting(waiting_for_hub(), 0)
            try:
                with translated(self._repo):
                    return self._deadline.run(self._request, self._retry.cancelled, self._report)
            except WaitError as error:
                if len(self._beginning) > had:
                    retries.reset()
                retries.wait(error)

    def _report(self) -> None:
        """Tell the watcher how many bytes are here, on the thread that waits for them."""
        n = len(self._beginning)
        if n != self._n_reported:
            self._watcher.received(n - self._n_reported)
            self._n_reported = n

    def _request(self) -> GgufHeader:
        """Request the missing bytes on a background thread; hang up once the header is whole or no longer needed."""
        try:
            with closing(bytes_behind(self._url, self._file, len(self._beginning), self._beginning.end)) as pieces:
                for piece in pieces:
                    self._deadline.check(self._retry.cancelled)
                    self._deadline.extend(len(piece))
                    if (header := self._beginning.take(piece)) is not None:
                        return header
            if len(self._beginning) == self._beginning.end:
                raise HeaderIncompleteError
        except RestUnknownError:
            self._begin_anew()
            raise
        except HeaderError as error:
            if self._beginning.n_from_disk:
                self._begin_anew()
                raise WaitError(f"What is here of {self._file.path} is damaged.", "It is read from the hub.") from None
            is_short = isinstance(error, HeaderIncompleteError)
            what = "damaged: it ends inside its header" if is_short else f"not a GGUF model: {error}"
            raise HubError(f"{self._file.path} of {self._repo} is {what}.", "Choose another file.") from None
        raise WaitError(f"The connection broke while {self._file.path} was looked at.")

    def _begin_anew(self) -> None:
        self._beginning = _Beginning(self._file, _LARGEST)
