"""One chat at one moment, as values that any reader can render."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from app.conversations.tree import Node, Tree
from app.engine.types import Drafting, DraftParams
from app.models.pair_info import PairInfo


class Phase(Enum):
    """Phase of a chat."""

    LOADING = auto()
    READY = auto()
    ANSWERING = auto()
    UNLOADED = auto()
    """Loading failed."""


class Blocked(Enum):
    """Why no prompt can be sent now."""

    ANSWERING = auto()
    UNLOADED = auto()
    WAITING = auto()
    """A prompt already waits for the models."""
    PREPARING = auto()
    """The files of a prompt are being read."""


@dataclass(frozen=True, slots=True)
class DraftState:
    """Drafting of the next answer.

    Attributes:
        is_on: Whether it is drafted at all.
        is_available: Whether drafting can be turned on.
        source: Where drafts come from, in a word or two.
        n_max: Fixed draft length; 0 where it is not fixed.
        reason: Why drafting is not available, as a sentence.
    """

    is_on: bool
    is_available: bool
    source: str
    n_max: int = 0
    reason: str = ""

    @classmethod
    def of(cls, drafting: Drafting, pair: PairInfo | None, *, switched_on: bool) -> DraftState:
        """Return the state for a setting, the loaded pair and the user's switch."""
        available = drafting is not None if pair is None else bool(pair.sources(drafting))
        if not available:
            why = pair.why_plain(drafting) if pair is not None else ""
            return cls(
                False, False, "no draft", reason=f"{why[:1].upper()}{why[1:]}." if why else "There is no draft model."
            )
        if not switched_on:
            return cls(False, True, "draft off")
        if isinstance(drafting, DraftParams):
            return cls(True, True, "model" if drafting.n_max else "none: n_max is 0", drafting.n_max)
        return cls(True, True, "automatic")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a reader shows of a chat.

    Attributes:
        phase: What the engine does.
        title: Name of the pair that is loaded, or is being loaded.
        loads: How many pairs were loaded or are being loaded.
        pair: The loaded pair; None without one.
        switches: How often a conversation was begun or opened.
        conversation: Its id; None until its first prompt.
        tree: Its messages with every branch.
        messages: The active branch; a prompt that waits for the models stands at its end with negative ids.
        running: Id of the answer being written; None without one.
        waiting: The prompt that waits for the models; None without one.
        drafting: How the next answer is drafted.
        blocked: Why no prompt can be sent; None if one can.
        can_regenerate: Whether the last prompt can be answered again.
    """

    phase: Phase
    title: str
    loads: int
    pair: PairInfo | None
    switches: int
    conversation: int | None
    tree: Tree
    messages: tuple[Node, ...]
    running: int | None
    waiting: str | None
    drafting: DraftState
    blocked: Blocked | None
    can_regenerate: bool
