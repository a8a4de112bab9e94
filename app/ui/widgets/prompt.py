"""Where the user writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from app.engine.text import printable
from app.ui.widgets.editing import run_own_binding


class PromptInput(TextArea):
    """Grows with its text; Enter sends. What was sent can be fetched back with the up key."""

    BINDING_GROUP_TITLE = "Prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send", id="prompt.send", tooltip="Send the prompt", priority=True, show=False),
        Binding(
            "ctrl+j,shift+enter",
            "break_line",
            "new line",
            id="prompt.break_line",
            tooltip="Begin a new line in the prompt",
            priority=True,
        ),
    ]

    class _Edit(Message, bubble=False):
        """Puts what a key does in line behind the characters typed before it: bindings overtake characters."""

    class _Send(_Edit):
        pass

    class _BreakLine(_Edit):
        pass

    @dataclass
    class Sent(Message):
        """Enter was pressed and the text taken away; `restore` brings it back."""

        prompt: PromptInput
        text: str

        @property
        def control(self) -> PromptInput:
            return self.prompt

    def __init__(self) -> None:
        super().__init__(
            compact=True, highlight_cursor_line=False, placeholder="ask anything", tab_behavior="focus", soft_wrap=True
        )
        self.cursor_blink = False
        self._sent: list[str] = []
        self._recalled: int | None = None

    def restore(self, text: str) -> None:
        """Put a refused prompt back, before what was typed since."""
        self._show(text + self.text)

    def give_back(self, text: str) -> None:
        """Put a prompt that came to nothing back, unless the user already writes the next."""
        if not self.text.strip():
            self._show(text)

    def put(self, text: str) -> None:
        """Show this text in place of what is there."""
        if text != self.text:
            self._recalled = None
            self._show(text)

    def action_send(self) -> None:
        self.post_message(self._Send())

    def action_break_line(self) -> None:
        self.post_message(self._BreakLine())

    @on(_Send)
    def _send(self) -> None:
        text = self.text
        if text.strip():
            if self._sent[-1:] != [text]:
                self._sent.append(text)
            self._recalled = None
            self.clear()
            self.post_message(self.Sent(self, text))

    @on(_BreakLine)
    def _break_line(self) -> None:
        start, end = self.selection
        self._replace_via_keyboard("\n", start, end)
        self.scroll_cursor_visible()

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up; from an empty prompt, to what was sent before."""
        at = len(self._sent) if self._recalled is None else self._recalled
        if select or at == 0 or not (self._is_recalled or not self.text):
            super().action_cursor_up(select)
            return
        self._recall(at - 1)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down; from a recalled prompt, to the one sent after it."""
        if select or not self._is_recalled or self._recalled is None:
            super().action_cursor_down(select)
            return
        self._recall(self._recalled + 1)

    async def on_key(self, event: events.Key) -> None:
        await run_own_binding(self, event)

    def on_paste(self, event: events.Paste) -> None:
        event.text = printable(event.text.replace("\r\n", "\n").replace("\r", "\n"))

    @property
    def _is_recalled(self) -> bool:
        return self._recalled is not None and self.text == self._sent[self._recalled]

    def _recall(self, index: int) -> None:
        if index == len(self._sent):
            self._recalled = None
            self.clear()
        else:
            self._recalled = index
            self._show(self._sent[index])

    def _show(self, text: str) -> None:
        self.load_text(text)
        self.move_cursor(self.document.end)
