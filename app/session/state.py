"""State of a chat for its reader: the phase, why nothing can be asked, how an answer ended, and what has changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto

from app.conversations.message import Ending
from app.core.errors import AppError
from app.engine.drafting_report import sentence
from app.engine.types import Drafting, DraftParams
from app.models.model_names import file_type, known_as
from app.models.pair_info import PairInfo


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of an answer.

    Attributes:
        counts: Whether the conversation continues from it.
        reverted: Whether the earlier answer, or the earlier end of this answer, is active again.
        returned: Queued prompts of the open conversation that were not sent, as one text.
    """

    ending: Ending
    prompt: str
    thought: bool = False
    counts: bool = False
    reverted: bool = False
    conversation: int | None = None
    is_open: bool = True
    returned: str = ""


def model_names(pair: PairInfo) -> dict[str, str]:
    """Return both models by role, each with its quantization."""
    models = {"target": pair.target} | ({"draft": pair.draft} if pair.draft is not None else {})
    return {
        role: f"{known_as(model.file, model.name)} {file_type(model.quantization)}".strip()
        for role, model in models.items()
    }


class Phase(Enum):
    LOADING = auto()
    READY = auto()
    ANSWERING = auto()
    UNLOADED = auto()
    """Loading failed."""


class Blocked(Enum):
    """Why nothing can be asked or changed now."""

    ANSWERING = "An answer is being written"
    UNLOADED = "No pair is loaded"
    WAITING = "A prompt is already waiting"
    ELSEWHERE = "Another conversation is being answered; wait for its end, or open it to stop it"
    LOADING = "The pair is still loading"


class BlockedError(AppError):
    """A command that is not possible now."""

    def __init__(self, why: Blocked) -> None:
        super().__init__(f"{why.value}.")
        self.why = why


@dataclass(frozen=True, slots=True)
class DraftState:
    """Drafting of the next answer.

    Attributes:
        mode: "automatic", "fixed", "off", or "no draft" if none is possible.
        n_max: Fixed draft length, or 0.
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
            why = pair.why_no_draft(drafting) if pair is not None else None
            return cls(False, False, "no draft", reason=sentence(why or "there is no draft model"))
        if not switched_on:
            return cls(False, True, "off")
        if isinstance(drafting, DraftParams):
            return cls(True, True, "fixed" if drafting.n_max else "none: n_max is 0", drafting.n_max)
        return cls(True, True, "automatic")


class Change(Flag):
    """A change of the session, which has the state after it."""

    NOTHING = 0
    LOADING = auto()
    """A pair began to load."""
    LOADED = auto()
    """The requested pair is loaded."""
    PAIR = auto()
    """The loaded pair changed without a command."""
    UNLOADED = auto()
    """Loading failed."""
    WAITING = auto()
    """A prompt waits for the models."""
    ASKED = auto()
    """An answer in the open conversation began."""
    COMPACTED = auto()
    """The running answer continues without earlier messages."""
    OPENED = auto()
    """Another conversation is open."""
    CALLS = auto()
    """A tool call waits for the user, runs, or has returned."""
    BRANCH = auto()
    """Another branch of the open conversation is active."""
    COUNTED = auto()
    """The tokens of the typed prompt were counted."""
    MEASURED = auto()
    """A measurement of the pair ended."""
    PROGRESS = auto()
    """The event is text or progress for the reader of the open conversation."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes, and how an answer or a load ended, if it did."""

    what: Change = Change.NOTHING
    ended: Outcome | None = None
