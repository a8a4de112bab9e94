"""Long pastes stand in the prompt as one short mark; what is sent has all of their text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from app.conversations.attached import Attachment, in_other_words
from app.ui.text import size

LONGEST = 4000
"""Characters of a paste that is put into the prompt as it is."""
MOST_LINES = 40
_NAMED = "pasted "
"""How every name of a paste begins."""
_NUMBER = re.compile(r", no\. [0-9]+$")


def is_paste(attachment: Attachment) -> bool:
    """Whether it was pasted into a prompt, and is no text that somebody has put in front of a question by hand."""
    return not attachment.is_file and attachment.name.startswith(_NAMED)


class Pastes:
    """The pastes of this session, by the mark that stands for them.

    None is forgotten: its mark may stand in the prompt, and undo brings back the mark of one that was sent or deleted.
    """

    def __init__(self) -> None:
        self._known: dict[str, Attachment] = {}

    def fold(self, text: str) -> str:
        """What to put into the prompt for a paste: the text, or the mark that stands for it."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if len(text) <= LONGEST and lines <= MOST_LINES:
            return text
        many = f"{lines:,} line{'s' * (lines != 1)}"
        name = f"{_NAMED}{size(len(text.encode('utf-8', 'replace')))}, {many}"
        return self.hold(Attachment(name, text, is_file=False))

    def hold(self, paste: Attachment) -> str:
        """Remember a paste; returns its mark. Another text with the same mark gets a number."""
        name, alike, number = paste.name, _NUMBER.sub("", paste.name), 0
        while (known := self._known.get(f"[{name}]")) is not None and known.text != paste.text:
            number += 1
            name = f"{alike}, no. {number}" if number > 1 else alike
        held = Attachment(name, paste.text, is_file=False)
        self._known[held.reference] = held
        return held.reference

    def adopt(self, question: str, pastes: Iterable[Attachment]) -> str:
        """Remember the pastes of a message; returns the question as it stands in the prompt."""
        return in_other_words(question, {paste.reference: self.hold(paste) for paste in pastes})

    def found_in(self, text: str) -> tuple[Attachment, ...]:
        """The pastes whose mark stands in a text, in its order."""
        found = [(text.find(mark), paste) for mark, paste in self._known.items()] if f"[{_NAMED}" in text else []
        return tuple(paste for at, paste in sorted(found, key=lambda each: each[0]) if at >= 0)

    def mark_before(self, text: str) -> int:
        """The length of the mark that a text ends with; 0 without one."""
        return next((len(mark) for mark in self._known if text.endswith(mark)), 0)
