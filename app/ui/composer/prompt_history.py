"""Past prompts: one by one with the up key, or searched."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from app.conversations.attached import split
from app.session.library import Library
from app.ui.commands.table import COMMANDS
from app.ui.composer.completion import Suggestion, Suggestions
from app.ui.composer.editor import PromptEditor
from app.ui.key_names import key

_MOST_STORED = 5_000
_MOST_FOUND = 200


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


class PromptHistory:
    """Show past prompts in the editor, or search them while its text is saved.

    Args:
        editor: Where they are shown.
        menu: Shows the found prompts.
        past: The prompts.
    """

    def __init__(self, editor: PromptEditor, menu: Suggestions, past: PastPrompts) -> None:
        self._editor = editor
        self._menu = menu
        self._past = past
        self._prompts: Sequence[tuple[str, str]] = ()
        """Those that are gone through or searched."""
        self._index: int | None = None
        """Of the shown prompt among them."""
        self._shown = ""
        """The editor's text of that prompt: a paste may have another mark than it had."""
        self._query: str | None = None
        self.saved: str | None = None
        """The text before the search; None without a search."""

    # One by one

    def forget(self) -> None:
        """Treat the text in the editor as the user's own."""
        self._index = None

    def earlier(self) -> bool:
        """Show the previous prompt, or the last one in an empty editor; False changes nothing."""
        if self._editor.text and not self._is_shown:
            return False
        if self._index is None or not self._is_shown:
            self._prompts = self._past.newest()
            self._show(0)
        else:
            self._show(self._index + 1)
        return True

    def later(self) -> bool:
        """Show the next prompt; False changes nothing."""
        if self._index is None or not self._is_shown:
            return False
        self._show(self._index - 1)
        return True

    @property
    def _is_shown(self) -> bool:
        return self._index is not None and self._editor.text.strip() == self._shown

    def _show(self, index: int) -> None:
        if index < 0:
            self._index = None
            self._editor.clear()
        elif index < len(self._prompts):
            self._index = index
            self._editor.write(self._prompts[index][0])
            self._shown = self._editor.text.strip()

    # Searched

    @property
    def is_searching(self) -> bool:
        return self.saved is not None

    def search(self) -> bool:
        """Begin to search; return whether there are prompts."""
        self._prompts = self._past.newest()
        if self._prompts:
            self.saved = self._editor.written
            self._index = self._query = None
            self._editor.clear()
            self.look()
        return bool(self._prompts)

    def look(self) -> None:
        """Offer the newest prompts whose question holds every typed word."""
        text = self._editor.text
        if text == self._query:
            return
        self._query = text
        # The first frame need not wait for SQLite.
        from app.conversations.search import excerpt

        words = text.split()
        folded = [word.casefold() for word in words]
        matching = (each for each in self._prompts if all(word in each[1].casefold() for word in folded))
        found = [
            Suggestion(excerpt(question, words).text, message) for message, question in islice(matching, _MOST_FOUND)
        ]
        self._menu.offer(found, f"Nothing found; {key('prompt.dismiss', 'esc')} leaves.")

    def save_before(self, message: str) -> None:
        """Put a message before the saved text."""
        self.saved = message + (self.saved or "")

    def leave(self) -> str | None:
        """End the search, if any; return the saved text."""
        saved, self.saved = self.saved, None
        if saved is not None:
            self._menu.offer(())
        return saved
