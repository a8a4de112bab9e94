"""Long pastes stand in the prompt as one short mark; what is sent has all of their text."""

from __future__ import annotations

from collections.abc import Iterable

from app.chat.attached import Attachment
from app.ui.text import size

LONGEST = 4000
"""Characters of a paste that is put into the prompt as it is."""
MOST_LINES = 40
_REMEMBERED = 32
"""Undo may bring back the mark of a paste that was sent or deleted."""


class Pastes:
    """The pastes of this session, by the mark that stands for them."""

    def __init__(self) -> None:
        self._known: dict[str, Attachment] = {}

    def fold(self, text: str) -> str:
        """What to put into the prompt for a paste: the text, or the mark that stands for it."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if len(text) <= LONGEST and lines <= MOST_LINES:
            return text
        many = f"{lines:,} line{'s' * (lines != 1)}"
        name = f"pasted {size(len(text.encode('utf-8', 'replace')))}, {many}"
        return self.hold(Attachment(name, text, is_file=False))

    def hold(self, paste: Attachment) -> str:
        """Remember a paste; returns its mark. Another text with the same mark gets a number."""
        name, number = paste.name, 1
        while (known := self._known.get(f"[{name}]")) is not None and known.text != paste.text:
            number += 1
            name = f"{paste.name}, no. {number}"
        held = Attachment(name, paste.text, is_file=False)
        self._known.pop(held.reference, None)
        self._known[held.reference] = held
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return held.reference

    def adopt(self, question: str, attachments: Iterable[Attachment]) -> str:
        """Remember the pastes of a message; returns the question as it stands in the prompt."""
        for attachment in attachments:
            if not attachment.is_file:
                question = question.replace(attachment.reference, self.hold(attachment))
        return question

    def found_in(self, text: str) -> tuple[Attachment, ...]:
        """The pastes whose mark stands in a text, in its order."""
        found = [(text.find(mark), paste) for mark, paste in self._known.items()] if "[pasted " in text else []
        return tuple(paste for at, paste in sorted(found, key=lambda each: each[0]) if at >= 0)

    def mark_before(self, text: str) -> int:
        """The length of the mark that a text ends with; 0 without one."""
        return next((len(mark) for mark in self._known if text.endswith(mark)), 0)
