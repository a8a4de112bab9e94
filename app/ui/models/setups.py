"""Setting pairs up, as the screens see it: what there is, how it goes, and what may be asked for.

Nothing here waits: what takes time goes on elsewhere, and `PairService.look` tells how far it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from app.core.errors import AppError
from app.models.pairing.propose import Fit, in_a_word
from app.session.chat_settings import ChatSettings
from app.ui.models.inquiry import Inquiry

if TYPE_CHECKING:
    from app.worker.engine_worker import Loader


class Stage(Enum):
    """How far the set-up of a pair is."""

    CHECKING = "looking"
    ASKING = "download?"
    DOWNLOADING = "downloading"
    READY = "ready"
    STOPPED = "stopped"
    FAILED = "failed"


_RUNNING = (Stage.CHECKING, Stage.DOWNLOADING)


@dataclass(frozen=True, slots=True)
class Download:
    """One of the two models on its way.

    Attributes:
        role: "target" or "draft".
        done: Bytes on disk.
        total: Bytes in all.
        waiting: Why nothing happens at the moment; "" while it does.
        wait_s: For how many seconds more.
        came: Of those that are here, bytes that have come since it was begun.
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
class Job:
    """The set-up of one pair, asked for since the program began.

    Attributes:
        stage: How far it is.
        downloads: The models on their way, be it that all of one was here but for its name.
        bytes_per_s: Of both together.
        left_s: Seconds left at that speed; None before there is one.
        warnings: What the user should know about the pair.
        error: Why it failed.
        note: What is said when it is opened, as a sentence; "" for nothing.
        to_come: While it asks, bytes that would be downloaded.
        came: While it asks, bytes that are here already, such as an earlier download has left.
        free: While it asks, bytes of the disk that they would come to.
        looking: While it checks, how the headers come, as a clause; "" before and behind that.
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
        return self.stage in _RUNNING

    @property
    def has_downloaded(self) -> bool:
        """Whether anything has come, and not all was here."""
        return any(one.came for one in self.downloads)

    @property
    def share(self) -> float:
        """Of all bytes, those that are here."""
        total = sum(one.total for one in self.downloads)
        return min(1.0, sum(one.done for one in self.downloads) / total) if total else 0.0


@dataclass(frozen=True, slots=True)
class Card:
    """A pair, held against this machine. Texts may come from outside and are shown as they are.

    Attributes:
        name: What `--pair` takes.
        title: One line about it.
        target: Name and quantisation of the target.
        draft: What tells the draft from it; "" without one.
        size: Of both models, as far as it is known.
        fit: Whether it fits; None while the machine is being looked at.
        reason: Why, as a short clause.
        slow: Whether it would answer more slowly than people read.
        why: Why it is proposed before all others, as a sentence; "" if it is not.
        gain: What drafting is to be expected to gain with it, as a sentence; "" where nothing is known.
        good_at: What to take it for.
        licence: Identifier.
        tested_with: Figures that others have published.
        here: Whether its files are on this machine.
        to_come: Bytes that would be downloaded; None where only the hub knows.
        came: Bytes that an earlier download has left, and which are kept.
        set_up: Whether it can be opened at once.
        is_default: Whether it is taken when none is named.
        is_open: Whether the chat has it, or loads it.
        lacks_draft: Whether the chat has it without its draft, which failed; choosing it loads both anew.
        context: Tokens of context that the target was made for and memory has room for; 0 where that is not known.
    """

    name: str
    title: str
    target: str
    draft: str = ""
    size: str = ""
    fit: Fit | None = None
    reason: str = ""
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
    is_default: bool = False
    is_open: bool = False
    lacks_draft: bool = False
    context: int = 0

    @property
    def word(self) -> str:
        """How it stands with the machine, in a word; "" while that is being looked at."""
        return in_a_word(self.fit, slow=self.slow)


@dataclass(frozen=True, slots=True)
class State:
    """Everything at one moment.

    Attributes:
        machine: The machine in one line; "" while it is being looked at.
        cards: The pairs, the most useful first; the same object as long as nothing about them changes.
        jobs: Set-ups by the name of their pair, the latest last.
        inquiry: The question asked last, or None.
        troubles: Why pairs are missing from the list, or cannot be opened.
        busy: Whether something goes on, so that another look is worth while.
    """

    machine: str = ""
    cards: tuple[Card, ...] = ()
    jobs: Mapping[str, Job] = field(default_factory=dict)
    inquiry: Inquiry | None = None
    troubles: tuple[AppError, ...] = ()
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A pair that was taken for the chat.

    Attributes:
        loader: Loads it, on the engine's thread.
        settings: How answers are asked for.
        note: What the user should know when it is taken, as a sentence; "" for nothing.
        typed: What was typed for the prompt while it was set up.
    """

    loader: Loader
    settings: ChatSettings
    note: str = ""
    typed: str = ""


class PairService(Protocol):
    """What the screens need. Every call returns at once."""

    def begin(self) -> None:
        """Look at the machine, once, beside everything else."""

    def look(self) -> State:
        """How everything is now."""

    def start(self, name: str, *, agreed: bool = False) -> None:
        """Set a pair up, or go on where it was stopped.

        Args:
            name: Of the pair.
            agreed: Whether the user knows what will be downloaded; else the set-up asks before anything large comes.
        """

    def cancel(self, name: str) -> None:
        """Stop its set-up; what came stays."""

    def make_default(self, name: str) -> None:
        """Take this pair when none is named.

        Raises:
            AppError: That cannot be written down.
        """

    def ask(self, target: str, draft: str) -> None:
        """Find out about two models as people write them; the draft may be "". Drops the question before."""

    def drop(self) -> None:
        """Nobody waits for the answer any more."""

    def add(self) -> str:
        """Set up what was asked about; returns its name.

        Raises:
            AppError: There is nothing to add.
        """

    def choose(self, name: str) -> Choice:
        """Take a pair for the chat.

        Raises:
            AppError: Its files are not here.
        """

    def close(self, timeout: float | None = None) -> bool:
        """Stop everything; returns whether all threads have ended.

        Args:
            timeout: Seconds to wait; None waits for ever.
        """
