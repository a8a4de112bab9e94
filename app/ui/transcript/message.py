"""Prompts and notices as lines of text; the base of all messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from textual.content import Content

from app.conversations.attached import question_of, split
from app.conversations.message import ResultOf, Role
from app.conversations.tree import Node
from app.core.errors import AppError
from app.core.printable import printable
from app.models.pair_info import PairInfo
from app.ui.key_names import for_chat, key
from app.ui.reading.rows import BriefRow, Row
from app.ui.transcript.foldings import Folding, folded_attachment, folded_result, folded_summary
from app.ui.transcript.parts import QUIET, MessagePart
from app.ui.widgets.row_canvas import typed_rows

_GAP_TEXT = "   "
_MAX_GUESSED_LINES = 400
"""Largest guess for the lines of a message before it is laid out."""
_ERROR_BAR = Content.styled("┃ ", "$foreground")


class Item:
    """A message or a notice, laid out when the reader comes near.

    Attributes:
        parts: Displayed parts, from top to bottom; empty until it is laid out.
    """

    def __init__(self, parts: Sequence[MessagePart], *, is_notice: bool = False) -> None:
        self.parts = parts
        self.is_notice = is_notice
        self._guess = (0, 0)
        """A width, and the guessed lines at that width."""

    @property
    def is_laid_out(self) -> bool:
        return bool(self.parts)

    def n_lines(self, width: int) -> int:
        """Return the number of lines at a width; a guess until it is laid out."""
        if self.parts:
            return sum(part.n_lines(width) for part in self.parts)
        if self._guess[0] != width:
            self._guess = width, self._guessed_lines(width)
        return self._guess[1]

    def _guessed_lines(self, width: int) -> int:
        return 1

    def top_of(self, part: MessagePart, width: int) -> int:
        """Return the first line of a part."""
        return sum(each.n_lines(width) for each in self.parts[: self.parts.index(part)])

    def changed_line(self, width: int) -> int | None:
        """Return the first line that has changed since the last call, if any."""
        top, found = 0, None
        for part in self.parts:
            if part.changed is not None and found is None:
                found = top + part.changed
            part.changed = None
            top += part.n_lines(width)
        return found


def notice(text: str) -> Item:
    """Return a notice."""
    return Item([MessagePart(typed_rows(for_chat(text)), style=QUIET, n_below=1)], is_notice=True)


def error_parts(error: AppError) -> list[MessagePart]:
    """Return an error and its fix."""
    message, hint = (for_chat(text) for text in (error.message, error.hint))
    parts = [MessagePart(typed_rows(message), prefix=_ERROR_BAR)]
    if hint:
        parts.append(MessagePart(typed_rows(hint), prefix=_ERROR_BAR, style=QUIET))
    parts[-1].n_below = 1
    return parts


class MessageItem(Item):
    """A message: the speaker and the number of its branch, then its parts.

    Attributes:
        node: The message as last shown.
        pair: The loaded pair, on which the fix of an error depends.
        can_go_on: Whether it is an answer that ended early.
        foldings: The collapsible parts of a message that is laid out, from top to bottom.
    """

    def __init__(self, speaker: str, node: Node) -> None:
        super().__init__(())
        self.node = node
        self.pair: PairInfo | None = None
        self.can_go_on = self.is_unread = self.is_edited = False
        self.foldings: Sequence[Folding] = ()
        self._speaker = speaker
        self._branch = self._branches = 1

    @cached_property
    def _label(self) -> MessagePart:
        return MessagePart(style=QUIET)

    @property
    def id(self) -> int | None:
        """Return the id in the conversation, once it has one; None for the reason why a prompt has no answer."""
        return self.node.id if self.node.id >= 0 else None

    @property
    def text(self) -> str:
        """The text without attachments and reasoning."""
        raise NotImplementedError

    def lay_out(self) -> None:
        """Make the parts."""
        raise NotImplementedError

    def place(self, at: int, of: int, *, can_go_on: bool, model: str) -> None:
        """Set the number of this branch, from 1, and the number of its branches; name a model as author unless "".

        An answer that ended early can be continued.
        """
        self._branch, self._branches, self.can_go_on = at, of, can_go_on
        # The arrows come first, because clicks on them depend on their position.
        label = _GAP_TEXT.join(filter(None, (self._speaker, self._arrows, printable(model))))
        self._label.put(0, [BriefRow(Content(label))])
        self._draw_remark()

    def _draw_remark(self) -> None:
        """Show below the text what else there is to say."""

    @property
    def _arrows(self) -> str:
        return f"◂ {self._branch} / {self._branches} ▸" if self._branches > 1 else ""

    @property
    def has_branches(self) -> bool:
        return self._branches > 1

    @property
    def beside(self) -> str | None:
        """Return the number of this branch, and the key that switches, if there are several."""
        others = key("message.earlier")
        return f"branch {self._branch} of {self._branches}, {others} goes between them" if self.has_branches else None

    def request_at(self, part: MessagePart, x: int, y: int) -> str:
        """Return the action requested by a click on a cell of a part."""
        at = x - len(self._speaker) - len(_GAP_TEXT)
        if part is self._label and 0 <= at < len(self._arrows):
            return "earlier" if 2 * at < len(self._arrows) else "later"
        return "choose"

    def unfold(self) -> None:
        """Open all collapsible parts, or close them if one is open."""
        opened = not any(folding.is_open for folding in self.foldings)
        for folding in self.foldings:
            folding.fold(opened=opened)

    def part_with(self, words: re.Pattern[str]) -> MessagePart:
        """Open and return the part in which a search found these words."""
        raise NotImplementedError

    def _guessed_lines(self, width: int) -> int:
        text = self.node.text
        return 3 + min(text.count("\n") + len(text) // max(1, width), _MAX_GUESSED_LINES)


class UserMessage(MessageItem):
    """A prompt or a system message; attachments, and a summary of earlier messages, are collapsed."""

    def __init__(self, node: Node) -> None:
        super().__init__("You" if node.role is Role.USER else "System", node)

    @cached_property
    def text(self) -> str:
        return printable(question_of(self.node.text))

    @cached_property
    def _passage(self) -> MessagePart:
        return MessagePart(typed_rows(self.text), n_below=1)

    def lay_out(self) -> None:
        compaction, (_, attachments) = self.node.compaction, split(self.node.text)
        summary = [folded_summary(compaction.summary)] if compaction is not None else []
        self.foldings = [*summary, *map(folded_attachment, attachments)]
        self.parts = [self._label, *chain(*(folding.parts for folding in self.foldings)), self._passage]

    def part_with(self, words: re.Pattern[str]) -> MessagePart:
        return self._passage


class ToolMessage(MessageItem):
    """The result of a call, collapsed below its answer."""

    def __init__(self, node: Node) -> None:
        super().__init__("", node)

    @cached_property
    def text(self) -> str:
        return printable(self.node.text)

    def lay_out(self) -> None:
        folding = folded_result(ResultOf.read(self.node.stats), self.text)
        self.foldings, self.parts = [folding], [*folding.parts, self._remark]

    @cached_property
    def _remark(self) -> MessagePart:
        return MessagePart([Row()], style=QUIET)

    def _draw_remark(self) -> None:
        more = f"{key('chat.go_on')} continues" if self.can_go_on else ""
        self._remark.put(0, [*typed_rows(more), Row()])

    def part_with(self, words: re.Pattern[str]) -> MessagePart:
        (folding,) = self.foldings
        folding.fold(opened=True)
        return folding.parts[1]

    def _guessed_lines(self, width: int) -> int:
        return 2
