"""Moving in the conversation: the chosen message, its code blocks, and the matches of a search."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from app.ui.actions import bindings
from app.ui.key_names import key
from app.ui.reading.rows import Row
from app.ui.transcript.answer import AnswerMessage
from app.ui.transcript.message import MessageItem
from app.ui.transcript.parts import MessagePart, TokenPart
from app.ui.transcript.scroll import LineScroll
from app.ui.widgets.hint import Hint


class MessageNavigation(LineScroll, can_focus=True, inherit_bindings=False):
    """Chooses a message and a code block in it, or scrolls to the first match of a search.

    A click or a key selects a message. Keys act on it only if the list has the focus, which a key gives it.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("match.", "message.")

    @dataclass
    class ActionRequested(Message):
        """A key or a click requests an action on a message."""

        message: MessageItem
        requested: str

    @dataclass
    class CharacterClicked(Message):
        """A character of the tokens of an answer was clicked."""

        answer: AnswerMessage
        at: int

    class SelectionChanged(Message):
        """Another message was selected, or none."""

    marked_code = 0
    """Number of the marked code block of the chosen answer, from 1; 0 for none."""
    _keys_act = False
    """Whether keys act on the chosen message, so that it is chosen only while the list has the focus."""
    _match: tuple[re.Pattern[str], int, MessagePart] | None = None
    """The search words, and the number and the part of the chosen match in its message."""

    @property
    def messages(self) -> list[MessageItem]:
        """Return the messages of the branch in order, without notices."""
        return [item for item in self.items if isinstance(item, MessageItem)]

    @property
    def visible_answers(self) -> list[AnswerMessage]:
        """Return the chosen answer, or the answers in view, the lowest first."""
        if isinstance(self.chosen, AnswerMessage):
            return [self.chosen]
        first, end = self._near(0)
        return [item for item in reversed(self.items[first:end]) if isinstance(item, AnswerMessage)]

    def choose(self, message: MessageItem | None, *, focus: bool = True) -> None:
        """Select a message and scroll it into view, with the focus if keys should act on it; None selects none."""
        if message is not None and message not in self.items:
            # The message was removed after the click.
            return
        if self._match is not None:
            self._match[2].mark("match", None)
            self._match = None
        before, self.chosen, self._keys_act = self.chosen, message, focus
        if isinstance(before, AnswerMessage) and before is not message and self.marked_code:
            before.markdown.mark_code(0)
            self.marked_code = 0
        self._draw_again(each for each in (before, message) if each is not None)
        if message is not None:
            self.show_item(message)
            if focus:
                self.screen.set_focus(self, scroll_visible=False)
        elif self.has_focus:
            self.screen.set_focus(None)
        if before is not None or message is not None:
            self.post_message(self.SelectionChanged())

    @property
    def key_use(self) -> str:
        """Return what keys do while the list has the focus, and how to return."""
        chosen, leaves = self.chosen, f"{key('message.leave')} or typing returns here"
        if self._match is not None:
            above, below = key("match.above"), key("match.below")
            return f"{above}: match above, {below}: match below; {leaves}"
        if self.marked_code:
            return f"{key('message.copy')} copies code block {self.marked_code}; {leaves}"
        return f"keys act on the chosen message; {leaves}" if chosen is not None else ""

    def _move(self) -> bool:
        is_new = super()._move()
        if self._is_far(self.chosen):
            self.call_later(self._leave_far)
        return is_new

    def _leave_far(self) -> None:
        """Select nothing if the selected message is far away: keys must not act on an invisible message."""
        if self._is_far(self.chosen):
            self.choose(None)

    def show_edited(self, message: MessageItem, is_edited: bool) -> None:
        """Mark a message while the input line edits it."""
        message.is_edited = is_edited
        self._draw_again([message])

    def _draw_again(self, items: Iterable[MessageItem]) -> None:
        for item in items:
            for part in item.parts:
                part.redraw()
                part.changed = 0
            self.update(item)

    def action_step(self, direction: int) -> None:
        """Select the message above (-1) or below (1), at first the last message; leave below the last."""
        self.post_message(Hint.Continued())
        # The reason why a prompt has no answer cannot be selected.
        messages = [message for message in self.messages if message.id is not None or message is self.chosen]
        at = messages.index(self.chosen) + direction if self.chosen is not None else len(messages) - 1
        if 0 <= at < len(messages):
            self.choose(messages[at])
        elif direction > 0:
            self.action_request("leave")

    def find(self, node: int) -> MessageItem | None:
        """Return the message with this id, if it is on the branch."""
        return next((message for message in self.messages if message.node.id == node), None)

    # Code blocks

    @property
    def has_next_code(self) -> bool:
        """Return whether a code block follows the marked code block, or the beginning of the chosen message."""
        return self.chosen is not None and self._code_beyond(1) is not None

    def _code_beyond(self, direction: int) -> tuple[AnswerMessage, int] | None:
        """Return the next (1) or the previous (-1) code block, as its answer and number; at first the last block."""
        chosen = self.chosen
        here = self.items.index(chosen) if chosen is not None else len(self.items) - 1
        for item in self.items[here:] if direction > 0 else self.items[here::-1]:
            if isinstance(item, AnswerMessage):
                marked = self.marked_code if item is chosen else 0
                numbers = range(1, len(code_blocks(item.text)) + 1)[::direction]
                for number in numbers:
                    if not marked or (number - marked) * direction > 0:
                        return item, number
        return None

    def action_step_code(self, direction: int) -> None:
        """Mark the next (1) or the previous (-1) code block, at first the last block."""
        self.post_message(Hint.Continued())
        found = self._code_beyond(direction)
        if found is None:
            where = "" if self.chosen is None else " below" if direction > 0 else " above"
            self.post_message(Hint.Requested(f"There is no code block{where}."))
            return
        answer, number = found
        if answer is not self.chosen:
            self.choose(answer)
        self.marked_code, line = number, answer.markdown.mark_code(number)
        self.post_message(self.SelectionChanged())
        self.update(answer)
        self.show_line(answer, answer.markdown, line)

    # Search

    @property
    def is_seeking(self) -> bool:
        """Return whether a match is chosen, from which `seek_on` continues."""
        return self._match is not None

    def seek(self, node: int, words: re.Pattern[str] | None = None) -> None:
        """Scroll the message with this id to the top, or choose the first match of words in it."""
        if (message := self.find(node)) is not None:
            self.show_at_top(message)
            if words is not None:
                self._show_match(message, words, 0)

    def action_seek(self, direction: int) -> None:
        """Choose the match above (-1) or below (1)."""
        self.post_message(Hint.Continued())
        if not self.seek_on(direction):
            self.post_message(Hint.Requested(f"There is no match {'below' if direction > 0 else 'above'}."))

    def seek_on(self, direction: int, words: re.Pattern[str] | None = None) -> bool:
        """Choose the match above (-1) or below (1), or the last match of new words; return whether there is one."""
        messages = self.messages
        at, number = len(messages), 0
        if words is None and self._match is not None and self.chosen in messages:
            words, number, _ = self._match
            at = messages.index(self.chosen)
            if number + direction >= 0 and self._show_match(messages[at], words, number + direction):
                return True
        others = messages[at + 1 :] if direction > 0 else messages[:at][::-1]
        return words is not None and any(
            words.search(f"{other.text}\n{other.node.reasoning}") and self._show_match(other, words, min(direction, 0))
            for other in others
        )

    def _show_match(self, message: MessageItem, words: re.Pattern[str], number: int) -> bool:
        """Choose a match in a message by its number from 0, or the last for -1; return whether it exists."""
        if not message.is_laid_out:
            self.show_at_top(message)
        part = message.part_with(words)
        self.settle()
        found = part.matches(words)
        number = number if number >= 0 else len(found) - 1
        if not 0 <= number < len(found):
            return False
        self.choose(message)
        self._match = words, number, part
        row, match = found[number]

        def look(at: int, shown: Row) -> Row:
            shown = shown.highlighted(words)
            return shown.stylized("underline", *match.span()) if at == row else shown

        part.mark("match", look)
        self.update(message)
        self.show_line(message, part, part.line_of(row, match.start()))
        return True

    # Keys and clicks

    def allow_focus(self) -> bool:
        # Tab reaches only a selected message.
        return self.chosen is not None

    def focus_on_click(self) -> bool:
        # Pressing a mouse button may begin a text selection.
        return False

    def on_blur(self) -> None:
        # It stays selected while another window is in front; see `app.ui.base_screen`.
        if self.app.app_focus and self.screen.focused is not self and self._keys_act:
            self.choose(None)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        item, part, line = self.place_at(event.y) or (None, None, 0)
        if not isinstance(item, MessageItem) or part is None:
            return
        x = event.x - self.margin - 1 - part.prefix.cell_length
        requested = item.request_at(part, x, line)
        folding = next((folding for folding in item.foldings if part in folding.parts), None)
        selects = bool(self.screen.get_selected_text())
        if folding is not None:
            folding.fold(opened=not folding.is_open)
            self.update(item)
        elif isinstance(part, TokenPart) and isinstance(item, AnswerMessage) and not selects:
            _, offset = self.screen.get_widget_and_offset_at(event.screen_x, event.screen_y)
            if offset is not None:
                at = part.character(offset.y - part.first_number, offset.x)
                self.post_message(self.CharacterClicked(item, at))
        elif requested != "choose" or not selects:
            self.post_message(self.ActionRequested(item, requested))

    def action_request(self, requested: str) -> None:
        if requested == "copy" and self.marked_code:
            # Another block may be marked before the request is handled.
            requested = f"copy_code {self.marked_code}"
        if self.chosen is not None:
            self.post_message(self.ActionRequested(self.chosen, requested))

    def action_unfold(self) -> None:
        if self.chosen is not None:
            self.chosen.unfold()
            self.update(self.chosen)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim keys that would do nothing, and hide those that do not apply to the message."""
        chosen = self.chosen
        if chosen is None:
            return False
        match action, parameters:
            case "unfold", _:
                return bool(chosen.foldings)
            case "request", ("earlier" | "later",):
                return chosen.has_branches
            case "seek", _:
                return self.is_seeking
            case "request", ("go_on",):
                return chosen.can_go_on
            case "request", ("edit" | "again" | "fork" | "delete",):
                return chosen.id is not None or None
        return True


_CODE_MARKS = ("```", "~~~", "    ", "\t")
"""Marks of code blocks: every text with a block contains one of them."""


def code_blocks(markdown: str) -> tuple[str, ...]:
    """Return the code blocks of a text without their fences; an unclosed block counts."""
    if not any(mark in markdown for mark in _CODE_MARKS):
        return ()
    # The first frame need not wait for the Markdown parser.
    from app.ui.reading.blocks import parser

    kinds = ("fence", "code_block")
    return tuple(each.content.rstrip("\n") for each in parser().parse(markdown) if each.type in kinds)
