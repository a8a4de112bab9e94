"""How two downloads go: counted on their threads, read by whoever shows them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from app.pairing.resolve import Resolved

_SPEED_S = 5.0


@dataclass(frozen=True, slots=True)
class FileProgress:
    """One of the two downloads.

    Attributes:
        role: "target" or "draft".
        name: The file.
        done: Bytes on disk.
        total: Bytes in all.
        waiting: Why nothing happens at the moment; "" while it does.
        wait_s: For how many seconds more.
    """

    role: str
    name: str
    done: int
    total: int
    waiting: str = ""
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Both downloads.

    Attributes:
        files: Each of them.
        bytes_per_s: Of both together, over the last seconds.
        left_s: Time left at that speed; None before there is one.
    """

    files: tuple[FileProgress, ...]
    bytes_per_s: float
    left_s: float | None


class Tracked:
    """One model's download, counted; implements `app.hub.watcher.Watcher`. Written by one thread, read by another."""

    def __init__(self, role: str, model: Resolved) -> None:
        self.role = role
        self.model = model
        self.came = 0
        self._here = 0
        self._waiting: tuple[str, float] = ("", 0.0)

    def received(self, n_bytes: int) -> None:
        self.came += n_bytes

    def found(self, n_bytes: int) -> None:
        self._here += n_bytes

    def waiting(self, reason: str, seconds: float) -> None:
        self._waiting = (reason, seconds)

    def progress(self) -> FileProgress:
        reason, seconds = self._waiting
        return FileProgress(self.role, self.model.name, self._here + self.came, self.model.size, reason, seconds)


class Meter:
    """Speed over the last seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def read(self, downloads: list[Tracked]) -> Progress:
        files = [one.progress() for one in downloads]
        left = sum(f.total - f.done for f in files)
        at, came = self._clock(), sum(one.came for one in downloads)
        self._seen.append((at, came))
        while len(self._seen) > 2 and at - self._seen[0][0] > _SPEED_S:
            self._seen.popleft()
        started, had = self._seen[0]
        speed = (came - had) / (at - started) if at > started else 0.0
        return Progress(tuple(files), speed, left / speed if speed > 0 else None)
