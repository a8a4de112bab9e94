"""Past prompts: one by one with the up key, or searched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from app.conversations.attached import split
from app.session.library import Library
from app.ui.commands.table import COMMANDS
from app.ui.composer.editor import PromptEditor
from app.ui.composer.suggestions import Suggestion, Suggestions
from app.ui.key_names import key

Source = Callable[[], Iterable[str] | None]
"""Returns the stored prompts, newest first; None before the store is open."""
_MOST_STORED = 20_000
_MOST_FOUND = 200


def stored_prompts(library: Library) -> Iterable[str] | None:
    """Return all sent and discarded prompts as typed, newest first; None before the store opens."""
    stored = library.with_store(lambda store: store.typed(_MOST_STORED))
    return (COMMANDS.as_typed(one.text) if one.said else one.text for one in stored) if stored is not None else None


class PastPrompts:
    """The prompts of this session before those of earlier ones, each once.

    Args:
        source: Called when they are first needed.
        keep: Called with a discarded prompt.
    """

    def __init__(self, source: Source = tuple, keep: Callable[[str], object] = lambda text: None) -> None:
        self.source = source
        self.keep = keep
        self._new: list[str] = []
        self._stored: Sequence[str] | None = None
        self._all: Sequence[tuple[str, str]] | None = None

    def add(self, message: str) -> None:
        """Add a prompt that was sent."""
        self._new.append(message)
        self._all = None

    def set_aside(self, text: str) -> None:
        """Add a discarded prompt, also for later sessions."""
        self.add(text)
        self.keep(text)

    def newest(self) -> Sequence[tuple[str, str]]:
        """Return every prompt, newest first, as its message and the question in it."""
        if self._all is not None:
            return self._all
        if self._stored is None and (found := self.source()) is not None:
            self._stored = tuple(found)
        once: dict[tuple[str, ...], tuple[str, str]] = {}
        for message in (*reversed(self._new), *(self._stored or ())):
            question, attachments = split(message)
            question = question.strip()
            # A file is read again when its prompt is sent; a paste is nowhere else.
            pastes = (each.text for each in attachments if not each.is_file)
            if question:
                once.setdefault((" ".join(question.split()), *pastes), (message, question))
        known = tuple(once.values())
        if self._stored is not None:
            self._all = known
        return known

    def search(self, query: str, most: int) -> Sequence[tuple[str, str]]:
        """Return the newest prompts whose question holds every word, as `newest`."""
        words = [word.casefold() for word in query.split()]
        found = []
        for message, question in self.newest():
            folded = question.casefold()
            if all(word in folded for word in words):
                found.append((message, question))
                if len(found) == most:
                    break
        return found


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
        self._index: int | None = None
        """Of the shown prompt among the past ones."""
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
        self._show(0 if self._index is None else self._index + 1)
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
        known = self._past.newest()
        if index < 0:
            self._index = None
            self._editor.clear()
        elif index < len(known):
            self._index = index
            self._editor.write(known[index][0])
            self._shown = self._editor.text.strip()

    # Searched

    @property
    def is_searching(self) -> bool:
        return self.saved is not None

    def search(self) -> None:
        """Begin to search."""
        self.saved = self._editor.written
        self._query = None
        self._editor.clear()
        self.look()

    def look(self) -> None:
        """Offer the prompts that hold what is typed."""
        text = self._editor.text
        if text == self._query:
            return
        self._query = text
        # The first frame need not wait for SQLite.
        from app.conversations.search import excerpt

        found = self._past.search(text, _MOST_FOUND)
        nothing = f"Nothing found; {key('prompt.dismiss', 'esc')} leaves."
        words = text.split()
        self._menu.offer([Suggestion(excerpt(question, words).text, message) for message, question in found], nothing)

    def save_before(self, message: str) -> None:
        """Put a message before the saved text."""
        self.saved = message + (self.saved or "")

    def leave(self) -> str | None:
        """End the search, if any; return the saved text."""
        saved, self.saved = self.saved, None
        if saved is not None:
            self._menu.offer(())
        return saved
