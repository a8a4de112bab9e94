"""What the chat keeps of a conversation, as values: where it stands, what it goes on with, an answer's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.conversations.ending import numbers_of
from app.conversations.message import Begun, Message, Role
from app.conversations.tree import Document, Node, State, Tree, said
from app.engine.drafting_report import speedup_of
from app.worker.events import Finished

COUNTS = (State.COMPLETE, State.STOPPED, State.CUT)
"""The answers that a conversation goes on from."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A conversation to go on with.

    Attributes:
        path: What is shown.
        said: What the model reads.
        asked: The last prompt, which can be answered again; None if there is none.
        answered: Whether what the model reads ends with that prompt and its answer.
        draft: What was typed and not sent.
        begun: The answer to that prompt that is to go on; None unless one is.
        settings: The conversation's own settings, as they are kept; whoever reads them checks them.
    """

    path: tuple[Node, ...] = ()
    said: tuple[Message, ...] = ()
    asked: str | None = None
    answered: bool = False
    draft: str = ""
    begun: Begun | None = None
    settings: Document = field(default_factory=dict)


@dataclass(slots=True)
class Place:
    """Where the chat stands in the store.

    Attributes:
        conversation: Its id; None while nothing was said.
        tree: What was said in it, and the active branch.
        replied_to: What the next prompt replies to.
        asked: The prompt that was put last.
        answered: The last answer to it; None if nothing came of it.
        draft: The unsent text that is kept.
        again: Where it stood before another answer was asked for, or more of one; None unless that is so.
        settings: The conversation's own settings.
        is_deleted: Whether it was deleted here, and is about to be left.
    """

    conversation: int | None = None
    tree: Tree = field(default_factory=Tree)
    replied_to: int | None = None
    asked: Node | None = None
    answered: int | None = None
    draft: str = ""
    again: Place | None = None
    settings: Document = field(default_factory=dict)
    is_deleted: bool = False

    def opened(self) -> Opened:
        """What to go on with from here."""
        before, asked = self.tree.path_to(self.replied_to), self.asked
        answered = asked is not None and bool(before) and before[-1].parent == asked.id
        text = asked.text if asked is not None else None
        return Opened(self.tree.path, said(before), text, answered, self.draft, settings=self.settings)


def place_in(conversation: int, tree: Tree, draft: str, settings: Document) -> Place:
    """The place at the end of the active branch."""
    replied_to, asked = _end_of(tree.path)
    last = tree.path[-1] if tree.path else None
    answered = last.id if last is not None and last.role is Role.ASSISTANT else None
    return Place(conversation, tree, replied_to, asked, answered, draft, settings=settings)


def _end_of(path: Sequence[Node]) -> tuple[int | None, Node | None]:
    """What the next prompt replies to, and the prompt that can be answered again.

    A prompt without an answer, or with one that came to nothing, is not gone on from: models read turn and turn about.
    """
    last = path[-1] if path else None
    if last is None or last.role is Role.USER:
        return (last.parent, last) if last is not None else (None, None)
    asked = path[-2] if len(path) > 1 and last.role is Role.ASSISTANT and path[-2].role is Role.USER else None
    if asked is not None and not (last.text.strip() and last.state in COUNTS):
        return asked.parent, asked
    return last.id, asked


def numbers(event: Finished) -> dict[str, Any]:
    """The numbers of an answer, as JSON has them; what was not measured is left out."""
    stats, gain = event.stats, speedup_of(event.stats, event.drafting)
    found = {
        **numbers_of(event.reason, event.repeats, at_limit=event.at_limit),
        "prompt_n": stats.prompt_n,
        "cache_n": stats.cache_n,
        "predicted_n": stats.predicted_n,
        "predicted_per_second": _rounded(stats.predicted_per_second, 2),
        "tokens_per_second": _rounded(stats.tokens_per_second, 2),
        "first_token_ms": round(stats.first_token_ns / 1e6, 1),
        "measuring_ms": round(stats.measuring_ns / 1e6, 1) or None,
        "predicted_ms": round(stats.predicted_ns / 1e6, 1),
        "draft_n": stats.draft_n,
        "draft_n_accepted": stats.draft_n_accepted,
        "acceptance": stats.acceptance_rate,
        "mean_accepted_length": stats.mean_accepted_length,
        "draft_length": stats.draft_n / stats.drafted_steps if stats.drafted_steps else None,
        "model_share": stats.draft_n_model / stats.draft_n if stats.draft_n else None,
        "reading_per_second": _rounded(stats.reading_per_second, 1),
        "mode": event.plan.mode,
        "drafter": event.plan.drafter,
        "speedup": gain.ratio if gain is not None else None,
        "speedup_measured": gain.measured if gain is not None else None,
        "verdict": (gain.verdict or None) if gain is not None else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _rounded(rate: float | None, digits: int) -> float | None:
    return round(rate, digits) if rate is not None else None
