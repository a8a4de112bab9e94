"""Values that describe pairs and their setup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from app.core.errors import AppError
from app.hardware.recommend import Standing
from app.models.progress import DownloadProgress
from app.settings.live import LiveSettings

if TYPE_CHECKING:
    from app.models.setup import Prepared
    from app.worker.engine_worker import Loader


class Stage(Enum):
    """Progress of a pair's setup."""

    CHECKING = "checking"
    CHECKED = "download?"
    """Waits for the user's confirmation."""
    DOWNLOADING = "downloading"
    READY = "ready"
    STOPPED = "stopped"
    FAILED = "failed"


_NO_TRANSFER = DownloadProgress((), 0.0, None)


@dataclass(frozen=True, slots=True)
class SetupProgress:
    """Setup of one pair, or a check without a setup.

    Attributes:
        prepared: Result of the check, once there is one.
        fit: Whether the pair fits into memory, and why; "" until the machine is known.
        error: Why the setup failed.
        header_progress: Progress of reading model headers; empty if none are read.
    """

    stage: Stage
    transfer: DownloadProgress = _NO_TRANSFER
    prepared: Prepared | None = None
    fit: str = ""
    error: AppError | None = None
    header_progress: str = ""

    @property
    def running(self) -> bool:
        return self.stage in (Stage.CHECKING, Stage.DOWNLOADING)

    @property
    def has_downloaded(self) -> bool:
        return any(file.n_received for file in self.transfer.files)

    @property
    def share(self) -> float:
        """Share of all bytes that are on disk."""
        total = sum(file.total for file in self.transfer.files)
        return min(1.0, sum(file.done for file in self.transfer.files) / total) if total else 0.0

    def ended(self, stage: Stage) -> SetupProgress:
        """Return the last progress of a setup that ended early."""
        files = tuple(replace(file, waiting="", wait_s=0.0) for file in self.transfer.files)
        return replace(self, stage=stage, header_progress="", transfer=DownloadProgress(files, 0.0, None))


@dataclass(frozen=True, slots=True)
class PairCard(Standing):
    """A pair and how it suits this machine. Texts may come from outside and are not yet printable.

    Attributes:
        target: Name of the target with its quantization.
        draft: Name of the draft as far as it differs from the target; "" without one.
        size: Size of both models, as text.
        why: Why this pair is recommended, as a sentence; "" if it is not.
        gain: Measured effect of drafting, as a sentence; "" if unknown.
        download_bytes: Bytes to download; None if only Hugging Face knows.
        is_open: Whether the chat uses or loads it.
    """

    target: str = ""
    draft: str = ""
    size: str = ""
    why: str = ""
    gain: str = ""
    download_bytes: int | None = 0
    is_open: bool = False

    @property
    def name(self) -> str:
        return self.pair.name

    @property
    def needs_no_download(self) -> bool:
        return self.here or self.set_up or self.is_open

    def matches(self, words: Sequence[str]) -> bool:
        texts = (self.name, self.pair.title, self.target, self.draft, self.pair.good_at, self.pair.license)
        return all(word in " ".join(texts).lower() for word in words)


@dataclass(frozen=True, slots=True)
class PairsState:
    """All pairs at one moment.

    Attributes:
        machine: The machine in one line; "" until it is known.
        cards: The pairs, best first; the same object while nothing changes.
        setups: Setups by pair name, newest last.
        check: The latest check of two models, or None.
        problems: Why pairs are missing or cannot be opened.
        busy: Whether work is running, so that the state will change.
    """

    machine: str = ""
    cards: tuple[PairCard, ...] = ()
    setups: Mapping[str, SetupProgress] = field(default_factory=dict)
    check: SetupProgress | None = None
    problems: tuple[AppError, ...] = ()
    busy: bool = False


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A pair to load in the chat; `stops` a running answer instead of waiting for its end."""

    loader: Loader
    title: str
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings, and a request to reload the open pair with them (may raise UsageError)."""

    live: LiveSettings
    reopen: Callable[[], LoadRequest]
