"""What was asked before, newest first, and looking for it as one types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from app.conversations.attached import split
from app.session.library import Library
from app.ui.commands.table import COMMANDS

Source = Callable[[], Iterable[str] | None]
"""Gives the messages of the user that are kept, newest first; None while they cannot be told."""
_MOST_KEPT = 20_000


def kept_prompts(library: Library) -> Iterable[str] | None:
    """What the user asked in any conversation, or set aside, as it is typed, newest first.

    None before the store is open.
    """
    kept = library.with_store(lambda store: store.typed(_MOST_KEPT))
    return (COMMANDS.as_typed(one.text) if one.said else one.text for one in kept) if kept is not None else None


class PastPrompts:
    """The prompts of this session before those of earlier ones, each once.

    Args:
        source: Asked when they are needed first.
        keep: Told what was set aside; what was sent is kept where it was said.
    """

    def __init__(self, source: Source = tuple, keep: Callable[[str], object] = lambda text: None) -> None:
        self.source = source
        self.keep = keep
        self._new: list[str] = []
        self._kept: Sequence[str] | None = None
        self._all: Sequence[tuple[str, str]] | None = None

    def add(self, message: str) -> None:
        """A prompt was sent."""
        self._new.append(message)
        self._all = None

    def set_aside(self, text: str) -> None:
        """What was typed has given way to something else, and can be found like a prompt, after another start too."""
        self.add(text)
        self.keep(text)

    def newest(self) -> Sequence[tuple[str, str]]:
        """Every prompt as the message it was and the question in it."""
        if self._all is None:
            if self._kept is None and (found := self.source()) is not None:
                self._kept = tuple(found)
            found_once: dict[tuple[str, ...], tuple[str, str]] = {}
            for message in (*reversed(self._new), *(self._kept or ())):
                question, attachments = split(message)
                question = question.strip()
                # A file is read anew when its prompt is sent; a paste is nowhere else.
                pastes = (each.text for each in attachments if not each.is_file)
                if question:
                    # In one line nobody sees how its words are set apart.
                    found_once.setdefault((" ".join(question.split()), *pastes), (message, question))
            known = tuple(found_once.values())
            if self._kept is None:
                return known
            self._all = known
        return self._all

    def search(self, query: str, most: int) -> Sequence[tuple[str, str]]:
        """The newest prompts whose question holds every word; as `newest` gives them."""
        # The first frame need not wait for SQLite.
        from app.conversations.search import terms

        words = [word.casefold() for word in terms(query)]
        found = []
        for message, question in self.newest():
            folded = question.casefold()
            if all(word in folded for word in words):
                found.append((message, question))
                if len(found) == most:
                    break
        return found
