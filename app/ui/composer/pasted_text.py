"""Long pastes: one short mark in the prompt, the whole text in the message."""

from __future__ import annotations

import re
from collections.abc import Iterable

from app.conversations.attached import Attachment, in_other_words
from app.ui.text import size

LONGEST = 4000
"""Characters of a paste that is put into the prompt as it is."""
MOST_LINES = 40
_PREFIX = "pasted "
"""Begins the name of every paste."""
_NUMBER = re.compile(r", no\. [0-9]+$")


def is_paste(attachment: Attachment) -> bool:
    """Return whether an attachment was pasted, not written in front of a question by hand."""
    return not attachment.is_file and attachment.name.startswith(_PREFIX)


class Pastes:
    """The pastes of this session by their marks.

    None is forgotten: undo brings back the mark of one that was sent or deleted.
    """

    def __init__(self) -> None:
        self._known: dict[str, Attachment] = {}

    def fold(self, text: str) -> str:
        """Return what to put into the prompt for a paste: its text, or its mark."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if len(text) <= LONGEST and lines <= MOST_LINES:
            return text
        name = f"{_PREFIX}{size(len(text.encode('utf-8', 'replace')))}, {lines:,} line{'s' * (lines != 1)}"
        return self.remember(Attachment(name, text, is_file=False))

    def remember(self, paste: Attachment) -> str:
        """Remember a paste and return its mark; another text with the same name gets a number."""
        name, unnumbered, number = paste.name, _NUMBER.sub("", paste.name), 0
        while (known := self._known.get(f"[{name}]")) is not None and known.text != paste.text:
            number += 1
            name = f"{unnumbered}, no. {number}" if number > 1 else unnumbered
        paste = Attachment(name, paste.text, is_file=False)
        self._known[paste.reference] = paste
        return paste.reference

    def adopt(self, question: str, pastes: Iterable[Attachment]) -> str:
        """Remember the pastes of a message and return its question with their marks."""
        return in_other_words(question, {paste.reference: self.remember(paste) for paste in pastes})

    def found_in(self, text: str) -> tuple[Attachment, ...]:
        """Return the pastes whose marks stand in a text, in its order."""
        found = [(text.find(mark), paste) for mark, paste in self._known.items()] if f"[{_PREFIX}" in text else []
        return tuple(paste for at, paste in sorted(found, key=lambda each: each[0]) if at >= 0)

    def mark_before(self, text: str) -> int:
        """Return the length of the mark that a text ends with; 0 without one."""
        return next((len(mark) for mark in self._known if text.endswith(mark)), 0)
