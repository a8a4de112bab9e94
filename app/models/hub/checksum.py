"""The checksum of a file while it comes, so that nobody waits for it afterwards.

A second thread reads what the first has written, out of the system's cache. Reading and hashing both let the other
threads of Python run, so on a second core they take no time of the download's; and what an earlier download left is
reckoned while the rest comes already.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType

_BLOCK = 1 << 20
_LOOK_S = 0.2


class Checksum:
    """SHA-256 of a growing file; a context manager, that has let go of the file when it is left.

    Args:
        path: The file; it exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lengths: SimpleQueue[int | None] = SimpleQueue()
        self._told = 0
        self._read = 0
        self._abandoned = False
        self._digest: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name="checksum", daemon=True)
        self._thread.start()

    def __enter__(self) -> Checksum:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._abandoned = True
        self._lengths.put(None)
        self._thread.join()

    def reach(self, length: int) -> None:
        """The file has so many bytes by now; fewer than before mean that it was begun anew."""
        if length < self._told or length - self._told >= _BLOCK:
            self._tell(length)

    def hexdigest(self, length: int, on_wait: Callable[[float], None]) -> str:
        """The checksum of the whole file; nothing can be told to `reach` after this.

        Args:
            length: Bytes of the file.
            on_wait: Called several times a second with the share that is reckoned, if that takes so long; what it
                raises ends the wait.

        Raises:
            OSError: The file cannot be read.
        """
        self._tell(length)
        self._lengths.put(None)
        while not wait([self._digest], timeout=_LOOK_S).done:
            on_wait(self._read / max(1, length))
        return self._digest.result()

    def _tell(self, length: int) -> None:
        self._told = length
        self._lengths.put(length)

    def _run(self) -> None:
        try:
            self._digest.set_result(self._follow())
        except BaseException as error:
            self._digest.set_exception(error)

    def _follow(self) -> str:
        digest, block = hashlib.sha256(), memoryview(bytearray(_BLOCK))
        with self._path.open("rb", buffering=0) as file:
            while (length := self._lengths.get()) is not None:
                if length < self._read:
                    digest, self._read = hashlib.sha256(), file.seek(0)
                # Fewer bytes than told are no checksum of anything, and are found so.
                while (
                    self._read < length and not self._abandoned and (n := file.readinto(block[: length - self._read]))
                ):
                    digest.update(block[:n])
                    self._read += n
        return digest.hexdigest()
