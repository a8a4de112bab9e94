"""A text that a prompt includes, as one line that opens."""

from __future__ import annotations

from itertools import islice

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from app.conversations.attached import Attachment
from app.core.printable import printable
from app.ui.text import size
from app.ui.transcript.folding import Folding

_MOST_LINES = 100
_MOST_COLUMNS = 400


class FoldedText(Folding):
    """Its name and size; a click opens the beginning of it.

    Args:
        attachment: What is included.
        opened: Whether it is open at first.
    """

    def __init__(self, attachment: Attachment, *, opened: bool = False) -> None:
        super().__init__(opened=opened)
        self._attachment = attachment
        self._contents = Static(classes="contents")

    def compose(self) -> ComposeResult:
        yield self.summary
        yield self._contents

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        attachment = self._attachment
        about = f"  {size(attachment.size)}" if attachment.is_file else ""
        self.say(f"{printable(attachment.name)}{about}")
        if self.open:
            self._contents.update(Content(beginning(attachment.text)))


def beginning(text: str) -> str:
    """What is shown of a text that is open."""
    lines = iter(printable(text).split("\n"))
    shown = [line[:_MOST_COLUMNS] for line in islice(lines, _MOST_LINES)]
    rest = sum(1 for _ in lines)
    return "\n".join([*shown, *([f"… {rest:,} more line{'s' * (rest != 1)}"] if rest else [])])
