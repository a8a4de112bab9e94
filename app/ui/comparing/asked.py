"""What is compared, in one line: the prompt, and how it is answered as far as there is room for that."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from app.chat.titles import fit, in_brief
from app.engine.text import printable

_GAP = 2


class AskedLine(Widget):
    """The prompt stands there whole if that leaves room for anything else, and has half of the line at least.

    Args:
        prompt: As it was asked.
        how: How it is sampled, in clauses; the first says most.
    """

    def __init__(self, prompt: str, how: str) -> None:
        super().__init__()
        self._prompt = " ".join(printable(prompt).split())
        self._how = printable(how)

    def render(self) -> Content:
        width = self.size.width
        rooms = (width - Content(self._prompt).cell_length - _GAP, width // 2 - _GAP)
        brief = ((in_brief(self._how, room), room) for room in rooms)
        how = next((how for how, room in brief if len(how) <= room), "")
        prompt = Content(fit(self._prompt, width - len(how) - _GAP))
        return Content.assemble(prompt, " " * (width - prompt.cell_length - len(how)), (how, "$quiet"))
