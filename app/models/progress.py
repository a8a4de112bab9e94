"""Progress of two downloads, shared between threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.models.resolve import Resolved

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
        came: Of those that are here, bytes that have come since it was begun.
    """

    role: str
    name: str
    done: int
    total: int
    waiting: str = ""
    wait_s: float = 0.0
    came: int = 0


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
    """One model's download, counted; implements `app.models.hub.request.Watcher`. Written by one thread, read by
    another.
    """

    def __init__(self, role: str, model: Resolved) -> None:
        self.role = role
        self.model = model
        self.came = 0
        self._here = 0
        self._waiting: tuple[str, float] = ("", 0.0)

    def received(self, n_bytes: int) -> None:
        self.came += n_bytes
        if n_bytes:
            self._waiting = ("", 0.0)

    def found(self, n_bytes: int) -> None:
        self._here += n_bytes

    def waiting(self, reason: str, seconds: float) -> None:
        self._waiting = (reason, seconds)

    def progress(self) -> FileProgress:
        reason, seconds = self._waiting
        came = self.came
        return FileProgress(self.role, self.model.name, self._here + came, self.model.size, reason, seconds, came)


@dataclass(frozen=True, slots=True)
class Looking:
    """The header of a model is read.

    Attributes:
        name: The file.
        n_bytes: What is here of it.
        waiting: Why nothing comes at the moment; "" while it does.
        wait_s: For how many seconds more.
    """

    name: str
    n_bytes: int = 0
    waiting: str = ""
    wait_s: float = 0.0

    @property
    def line(self) -> str:
        """The same in words."""
        if self.waiting:
            again = f", again in {self.wait_s:.0f} s" if self.wait_s else ""
            return f"{self.waiting.rstrip('.')}{again}: {self.name}"
        return f"Looking at {self.name}" + (f": {self.n_bytes / 1e6:.1f} MB of its header" if self.n_bytes else "")


class Look:
    """Tells how a header comes; implements `app.models.hub.request.Watcher`.

    Args:
        name: The file.
        tell: Whom.
    """

    def __init__(self, name: str, tell: Callable[[Looking], None]) -> None:
        self._now = Looking(name)
        self._tell = tell
        tell(self._now)

    def received(self, n_bytes: int) -> None:
        self._change(replace(self._now, n_bytes=self._now.n_bytes + n_bytes, waiting=""))

    def found(self, n_bytes: int) -> None:
        self.received(n_bytes)

    def waiting(self, reason: str, seconds: float) -> None:
        self._change(replace(self._now, waiting=reason, wait_s=seconds))

    def _change(self, now: Looking) -> None:
        self._now = now
        self._tell(now)


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


def speed(bytes_per_s: float) -> str:
    """A download's speed for people; "" while it has none."""
    if bytes_per_s < 1000:
        return ""
    return f"{bytes_per_s / 1e6:.0f} MB/s" if bytes_per_s >= 1e6 else f"{bytes_per_s / 1e3:.0f} kB/s"


def duration(seconds: float) -> str:
    """A time for people."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
