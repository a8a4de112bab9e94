"""The quiet line between the conversation and the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static

from app.ui.key_names import for_chat, key

SHOWN_S = 4.0
"""How long a message is shown."""


class Hint(Static):
    """Shows a message for a few seconds, else a lasting message, else that new text is below.

    Attributes:
        confirms: Whether the displayed message says what the same key does next.
    """

    @dataclass
    class Requested(Message):
        """A widget asks for a message."""

        text: str

    class Continued(Message):
        """The user continues, so that a temporary message is out of date."""

    class Followed(Message):
        """The hint about new text below was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._message = ""
        self._persistent: str | None = None
        self._about: str | None = None
        self._unseen = self.confirms = False
        self._timer: Timer | None = None

    def say(self, text: str, *, confirms: bool = False) -> None:
        """Show any text for a few seconds, its fixes as keys; `confirms` if it says what the same key does next."""
        self._put(text)
        self.confirms = confirms
        self._timer = self.set_timer(SHOWN_S, self.forget)

    def ask(self, text: str) -> None:
        """Show a prominent message until another message or `forget`."""
        self._put(text, asks=True)

    def forget(self) -> None:
        """Remove the message."""
        self._put("")

    def forget_said(self) -> None:
        """Remove a temporary message when the user continues."""
        if not self.has_class("-asks"):
            self.forget()

    def keep(self, text: str | None) -> None:
        """Show a line whenever there is no message; None ends that."""
        self._persistent = text
        self._draw()

    def about(self, text: str | None) -> None:
        """Show a line about a message of the conversation; None removes it."""
        self._about = text
        if text and self.has_class("-asks"):
            self.forget()
        else:
            self._draw()

    def unseen(self, unseen: bool) -> None:
        """Show or remove the hint about new text below."""
        if unseen != self._unseen:
            self._unseen = unseen
            self._draw()

    def on_click(self) -> None:
        if self._unseen:
            self.post_message(self.Followed())

    def _put(self, text: str, *, asks: bool = False) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._message, self.confirms = for_chat(text), False
        self.set_class(asks, "-asks")
        self._draw()

    def _draw(self) -> None:
        unseen = f"↓ new text below ({key('chat.follow')})" if self._unseen else ""
        shown = Content(self._message or self._persistent or "  ".join(filter(None, (unseen, self._about))))
        self.set_class(not shown, "-silent")
        self.update(shown)
