"""Values that describe pairs and their setup, and the service that provides them to screens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from app.core.errors import AppError
from app.models.compatibility import Remedy
from app.models.recommend import Fit, in_a_word
from app.session.chat_settings import ChatSettings
from app.settings.live import LiveSettings

if TYPE_CHECKING:
    from app.worker.commands import Loader


class Stage(Enum):
    """Progress of a pair's setup."""

    CHECKING = "checking"
    ASKING = "download?"
    DOWNLOADING = "downloading"
    READY = "ready"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Download:
    """One model being downloaded.

    Attributes:
        role: "target" or "draft".
        done: Bytes on disk.
        total: Bytes in all.
        waiting: Why the download pauses; "" while it runs.
        wait_s: Seconds until it continues.
        came: Bytes received since this download started.
    """

    role: str
    done: int
    total: int
    waiting: str = ""
    wait_s: float = 0.0
    came: int = 0

    @property
    def share(self) -> float:
        return min(1.0, self.done / self.total) if self.total else 1.0


@dataclass(frozen=True, slots=True)
class SetupProgress:
    """Setup of one pair.

    Attributes:
        stage: Current stage.
        downloads: Models being downloaded.
        bytes_per_s: Speed of all downloads together.
        left_s: Seconds left at that speed; None if unknown.
        warnings: Warnings about the pair.
        error: Why the setup failed.
        note: Sentence to show when the pair is opened; "" for none.
        to_come: Bytes to download, while it asks.
        came: Bytes already on disk, while it asks.
        free: Free disk space in bytes, while it asks.
        looking: Progress of reading model headers; "" if none are read.
    """

    stage: Stage
    downloads: tuple[Download, ...] = ()
    bytes_per_s: float = 0.0
    left_s: float | None = None
    warnings: tuple[str, ...] = ()
    error: AppError | None = None
    note: str = ""
    to_come: int = 0
    came: int = 0
    free: int = 0
    looking: str = ""

    @property
    def running(self) -> bool:
        return self.stage in (Stage.CHECKING, Stage.DOWNLOADING)

    @property
    def has_downloaded(self) -> bool:
        return any(one.came for one in self.downloads)

    @property
    def share(self) -> float:
        """Share of all bytes that are on disk."""
        total = sum(one.total for one in self.downloads)
        return min(1.0, sum(one.done for one in self.downloads) / total) if total else 0.0


@dataclass(frozen=True, slots=True)
class PairCard:
    """A pair and how it suits this machine. Texts may come from outside and are not yet printable.

    Attributes:
        name: Value for `--pair`.
        title: One-line description.
        target: Name and quantization of the target.
        draft: Name of the draft as far as it differs from the target; "" without one.
        size: Size of both models, as text.
        fit: Whether it fits into memory; None until the machine is known.
        reason: Reason for `fit`, as a short clause.
        speed: Expected tokens per second without drafts, as text; "" if unknown.
        slow: Whether the expected speed is below reading speed.
        why: Why this pair is recommended, as a sentence; "" if it is not.
        gain: Expected effect of drafting, as a sentence; "" if unknown.
        good_at: Tasks that it suits.
        license: License identifier.
        tested_with: Published measurements.
        here: Whether its files are on this machine.
        to_come: Bytes to download; None if only Hugging Face knows.
        came: Bytes that an earlier download left.
        set_up: Whether it can be opened at once.
        is_demo: Whether it is the demo.
        is_default: Whether Tandem opens with it.
        is_open: Whether the chat uses or loads it.
        lacks_draft: Whether the chat uses it without its draft, which failed.
        context: Longest context in tokens that fits into memory; 0 if unknown.
    """

    name: str
    title: str
    target: str
    draft: str = ""
    size: str = ""
    fit: Fit | None = None
    reason: str = ""
    speed: str = ""
    slow: bool = False
    why: str = ""
    gain: str = ""
    good_at: str = ""
    licence: str = ""
    tested_with: str = ""
    here: bool = False
    to_come: int | None = 0
    came: int = 0
    set_up: bool = False
    is_demo: bool = False
    is_default: bool = False
    is_open: bool = False
    lacks_draft: bool = False
    context: int = 0

    @property
    def word(self) -> str:
        """The fit in one word; "" until the machine is known."""
        return in_a_word(self.fit, slow=self.slow)

    @property
    def is_local(self) -> bool:
        """Return whether it can be used without a download."""
        return self.here or self.set_up or self.is_open

    @property
    def is_recommended(self) -> bool:
        return bool(self.why) and not self.is_demo


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A model as its header describes it; `size` in bytes."""

    role: str
    name: str
    quant: str
    size: int
    here: bool = False


@dataclass(frozen=True, slots=True)
class PairReport:
    """Result of checking two models before anything is downloaded.

    Attributes:
        models: The target and, if there is one, the draft.
        problems: Why they are incompatible; empty if they are compatible.
        remedy: How to solve the problems.
        warnings: Other warnings.
        fit: Whether both fit into memory; None until the machine is known.
        reason: Reason for `fit`.
        slow: Whether the expected speed is below reading speed.
        license: License identifier, or "".
        gated: Whether Hugging Face asks to accept terms, and this account did.
        download_bytes: Bytes to download.
        free_bytes: Free disk space.
    """

    models: tuple[ModelReport, ...]
    problems: tuple[str, ...] = ()
    remedy: Remedy | None = None
    warnings: tuple[str, ...] = ()
    fit: Fit | None = None
    reason: str = ""
    slow: bool = False
    licence: str = ""
    gated: bool = False
    download_bytes: int = 0
    free_bytes: int = 0

    @property
    def word(self) -> str:
        """The fit in one word; "" until the machine is known."""
        return in_a_word(self.fit, slow=self.slow)


@dataclass(frozen=True, slots=True)
class SourceCheck:
    """A check of two models; it runs until it has a report or an error.

    Attributes:
        report: The result.
        error: Why the check failed.
        looking: Progress of reading model headers.
        error_role: Model that the error is about, "target" or "draft"; "" if neither.
    """

    report: PairReport | None = None
    error: AppError | None = None
    looking: str = ""
    error_role: str = ""

    @property
    def running(self) -> bool:
        return self.report is None and self.error is None

    @property
    def role_to_correct(self) -> str:
        """Role of the model to change, "target" or "draft"; "" if neither."""
        if self.report is None or self.report.remedy is None:
            return self.error_role
        return "target" if self.report.remedy is Remedy.OTHER_TARGET else "draft"


@dataclass(frozen=True, slots=True)
class PairsState:
    """All pairs at one moment.

    Attributes:
        machine: The machine in one line; "" until it is known.
        cards: The pairs, best first; the same object while nothing changes.
        jobs: Setups by pair name, newest last.
        inquiry: The latest check of two models, or None.
        troubles: Why pairs are missing or cannot be opened.
        busy: Whether work is running, so that the state will change.
    """

    machine: str = ""
    cards: tuple[PairCard, ...] = ()
    jobs: Mapping[str, SetupProgress] = field(default_factory=dict)
    inquiry: SourceCheck | None = None
    troubles: tuple[AppError, ...] = ()
    busy: bool = False

    def with_longer_context(self, n_tokens: int) -> PairCard | None:
        """Return the first other pair whose context can exceed `n_tokens`; ready and fast pairs first."""
        found = [
            card for card in self.cards if card.context > n_tokens and not card.is_open and card.fit is not Fit.TOO_BIG
        ]
        return min(found, key=lambda card: (not card.set_up, card.slow), default=None)


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A pair to load in the chat.

    Attributes:
        loader: Loads it on the engine's thread.
        settings: Generation settings for its answers.
        note: Sentence to show when it is loaded; "" for none.
        typed: Text typed during setup, for the prompt.
    """

    loader: Loader
    settings: ChatSettings
    note: str = ""
    typed: str = ""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings, and a request to reload the open pair with them (may raise UsageError)."""

    live: LiveSettings
    reopen: Callable[[], LoadRequest]


class PairService(Protocol):
    """Pairs for the screens. Every call returns at once."""

    def begin(self) -> None:
        """Start to inspect the machine in the background."""

    def look(self) -> PairsState:
        """Return the current state."""

    def start(self, name: str, *, agreed: bool = False) -> None:
        """Set a pair up, or resume; unless `agreed`, ask before a download."""

    def cancel(self, name: str) -> None:
        """Stop a setup; downloaded bytes stay."""

    def make_default(self, name: str) -> None:
        """Open Tandem with this pair from now on; may raise AppError."""

    def ask(self, target: str, draft: str) -> None:
        """Check two models, given as sources; `draft` may be ""."""

    def drop(self) -> None:
        """Cancel the check."""

    def add(self) -> str:
        """Set up the pair that was checked; return its name. May raise AppError."""

    def choose(self, name: str) -> LoadRequest:
        """Return the request to load a pair; raise AppError if its files are missing."""

    def close(self, timeout: float | None = None) -> bool:
        """Stop everything; return whether all threads ended within `timeout` seconds (None waits)."""
