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

from app.core.errors import HubError, Interrupted, WaitError
from app.models.hub import store
from app.models.hub.checksum import Checksum
from app.models.hub.download_request import DownloadRequest
from app.models.hub.errors import raise_if_full, short, translated
from app.models.hub.retry import Retries
from app.models.hub.transfer import Transfer

_BUSY_S = 1.0


def is_damaged(request: DownloadRequest) -> bool:
    """Whether a file is here, all of it, and is not what it should be by its checksum; it stays as it is.

    Another program may have brought it, none of which looks at what it brings, or the disk may have failed since.

    Raises:
        HubError: The disk refuses, or the hub does not tell what its content is called.
        Interrupted: Cancelled.
    """
    with translated(request.repo):
        here = store.whole(request.repo, request.commit, request.file)
        return here is not None and not _is_right(request, here)


def fetch(request: DownloadRequest) -> Path:
    """Bring one file of a repository into the cache, or find it there; returns the path to load.

    What has come stays on disk, whatever happens, and the next call goes on behind it. What is here and damaged stays
    until what takes its place has come and is right.

    Raises:
        HubError: It cannot be had; `CacheError` if it is the disk.
        Interrupted: Cancelled.
    """
    repo, commit, file = request.repo, request.commit, request.file
    if not request.doubted and (named := store.cached(repo, commit, file.path, file.size)) is not None:
        request.watcher.found(file.size)
        return named
    with translated(repo):
        if file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
            return _by_client(request)
        with _turn(request):
            # Now: what is deleted meanwhile takes the empty folder with it.
            store.blob(repo, file).parent.mkdir(parents=True, exist_ok=True)
            # Whoever had the turn before may have brought it.
            here = store.whole(repo, commit, file)
            if here is None or (request.doubted and not _is_right(request, here)):
                Transfer(request).run()
            else:
                request.watcher.found(file.size)
                if here != store.blob(repo, file):
                    return here
            return store.place(repo, commit, file)


def _is_right(request: DownloadRequest, here: Path) -> bool:
    """Whether what lies here is the file: by its name in the cache, and by the hub where that tells no checksum."""
    with Checksum(here) as checksum:
        return request.check(checksum, store.sha256_of(here) or request.file.sha256)


def _by_client(request: DownloadRequest) -> Path:
    """The hub serves its largest files by a protocol that only its own client speaks, and that resumes by itself.

    What it gives up the client throws away: only bytes behind all that came before are new. It puts what has come into
    its place before anybody can check that, also in the place of what was found damaged.
    """
    came = furthest = 0

    def count(n_bytes: int) -> None:
        nonlocal came
        request.stop_if_cancelled()
        came += n_bytes
        request.watcher.received(n_bytes)

    retries = Retries(request.retry, request.watcher)
    while True:
        try:
            path = _asked(request, count)
            break
        except WaitError as error:
            if came > furthest:
                retries.renew()
                furthest = came
            request.watcher.found(-came)
            came = 0
            retries.wait(error)
    with Checksum(path) as checksum:
        right = request.check(checksum, request.file.sha256)
    if not right:
        path.resolve().unlink()
        raise request.damaged
    return path


def _asked(request: DownloadRequest, count: Callable[[int], None]) -> Path:
    """What the client brings in one go."""
    bar = _counting_bar(count)
    try:
        with translated(request.repo):
            return Path(
                hf_hub_download(
                    request.repo,
                    request.file.path,
                    revision=request.commit,
                    tqdm_class=bar,
                    force_download=request.doubted,
                )
            )
    except RuntimeError as error:
        # The library that speaks that protocol says so whatever went wrong.
        with translated(request.repo):
            raise_if_full(error, store.folder())
        raise WaitError(f"The download of {request.file.path} broke: {short(error)}.") from error
    except ValueError as error:
        # Without that library.
        raise HubError(f"{request.file.path} cannot be downloaded here: {short(error)}.") from error


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

        def update_transfer(self, n: float | None = 1) -> None:
            # What has arrived is counted once it is written; without this the client counts it in a second bar.
            count(0)

        def set_transfer_postfix_str(self, *_: object, **__: object) -> None:
            pass

    return Bar
