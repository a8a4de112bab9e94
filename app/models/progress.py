"""Progress of header requests and downloads; loads no client."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import monotonic

from app.core.errors import Interrupted
from app.core.units import gigabytes

_METER_S = 5.0


class Watcher:
    """Receives the progress of a request or a download; this class only cancels it when `stop` is set."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()

    def begin(self, subject: str) -> None:
        """Start the progress of another model or file. Raises Interrupted once canceled."""
        self.check_cancelled()

    def check_cancelled(self) -> None:
        if self._stop.is_set():
            raise Interrupted

    def pause(self, seconds: float) -> None:
        """Wait before the next attempt. Raises Interrupted when canceled."""
        if self._stop.wait(seconds):
            raise Interrupted

    def received(self, n_bytes: int) -> None:
        """Count bytes that arrived."""

    def found(self, n_bytes: int) -> None:
        """Count bytes that were already here; negative if they turn out to be wrong."""

    def waiting(self, reason: str | None, seconds: float) -> None:
        """Show why no bytes arrive and for how long; no reason means that they arrive again."""


class HeaderWatcher(Watcher):
    """Reports to `on_status`, in one line, how a header is read."""

    def __init__(self, on_status: Callable[[str], None], stop: threading.Event | None = None) -> None:
        super().__init__(stop)
        self._on_status = on_status

    def begin(self, subject: str) -> None:
        super().begin(subject)
        self._name, self._n_bytes = subject, 0
        self._on_status(f"Looking at {subject}")

    def received(self, n_bytes: int) -> None:
        self._n_bytes += n_bytes
        self._on_status(f"Looking at {self._name}: {self._n_bytes / 1e6:.1f} MB of its header")

    def waiting(self, reason: str | None, seconds: float) -> None:
        if reason:
            again = f", again in {seconds:.0f} s" if seconds else ""
            self._on_status(f"{reason.rstrip('.')}{again}: {self._name}")


@dataclass(frozen=True, slots=True)
class FileProgress:
    """One of two downloads.

    Attributes:
        role: "target", "draft", or "vision" for a projector.
        waiting: Why nothing happens at the moment, if so.
        n_received: Bytes on disk that this run received.
    """

    role: str
    done: int
    total: int
    waiting: str | None = None
    wait_s: float = 0.0
    n_received: int = 0

    def __str__(self) -> str:
        if self.waiting:
            seconds = f", again in {self.wait_s:.0f} s" if self.wait_s else ""
            return f"{self.role} {self.waiting.rstrip('.')}{seconds}"
        if self.done >= self.total:
            return f"{self.role} {gigabytes(self.total)} complete"
        return f"{self.role} {gigabytes(self.done)} of {gigabytes(self.total)}"


class DownloadWatcher(Watcher):
    """Counts a model's download; one thread writes it, another reads `now`."""

    def __init__(self, role: str, total: int, stop: threading.Event) -> None:
        super().__init__(stop)
        self.now = FileProgress(role, 0, total)

    def received(self, n_bytes: int) -> None:
        if n_bytes:
            done, n_received = self.now.done + n_bytes, self.now.n_received + n_bytes
            self.now = replace(self.now, done=done, n_received=n_received, waiting=None, wait_s=0.0)

    def found(self, n_bytes: int) -> None:
        self.now = replace(self.now, done=self.now.done + n_bytes)

    def waiting(self, reason: str | None, seconds: float) -> None:
        self.now = replace(self.now, waiting=reason, wait_s=seconds)


class SpeedMeter:
    """Measures the speed over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def bytes_per_s(self, downloads: Iterable[FileProgress]) -> float:
        """Return the speed of all downloads together; 0 at the first call."""
        at, n_received = monotonic(), sum(one.n_received for one in downloads)
        self._seen.append((at, n_received))
        while at - self._seen[0][0] > _METER_S:
            self._seen.popleft()
        started, had = self._seen[0]
        return (n_received - had) / (at - started) if at > started else 0.0


def speed(bytes_per_s: float) -> str:
    """Format a download's speed; empty while it is unknown."""
    if bytes_per_s < 1000:
        return ""
    return f"{bytes_per_s / 1e6:.0f} MB/s" if bytes_per_s >= 1e6 else f"{bytes_per_s / 1e3:.0f} kB/s"


def duration(seconds: float) -> str:
    """Format a duration such as "1 h 5 min" or "2 min"."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return " ".join([f"{minutes} min"] * (minutes > 0) + [f"{rest} s"] * (rest > 0 or not minutes))
