"""Values that describe pairs and their setup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from app.core.errors import AppError
from app.models.catalog import Pair
from app.models.compatibility import Remedy
from app.models.progress import Progress
from app.models.recommend import Fit, Proposal
from app.session.chat_settings import ChatSettings
from app.settings.live import LiveSettings

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A model as its header describes it; `size` in bytes."""

    role: str
    name: str
    quant: str
    size: int
    on_disk: bool = False


@dataclass(frozen=True, slots=True)
class PairReport:
    """Result of checking two models before anything is downloaded.

    Attributes:
        models: The target and, if there is one, the draft.
        problems: Why they are incompatible; empty if they are compatible.
        remedy: How to solve the problems.
        fit: Whether both fit into memory, and why; "" until the machine is known.
        gated: Whether Hugging Face asks to accept terms, and this account did.
    """

    models: tuple[ModelReport, ...]
    problems: tuple[str, ...] = ()
    remedy: Remedy | None = None
    warnings: tuple[str, ...] = ()
    fit: str = ""
    license: str = ""
    gated: bool = False
    download_bytes: int = 0
    free_bytes: int = 0


_NO_TRANSFER = Progress((), 0.0, None)


@dataclass(frozen=True, slots=True)
class SetupProgress:
    """Setup of one pair, or a check without a setup.

    Attributes:
        transfer: The downloads.
        report: Result of the check, once there is one.
        error: Why the setup failed.
        header_progress: Progress of reading model headers; "" if none are read.
    """

    stage: Stage
    transfer: Progress = _NO_TRANSFER
    report: PairReport | None = None
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
        return replace(self, stage=stage, header_progress="", transfer=Progress(files, 0.0, None))


@dataclass(frozen=True, slots=True)
class PairCard:
    """A pair and how it suits this machine. Texts may come from outside and are not yet printable.

    Attributes:
        proposal: The pair weighed against this machine; None until the machine is known.
        target: Name of the target with its quantization.
        draft: Name of the draft as far as it differs from the target; "" without one.
        size: Size of both models, as text.
        why: Why this pair is recommended, as a sentence; "" if it is not.
        gain: Measured effect of drafting, as a sentence; "" if unknown.
        on_disk: Whether its files are on this machine.
        download_bytes: Bytes to download; None if only Hugging Face knows.
        set_up: Whether it can be opened at once.
        is_default: Whether Tandem opens with it.
        is_open: Whether the chat uses or loads it.
    """

    pair: Pair
    proposal: Proposal | None
    target: str
    draft: str = ""
    size: str = ""
    why: str = ""
    gain: str = ""
    on_disk: bool = False
    download_bytes: int | None = 0
    set_up: bool = False
    is_default: bool = False
    is_open: bool = False

    @property
    def name(self) -> str:
        return self.pair.name

    @property
    def word(self) -> str:
        """The fit in one word; "" until the machine is known."""
        return self.proposal.word if self.proposal is not None else ""

    @property
    def reason(self) -> str:
        return self.proposal.reason if self.proposal is not None else ""

    @property
    def speed(self) -> str:
        """The expected tokens per second without drafts, as text; "" if unknown."""
        return self.proposal.pace if self.proposal is not None else ""

    @property
    def is_too_big(self) -> bool:
        return self.proposal is not None and self.proposal.fit is Fit.TOO_BIG

    @property
    def needs_no_download(self) -> bool:
        return self.on_disk or self.set_up or self.is_open

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
    """A pair to load in the chat."""

    loader: Loader
    settings: ChatSettings


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings, and a request to reload the open pair with them (may raise UsageError)."""

    live: LiveSettings
    reopen: Callable[[], LoadRequest]
