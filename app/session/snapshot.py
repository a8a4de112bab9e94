"""One chat at one moment, as values that any reader can render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from app.conversations.tree import Node, Tree
from app.engine.drafting_report import sentence
from app.engine.types import Drafting, DraftParams
from app.models.pair_info import PairInfo
from app.session.library import Mark


class Phase(Enum):
    """Phase of a chat."""

    LOADING = auto()
    READY = auto()
    ANSWERING = auto()
    UNLOADED = auto()
    """Loading failed."""


@dataclass(frozen=True, slots=True)
class DraftState:
    """Drafting of the next answer.

    Attributes:
        mode: "automatic", "fixed", "off", or "no draft" if none is possible.
        n_max: Fixed draft length; 0 where it is not fixed.
        reason: Why drafting is not available, as a sentence.
    """

    is_on: bool
    is_available: bool
    mode: str
    n_max: int = 0
    reason: str = ""

    @classmethod
    def of(cls, drafting: Drafting, pair: PairInfo | None, *, switched_on: bool) -> DraftState:
        """Return the state for a setting, the loaded pair and the user's switch."""
        available = drafting is not None if pair is None else bool(pair.sources(drafting))
        if not available:
            why = pair.why_no_draft(drafting) if pair is not None else ""
            return cls(False, False, "no draft", reason=sentence(why or "there is no draft model"))
        if not switched_on:
            return cls(False, True, "off")
        if isinstance(drafting, DraftParams):
            return cls(True, True, "fixed" if drafting.n_max else "none: n_max is 0", drafting.n_max)
        return cls(True, True, "automatic")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a reader shows of a chat.

    Attributes:
        title: Name of the pair that is loaded, or is being loaded.
        loads: How many pairs were loaded or are being loaded.
        switches: How often a conversation was begun or opened.
        messages: The active branch; a prompt that waits for the models stands at its end with negative ids.
        running: Id of the answer being written in this conversation.
        waiting: The prompt that waits for the models.
        queued: Further prompts of this conversation that wait, first one first.
        answered_elsewhere: The conversation that is being answered, if it is another one.
        marks: What happens in conversations that are not open, by id.
        active: Settings in force that change answers, such as a preset.
        n_typed: Tokens of the conversation with the typed prompt; None if they were not counted.
        drafting: How the next answer is drafted.
        is_compacting: Whether earlier messages are being summarized for the answer.
        titles: How many titles the model has written.
    """

    phase: Phase
    title: str
    loads: int
    pair: PairInfo | None
    switches: int
    tree: Tree
    messages: tuple[Node, ...]
    running: int | None
    waiting: str | None
    drafting: DraftState
    is_compacting: bool = False
    titles: int = 0
    queued: tuple[str, ...] = ()
    answered_elsewhere: int | None = None
    marks: Mapping[int, Mark] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    n_typed: int | None = None
