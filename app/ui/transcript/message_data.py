"""Data of a message that is not mounted: enough to show it again and estimate its height."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from math import ceil
from typing import TYPE_CHECKING

from app.conversations.attached import split
from app.conversations.message import Role
from app.conversations.tree import Node
from app.core.errors import AppError
from app.ui.transcript.ended import as_error, in_words, is_final, kept_in_words
from app.ui.transcript.foldable import beginning

if TYPE_CHECKING:
    from app.ui.reading.document import MarkdownDocument
    from app.ui.reading.token_rows import TokenRuns

_FRAME = 2
"""Rows of any message besides its text: who speaks, and a blank one."""


@dataclass(slots=True)
class PromptData:
    """A prompt or a system message.

    Attributes:
        text: All of it, with attachments.
        label: Name of the speaker.
        node: Its id in the conversation.
        opened: Whether each attachment is unfolded.
    """

    text: str
    label: str = "You"
    node: int | None = None
    opened: Sequence[bool] = ()

    @property
    def is_said(self) -> bool:
        return True

    def guess(self, width: int) -> int:
        """Estimate the rows at a width in cells."""
        question, included = split(self.text)
        texts = zip(included, chain(self.opened, repeat(False)), strict=False)
        folded = sum(1 + (_opened(each.text, width) if is_open else 0) for each, is_open in texts)
        return _FRAME + folded + _rows(question, width)


@dataclass(slots=True)
class AnswerData:
    """An answer.

    Attributes:
        text: The answer without reasoning.
        thought: The reasoning.
        seconds: Duration of the reasoning; 0 if unknown.
        opened: Whether the reasoning is unfolded.
        remark: Line below the answer.
        is_final: Whether it cannot be continued.
        error: The failure that ended it.
        token_runs: Who wrote what, if it was seen coming.
        document: The text as it was laid out, where that is expensive; None to do it again.
        node: Its id in the conversation.
    """

    text: str = ""
    thought: str = ""
    seconds: float = 0.0
    opened: bool = False
    remark: str = ""
    is_final: bool = False
    error: AppError | None = None
    token_runs: TokenRuns | None = None
    document: MarkdownDocument | None = None
    node: int | None = None

    @property
    def is_said(self) -> bool:
        """Return whether it is a message; a place where no answer came is none."""
        return self.node is not None or bool(self.text.strip() or self.thought.strip())

    def guess(self, width: int) -> int:
        """Estimate the rows at a width in cells."""
        thought = (2 + (_rows(self.thought, width) if self.opened else 0)) if self.thought else 0
        return _FRAME + _rows(self.text, width) + thought + 2 * bool(self.remark)


MessageData = PromptData | AnswerData


def branch_data(path: Sequence[Node], *, is_running: bool = False) -> Iterator[tuple[MessageData, Node]]:
    """Yield what stands for each message of a branch; a last prompt without an answer is followed by the reason.

    Args:
        path: The messages.
        is_running: Whether the last one is being written, or waits for the models.
    """
    for node in path:
        yield _data(node, is_running=is_running and node is path[-1]), node
    if path and path[-1].role is Role.USER:
        ending = path[-1].ending
        remark, error = in_words(ending, empty=True), as_error(ending)
        if remark or error is not None:
            yield AnswerData(remark=remark, is_final=is_final(ending), error=error), path[-1]


def _data(node: Node, *, is_running: bool) -> MessageData:
    # A prompt that waits for the models is in no conversation yet.
    node_id = node.id if node.id >= 0 else None
    if node.role is not Role.ASSISTANT:
        return PromptData(node.text, "You" if node.role is Role.USER else "System", node_id)
    if is_running:
        return AnswerData(
            node.text, node.reasoning, remark="waits for the models" if node_id is None else "", node=node_id
        )
    return AnswerData(
        node.text,
        node.reasoning,
        remark=kept_in_words(
            node.state, node.ending, empty=not node.text.strip(), thought=bool(node.reasoning.strip())
        ),
        is_final=is_final(node.ending),
        error=as_error(node.ending),
        node=node_id,
    )


def _opened(text: str, width: int) -> int:
    return sum(max(1, ceil(len(line) / max(1, width))) for line in beginning(text).split("\n"))


def _rows(text: str, width: int) -> int:
    return 1 + text.count("\n") + len(text) // max(1, width)
