"""Past prompts, of this run and of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence

from app.conversations.attached import split
from app.session.library import Library
from app.ui.commands.table import COMMANDS

_MOST_STORED = 5_000


class PastPrompts:
    """The prompts of this run before those of earlier ones, each once.

    Args:
        library: Stores them.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._new: list[str] = []
        self._stored: Sequence[str] | None = None
        """Those of earlier runs as typed, newest first; None before the store is open."""

    def add(self, message: str) -> None:
        """Add a prompt that was sent or discarded."""
        self._new.append(message)

    def newest(self) -> Sequence[tuple[str, str]]:
        """Return every prompt as a whole message and the question in it, newest first."""
        if self._stored is None:
            stored = self._library.do(lambda store: store.prompts(_MOST_STORED))
            self._stored = list(map(COMMANDS.as_typed, stored)) if stored is not None else None
        once: dict[tuple[str, ...], tuple[str, str]] = {}
        for message in (*reversed(self._new), *(self._stored or ())):
            question, attachments = split(message)
            question = question.strip()
            # A file is read again when its prompt is sent; a paste is nowhere else.
            pastes = (each.text for each in attachments if not each.is_file)
            if question:
                once.setdefault((" ".join(question.split()), *pastes), (message, question))
        return tuple(once.values())
