"""Moving in the conversation: the chosen message, its code blocks, and what was searched for."""

from __future__ import annotations

import re

from textual.geometry import Region
from textual.widget import Widget

from app.conversations.message import Role
from app.ui.reading.code_blocks import code_blocks
from app.ui.transcript.message import AnswerMessage
from app.ui.transcript.message_view import MessageView
from app.ui.transcript.window import Item, MessageWindow

_LINES_ABOVE = 2
"""Lines that stay visible above a line that is scrolled into view."""


class MessageNavigation(MessageWindow):
    """Choose a message and a code block in it, or scroll to the first match of a search."""

    @property
    def message_views(self) -> list[MessageView]:
        """The mounted messages in order; the last message is always mounted."""
        return [item.widget for item in self.items if isinstance(item.widget, MessageView)]

    @property
    def visible_answers(self) -> list[AnswerMessage]:
        """The chosen answer alone, or the answers in view, the lowest first."""
        if isinstance(self.chosen, AnswerMessage):
            return [self.chosen]
        view = Region(0, round(self.scroll_y), 1, max(1, self._height))
        widgets = (item.widget for item in reversed(self.items) if item.node is not None)
        visible = (each for each in widgets if each and self._regions.get(each, Region()).overlaps(view))
        return [each for each in visible if isinstance(each, AnswerMessage)]

    @property
    def chosen(self) -> MessageView | None:
        """The selected message, if any."""
        return next((message_view for message_view in self.message_views if message_view.has_class("-chosen")), None)

    def choose(self, message_view: MessageView, *, focus: bool = True) -> None:
        """Select a message and scroll it into view; with the focus, letters act on it."""
        item = next((item for item in self.items if item.widget is message_view), None)
        if item is None or not message_view.is_attached:
            # It was removed after the click.
            return
        for other in self.message_views:
            if other is not message_view:
                other.choose(False)
        message_view.choose(True, focus=focus)
        self._scroll_to_item(item)

    async def step(self, direction: int) -> bool:
        """Select the message above (-1) or below (1), at first the last; return False below the last."""
        chosen = self.chosen
        # The reason why a prompt has no answer cannot be selected.
        items = [item for item in self.items if _is_selectable(item) or (chosen and item.widget is chosen)]
        at = len(items) - 1
        if chosen is not None:
            at = next(number for number, item in enumerate(items) if item.widget is chosen) + direction
        if 0 <= at < len(items) and (message_view := await self._mounted(items[at])) is not None:
            self.choose(message_view)
        return at < len(items)

    async def reach(self, node: int) -> MessageView | None:
        """Mount and return the message with this id; None if it is not on the branch."""
        item = self._item_of(node)
        return await self._mounted(item) if item is not None else None

    async def _mounted(self, item: Item) -> MessageView | None:
        if not self._first <= self.items.index(item) < self._end:
            async with self._changing():
                await self._show_at_top(item)
        return item.widget if isinstance(item.widget, MessageView) else None

    def _item_of(self, node: int) -> Item | None:
        return next((item for item in self.items if item.node is not None and item.node.id == node), None)

    # Code blocks

    @property
    def has_next_code(self) -> bool:
        """Return whether a code block follows the marked one, or the beginning of the chosen message."""
        chosen = self.chosen
        if chosen is None:
            return False
        if isinstance(chosen, AnswerMessage) and chosen.marked_code < len(code_blocks(chosen.text)):
            return True
        below = self.items[next(at for at, item in enumerate(self.items) if item.widget is chosen) + 1 :]
        return any(code_blocks(_text_of(item)) for item in below if item.is_answer)

    async def step_code(self, direction: int) -> bool:
        """Mark the next (1) or the previous (-1) code block, at first the last one; return whether there is one."""
        chosen = self.chosen
        if isinstance(chosen, AnswerMessage):
            n_code = len(code_blocks(chosen.text))
            at = chosen.marked_code + direction if chosen.marked_code else 1 if direction > 0 else n_code
            if 1 <= at <= n_code:
                self._mark_code(chosen, at)
                return True
        items = [item for item in self.items if item.node is not None and (item.is_answer or item.widget is chosen)]
        here = next((at for at, item in enumerate(items) if item.widget is chosen), len(items))
        others = items[here + 1 :] if direction > 0 and chosen is not None else items[:here][::-1]
        for item in others:
            blocks = code_blocks(_text_of(item))
            if blocks and isinstance(answer := await self._mounted(item), AnswerMessage):
                self.choose(answer)
                self._mark_code(answer, 1 if direction > 0 else len(blocks))
                return True
        return False

    def _mark_code(self, answer: AnswerMessage, number: int) -> None:
        line = answer.mark_code(number)
        self.call_after_refresh(self._show_line, answer.markdown, line)

    def _show_line(self, part: Widget, line: int) -> None:
        """Scroll until a line of a part of a message is visible, unless it is."""
        if part.is_attached:
            y = part.region.y - self.region.y + line
            if not 0 <= y < self._height - 1:
                self.scroll_to(y=self.scroll_y + y - _LINES_ABOVE, animate=False, immediate=True)

    # Search

    async def seek(self, node: int, words: re.Pattern[str] | None = None) -> None:
        """Scroll the message with this id to the top, or to the first match of words in it, which are highlighted."""
        item = self._item_of(node)
        if item is None:
            return
        async with self._changing():
            await self._show_at_top(item)
        if words is not None and isinstance(item.widget, MessageView):
            self.call_after_refresh(self._highlight, item.widget, words)

    def _highlight(self, message_view: MessageView, words: re.Pattern[str]) -> None:
        part = message_view.part_with(words)
        line = part.highlight(words) if part is not None else None
        if part is not None and line is not None:
            self.call_after_refresh(self._show_line, part, line)


def _text_of(item: Item) -> str:
    return item.widget.text if isinstance(item.widget, MessageView) else item.node.text if item.node else ""


def _is_selectable(item: Item) -> bool:
    node = item.node
    return node is not None and (not item.is_answer or (node.role is Role.ASSISTANT and node.id >= 0))
