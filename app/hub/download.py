"""Downloads into the hub's cache that survive everything: cuts, waits, full disks, wrong bytes.

The client of the hub begins a cut download again from its first byte and checks no hash. So the bytes are fetched
here, by the client's own HTTP session, into the place where the client looks for them; names, links, locks and
credentials stay the client's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import constants, hf_hub_download
from huggingface_hub.utils import tqdm

from app.errors import HubError, Interrupted
from app.hub import store
from app.hub.checksum import Checksum
from app.hub.download_request import DownloadRequest
from app.hub.errors import short, translated
from app.hub.transfer import Transfer

_BUSY_S = 1.0


def fetch(request: DownloadRequest) -> Path:
    """Bring one file of a repository into the cache, or find it there; returns the path to load.

    What has come stays on disk, whatever happens, and the next call goes on behind it.

    Raises:
        HubError: It cannot be had; `CacheError` if it is the disk.
        Interrupted: Cancelled.
    """
    repo, commit, file = request.repo, request.commit, request.file
    if (here := store.cached(repo, commit, file.path, file.size)) is not None:
        request.watcher.found(file.size)
        return here
    with translated(repo):
        if file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
            return _by_client(request)
        store.blob(repo, file).parent.mkdir(parents=True, exist_ok=True)
        with _turn(request):
            if not store.has_content(repo, file):
                Transfer(request).run()
            else:
                request.watcher.found(file.size)
            return store.place(repo, commit, file)


def _by_client(request: DownloadRequest) -> Path:
    """The hub serves its largest files by a protocol that only its own client speaks, and that resumes by itself."""

    def count(n_bytes: int) -> None:
        request.stop_if_cancelled()
        request.watcher.received(n_bytes)

    file = request.file
    try:
        path = Path(hf_hub_download(request.repo, file.path, revision=request.commit, tqdm_class=_counting_bar(count)))
    except RuntimeError as error:
        # The library that speaks that protocol says so whatever went wrong.
        raise HubError(f"The download of {file.path} broke: {short(error)}.", "Ask again to go on.") from error
    with Checksum(path) as checksum:
        right = request.check(checksum)
    if not right:
        path.resolve().unlink()
        raise request.damaged
    return path


@contextmanager
def _turn(request: DownloadRequest) -> Iterator[None]:
    """Wait until no other program writes the same content."""
    while True:
        with store.locked(request.repo, request.file) as ours:
            if ours:
                request.watcher.waiting("", 0)
                yield
                return
        request.watcher.waiting("another program is downloading this file", _BUSY_S)
        if request.cancelled() or request.retry.pause(_BUSY_S):
            raise Interrupted


def _counting_bar(count: Callable[[int], None]) -> Any:
    """A progress bar, as the client wants one, that only counts."""

    class Bar(tqdm):
        def update(self, n: float | None = 1) -> bool | None:
            count(int(n or 0))
            return None

    return Bar
