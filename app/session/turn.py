"""The last prompt of a branch, how its answer ended, and what is stored with it."""

from __future__ import annotations

from dataclasses import dataclass

from app.conversations.message import Ending, Role
from app.conversations.tree import Node, State
from app.models.model_names import file_type, known_as
from app.models.pair_info import PairInfo


@dataclass(frozen=True, slots=True)
class Turn:
    """The last prompt of the active branch; the next prompt replies to the message `parent`."""

    prompt: Node | None = None
    is_answered: bool = False
    parent: int | None = None

    @classmethod
    def of(cls, path: tuple[Node, ...]) -> Turn:
        """Return the last turn; a prompt without a usable answer is not continued from."""
        last = path[-1] if path else None
        if last is None or last.role is Role.USER:
            return cls(last, parent=last.parent if last is not None else None)
        # Between a prompt and its last answer there may be calls of tools and their results.
        above = (node for node in reversed(path[:-1]) if not (node.role is Role.TOOL or node.calls))
        first = next(above, None) if last.role in (Role.ASSISTANT, Role.TOOL) else None
        prompt = first if first is not None and first.role is Role.USER else None
        if prompt is not None and not counts(last):
            return cls(prompt, parent=prompt.parent)
        return cls(prompt, is_answered=prompt is not None, parent=last.id)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of an answer.

    Attributes:
        prompt: What it was to answer.
        thought: Whether it holds reasoning.
        counts: Whether the conversation continues from it.
        reverted: Whether the earlier answer, or the earlier end of this one, is active again.
        conversation: Id of the conversation.
        is_open: Whether that is the open one.
        returned: Prompts that waited in the open conversation and are not sent after all, as one text.
    """

    ending: Ending
    prompt: str
    thought: bool = False
    counts: bool = False
    reverted: bool = False
    conversation: int | None = None
    is_open: bool = True
    returned: str = ""


def counts(answer: Node) -> bool:
    """Return whether the conversation continues from an answer."""
    return bool(answer.text.strip() or answer.calls or answer.role is Role.TOOL) and answer.state is not State.WRITING


def model_names(pair: PairInfo) -> dict[str, str]:
    """Return both models by role, each with its quantization."""
    models = {"target": pair.target} | ({"draft": pair.draft} if pair.draft is not None else {})
    return {
        role: f"{known_as(model.file, model.name)} {file_type(model.quantization)}".strip()
        for role, model in models.items()
    }
