"""The line under the prompt: what it includes, and how much of the context that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from textual.content import Content
from textual.widgets import Static

from app.conversations.attached import Attachment
from app.core.printable import printable
from app.models.pair_info import PairInfo
from app.ui.aside import aside, run_latest
from app.ui.composer.inclusion import Inclusion, included


class IncludedLine(Static):
    """Takes a row only while there is something to say."""

    def __init__(self) -> None:
        super().__init__()
        self._said = ""
        self._inclusion = Inclusion()
        self._pair: PairInfo | None = None
        self._counts: dict[str, int] = {}
        """What was counted with this pair; the last text is enough."""
        self.count: Callable[[str], object] = lambda text: None
        """Called with a text that is told with an estimate; `counted` may follow."""
        self.display = False

    def look(self, question: str, pastes: Sequence[Attachment], pair: PairInfo | None) -> None:
        """Say what a prompt includes, as soon as the disk has told.

        Args:
            question: As typed.
            pastes: What was pasted into it.
            pair: What is loaded, or None.
        """
        if pair is not self._pair:
            self._pair, self._counts = pair, {}

        async def look() -> None:
            self._inclusion = await aside(lambda: included(question, pastes, Path()))
            self._tell()
            if (text := self._inclusion.text) and text not in self._counts:
                self.count(text)

        if "@" in question or pastes:
            run_latest(self, look, "included")
        else:
            self.workers.cancel_group(self, "included")
            self._inclusion = Inclusion()
            self.say("")

    def counted(self, text: str, pair: PairInfo, count: int) -> None:
        """A text has so many tokens for a pair."""
        if pair is self._pair:
            self._counts = {text: count}
            self._tell()

    def say(self, text: str) -> None:
        """Show a line; nothing takes it away."""
        if text != self._said:
            self._said = text
            self.display = bool(text)
            self.update(Content(printable(text)))

    def _tell(self) -> None:
        found = self._inclusion
        n_ctx = self._pair.n_ctx if self._pair is not None else None
        self.say(found.line(n_ctx, self._counts.get(found.text)))
