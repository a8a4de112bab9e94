"""The prompts that wait for their turn, above the input line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from app.conversations.titles import title_of
from app.core.printable import printable
from app.ui.text import cut

_MOST_LINES = 3
_FIRST_LABEL = " waiting  "


class WaitingPrompts(Static):
    """One line for each prompt, at most the last three; hidden if no prompt waits."""

    def __init__(self) -> None:
        super().__init__()
        self._prompts: Sequence[str] = ()
        self._key = ""
        self.display = False

    def put(self, prompts: Sequence[str], key: str) -> None:
        """Show these prompts, and the key that takes the last one back."""
        self._prompts, self._key = prompts, key
        self.display = bool(prompts)
        self.refresh(layout=True)

    def render(self) -> Content:
        width, shown = self.size.width, self._prompts[-_MOST_LINES:]
        hidden = len(self._prompts) - len(shown)
        lines: list[Content] = []
        for at, prompt in enumerate(shown, start=1):
            more = f"  and {hidden} before " if at == 1 and hidden else ""
            more = f"  {self._key} takes it back " if at == len(shown) else more
            label = _FIRST_LABEL if at == 1 else " " * len(_FIRST_LABEL)
            room = max(1, width - len(label) - len(more))
            text = cut(Content(printable(title_of(prompt))), room)
            gap = " " * max(0, room - text.cell_length)
            lines.append(Content.assemble((label, "$quiet"), text, gap, (more, "$quiet")))
        return Content("\n").join(lines)
