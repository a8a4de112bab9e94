"""Fetching back what was asked before."""

from __future__ import annotations

from app.conversations.attached import split
from app.ui.composer.alike import told_apart
from app.ui.composer.editor import PromptEditor
from app.ui.composer.past_prompts import PastPrompts
from app.ui.composer.suggestions import Suggestion, Suggestions
from app.ui.key_names import key

_MOST_FOUND = 200


class Recalling:
    """Past prompts, one by one with the up key, or searched while what is written is set aside.

    Args:
        editor: Where they are shown.
        menu: Shows what is found.
        past: The prompts.
    """

    def __init__(self, editor: PromptEditor, menu: Suggestions, past: PastPrompts) -> None:
        self._editor = editor
        self._menu = menu
        self._past = past
        self._recalled: int | None = None
        self._shown = ""
        """What stood in the line when it was: a paste may have another mark by now than it had then."""
        self._looked_for: str | None = None
        self.set_aside: str | None = None
        """What was written before the search; None unless one goes on."""

    # One by one

    def forget(self) -> None:
        """What is in the line is the user's own."""
        self._recalled = None

    def earlier(self) -> bool:
        """Show the prompt before the one that is shown, or the last one in an empty line; False changes nothing."""
        if self._editor.text and not self._is_recalled:
            return False
        self._recall(0 if self._recalled is None else self._recalled + 1)
        return True

    def later(self) -> bool:
        """Show the prompt that was sent after the one that is shown; False changes nothing."""
        if self._recalled is None or not self._is_recalled:
            return False
        self._recall(self._recalled - 1)
        return True

    @property
    def _is_recalled(self) -> bool:
        return self._recalled is not None and self._editor.text.strip() == self._shown

    def _recall(self, index: int) -> None:
        known = self._past.newest()
        if index < 0:
            self._recalled = None
            self._editor.clear()
        elif index < len(known):
            self._recalled = index
            self._editor.write(known[index][0])
            self._shown = self._editor.text.strip()

    # Searched

    @property
    def is_searching(self) -> bool:
        return self.set_aside is not None

    def search(self) -> None:
        """Begin to search."""
        self.set_aside = self._editor.written
        self._looked_for = None
        self._editor.clear()
        self.look()

    def look(self) -> None:
        """Offer the prompts that hold what is typed."""
        text = self._editor.text
        if text == self._looked_for:
            return
        self._looked_for = text
        # The first frame need not wait for SQLite.
        from app.conversations.search import excerpt, terms

        words = terms(text)
        found = self._past.search(text, _MOST_FOUND)
        nothing = f"Nothing is found; {key('prompt.dismiss', 'esc')} leaves."
        lines = told_apart([excerpt(question, words).text for _, question in found], [_as_said(*one) for one in found])
        self._menu.offer([Suggestion(line, message) for line, (message, _) in zip(lines, found, strict=True)], nothing)

    def set_aside_before(self, message: str) -> None:
        """Put a message before what was written before the search."""
        self.set_aside = message + (self.set_aside or "")

    def leave(self) -> str | None:
        """End the search, if one goes on; returns what was written before it."""
        saved, self.set_aside = self.set_aside, None
        if saved is not None:
            self._menu.offer(())
        return saved


def _as_said(message: str, question: str) -> str:
    """A prompt on one line, with what was pasted into it behind the question."""
    pastes = (each.text for each in split(message)[1] if not each.is_file)
    return " ".join(" ".join((question, *pastes)).split())
