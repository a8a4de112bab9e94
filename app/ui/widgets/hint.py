"""The quiet line between the conversation and the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static

from app.ui.reading.wrapping import wrapped

_SECONDS = 4.0


class Hint(Static):
    """Show one short line for a moment, or a reminder while new text is off-screen."""

    @dataclass
    class Wanted(Message):
        """A widget has something short to say."""

        text: str

    class Followed(Message):
        """The hint about text out of sight was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._said = ""
        self._kept = ""
        self._about = ""
        self._unseen = False
        self._timer: Timer | None = None

    def say(self, text: str) -> None:
        """Show a line for a few seconds."""
        self._put(text)
        self._timer = self.set_timer(_SECONDS, self.forget)

    def is_saying(self, text: str) -> bool:
        """Return whether this was said, and still stands there."""
        return self._said == text

    def keep(self, text: str) -> None:
        """Show a line whenever there is nothing newer to say; an empty one ends that."""
        self._kept = text
        self._draw()

    def about(self, text: str) -> None:
        """Show a line about a message; an empty text removes it."""
        self._about = text
        if text and self.has_class("-asks"):
            self.forget()
        else:
            self._draw()

    def ask(self, text: str) -> None:
        """Show a line that is not to be overlooked, until something else is said or `forget` is called."""
        self._put(text, asks=True)

    def unseen(self, unseen: bool) -> None:
        """Return whether there is new text below what can be seen."""
        if unseen != self._unseen:
            self._unseen = unseen
            self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_click(self) -> None:
        if self._unseen:
            self.post_message(self.Followed())

    def forget(self) -> None:
        """Take away what was said."""
        self._put("")

    def _put(self, text: str, *, asks: bool = False) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._said = text
        self.set_class(asks, "-asks")
        self._draw()

    def _draw(self) -> None:
        unseen = "↓ new text below" if self._unseen else ""
        said = Content(self._said or self._kept or "  ".join(filter(None, (unseen, self._about))))
        self.set_class(not said, "-silent")
        # Before the first layout there is no width.
        width = self.size.width
        lines = [part for line in said.split(allow_blank=True) for part in (wrapped(line, width) if width else [line])]
        self.update(Content("\n").join(lines))
