"""The line under the prompt: what it includes, and how much of the context that takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.content import Content
from textual.widgets import Static

from app.chat.attached import Attachment
from app.engine.text import printable
from app.ui.aside import aside, run_latest
from app.ui.prompt.including import estimate


class IncludedLine(Static):
    """Takes a row only while there is something to say."""

    def __init__(self) -> None:
        super().__init__()
        self._said = ""
        self.display = False

    def look(self, question: str, pastes: Sequence[Attachment], n_ctx: int | None) -> None:
        """Say what a prompt includes, as soon as the disk has told.

        Args:
            question: As typed.
            pastes: What was pasted into it.
            n_ctx: Tokens that the context holds, if that is known.
        """

        async def look() -> None:
            self.say(await aside(lambda: estimate(question, pastes, Path(), n_ctx)))

        if "@" in question or pastes:
            run_latest(self, look, "included")
        else:
            self.workers.cancel_group(self, "included")
            self.say("")

    def say(self, text: str) -> None:
        """Show a line; nothing takes it away."""
        if text != self._said:
            self._said = text
            self.display = bool(text)
            self.update(Content(printable(text)))
