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

from app.errors import Interrupted
from app.hub import store
from app.hub.checksum import Checksum
from app.hub.order import Order
from app.hub.transfer import Transfer
from app.hub.trouble import translated

_BUSY_S = 1.0


def fetch(order: Order) -> Path:
    """Bring one file of a repository into the cache, or find it there; returns the path to load.

    What has come stays on disk, whatever happens, and the next call goes on behind it.

    Raises:
        HubError: It cannot be had; `CacheError` if it is the disk.
        Interrupted: Cancelled.
    """
    repo, commit, file = order.repo, order.commit, order.file
    if (here := store.cached(repo, commit, file.path)) is not None:
        order.watcher.found(file.size)
        return here
    with translated(repo):
        if file.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
            return _by_client(order)
        content = store.blob(repo, file)
        content.parent.mkdir(parents=True, exist_ok=True)
        with _turn(order):
            if not content.exists():
                Transfer(order).run()
            else:
                order.watcher.found(file.size)
        # Outside of the lock: the client takes the same one to make the link.
        return store.place(repo, commit, file)


def _by_client(order: Order) -> Path:
    """The hub serves its largest files by a protocol that only its own client speaks, and that resumes by itself."""

    def count(n_bytes: int) -> None:
        order.stop_if_cancelled()
        order.watcher.received(n_bytes)

    file = order.file
    path = Path(hf_hub_download(order.repo, file.path, revision=order.commit, tqdm_class=_counting_bar(count)))
    with Checksum(path) as checksum:
        right = order.check(checksum)
    if not right:
        path.resolve().unlink()
        raise order.damaged
    return path


@contextmanager
def _turn(order: Order) -> Iterator[None]:
    """Wait until no other program writes the same content."""
    while True:
        with store.locked(order.repo, order.file) as ours:
            if ours:
                order.watcher.waiting("", 0)
                yield
                return
        order.watcher.waiting("another program is downloading this file", _BUSY_S)
        if order.cancelled() or order.patience.pause(_BUSY_S):
            raise Interrupted


def _counting_bar(count: Callable[[int], None]) -> Any:
    """A progress bar, as the client wants one, that only counts."""

    class Bar(tqdm):
        def update(self, n: float | None = 1) -> bool | None:
            count(int(n or 0))
            return None

    return Bar
