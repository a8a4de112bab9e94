"""A setup on its own thread, for the command line and the screen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from app.core.errors import AppError, Interrupted
from app.models.catalog import Pair
from app.models.progress import DownloadWatcher, FileProgress, HeaderWatcher, SpeedMeter, duration, speed
from app.models.registry import Registry

if TYPE_CHECKING:
    from app.models.setup import Prepared

_POLL_S = 0.2
_STOP_S = 0.5


class Stage(Enum):
    """Progress of a pair's setup."""

    CHECKING = "checking"
    CHECKED = "download?"
    """Waits for the user's confirmation."""
    DOWNLOADING = "downloading"
    READY = "ready"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SetupProgress:
    """Progress of a pair's setup, or of a check without a setup.

    Attributes:
        files: The downloads; () before they begin.
        header_progress: Progress of reading model headers; None if none are read.
    """

    stage: Stage
    files: tuple[FileProgress, ...] = ()
    bytes_per_s: float = 0.0
    prepared: Prepared | None = None
    error: AppError | None = None
    header_progress: str | None = None

    @property
    def running(self) -> bool:
        return self.stage in (Stage.CHECKING, Stage.DOWNLOADING)

    @property
    def has_downloaded(self) -> bool:
        return any(file.n_received for file in self.files)

    @property
    def share(self) -> float:
        """Share of all bytes that are on disk."""
        total = sum(file.total for file in self.files)
        return min(1.0, sum(file.done for file in self.files) / total) if total else 0.0

    @property
    def left_s(self) -> float | None:
        """Time left at the current speed, once it is known."""
        left = sum(file.total - file.done for file in self.files)
        return left / self.bytes_per_s if self.bytes_per_s > 0 else None

    @property
    def line(self) -> str | None:
        """Describe the downloads in one line, or the check before them."""
        left = f"{duration(self.left_s)} left" if self.left_s is not None and self.left_s >= 1 else None
        return "  ".join(filter(None, (*map(str, self.files), speed(self.bytes_per_s), left))) or self.header_progress

    def ended(self, stage: Stage) -> SetupProgress:
        """Return the last progress of a setup that ended early."""
        files = tuple(replace(file, waiting=None, wait_s=0.0) for file in self.files)
        return replace(self, stage=stage, header_progress=None, files=files, bytes_per_s=0.0)


@dataclass(eq=False)
class SetupTask:
    """Checks a pair, then sets it up; `progress` can be read from any thread.

    Its thread is a daemon, because a network that does not answer must not keep the program alive. It imports Hugging
    Face's client itself, which takes half a second.

    Attributes:
        pair: Returns the pair; called on the thread, may raise AppError.
        installs: Whether to set it up after the check.
        confirmed: Whether models may be downloaded without asking.
        finds_draft: See `app.models.setup.prepare`, also for `finds_projector` and `latest`.
    """

    registry: Registry
    demo_file: Callable[[str], Path]
    pair: Callable[[], Pair]
    prepared: Prepared | None = None
    installs: bool = True
    confirmed: bool = False
    finds_draft: bool = False
    finds_projector: bool = True
    latest: bool = False
    default: bool | None = None

    def __post_init__(self) -> None:
        self._now = SetupProgress(Stage.CHECKING, prepared=self.prepared)
        self._downloads: list[DownloadWatcher] = []
        self._meter = SpeedMeter()
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="setup", daemon=True)
        self.start, self.join, self.is_alive = self._thread.start, self._thread.join, self._thread.is_alive

    @property
    def progress(self) -> SetupProgress:
        now = self._now
        if now.stage is not Stage.DOWNLOADING or not self._downloads:
            return now
        files = tuple(one.now for one in self._downloads)
        return replace(now, files=files, bytes_per_s=self._meter.bytes_per_s(files))

    def cancel(self) -> None:
        """Stop; downloaded bytes stay. A running request may keep the thread alive for seconds."""
        self._stop.set()
        if self._now.running:
            self._now = self.progress.ended(Stage.STOPPED)

    def is_cancelled(self) -> bool:
        return self._stop.is_set()

    def follow(self) -> Iterator[SetupProgress]:
        """Start, and yield the progress until the end. Raises the errors of the steps; Interrupted if canceled."""
        self.start()
        while self.is_alive() and not self.is_cancelled():
            yield self.progress
            self.join(_POLL_S)
        # The thread may wait for a silent connection until its time limit.
        self.join(_STOP_S)
        if self.is_cancelled():
            raise Interrupted
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._work()
        except Interrupted:
            pass
        except Exception as error:
            self._failure = error
            reason = f"Unexpected error: {type(error).__name__}: {error}"
            shown = AppError(reason, "Please report it; downloaded files are kept.")
            if not self.is_cancelled():
                ended = self.progress.ended(Stage.FAILED)
                self._now = replace(ended, error=error if isinstance(error, AppError) else shown)

    def _work(self) -> None:
        from app.models.setup import install, prepare

        prepared = self._now.prepared or prepare(
            self.pair(),
            self.demo_file,
            HeaderWatcher(lambda line: self._report(replace(self._now, header_progress=line)), self._stop),
            finds_draft=self.finds_draft,
            finds_projector=self.finds_projector,
            latest=self.latest,
        )
        if self.installs and (self.confirmed or not prepared.download_bytes):
            self._report(SetupProgress(Stage.DOWNLOADING, prepared=prepared))
            install(prepared, self.registry, self._downloads, self._stop, default=self.default)
            self._now = replace(self.progress, stage=Stage.READY)
            return
        if self.installs:
            prepared.refuse()
        self._report(SetupProgress(Stage.CHECKED, prepared=prepared))

    def _report(self, progress: SetupProgress) -> None:
        if self.is_cancelled():
            raise Interrupted
        self._now = progress
