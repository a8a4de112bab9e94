"""The prompts that wait for their turn, above the input line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from app.conversations.titles import title_of
from app.core.printable import printable
from app.ui.keys import active_key
from app.ui.text import cut

_MOST_LINES = 3
_FIRST_LABEL = " waiting  "


class WaitingPrompts(Static):
    """One line for each prompt, at most the last three; hidden if no prompt waits."""

    def __init__(self) -> None:
        super().__init__()
        self._prompts: Sequence[str] = ()
        self.display = False

    def on_mount(self) -> None:
        # The key that takes a prompt back may do something else first, such as closing a list.
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.display and self.refresh())

    def put(self, prompts: Sequence[str]) -> None:
        """Show these prompts."""
        self._prompts = prompts
        self.display = bool(prompts)
        self.refresh(layout=True)

    def render(self) -> Content:
        width, shown = self.size.width, self._prompts[-_MOST_LINES:]
        hidden = len(self._prompts) - len(shown)
        take_back = active_key(self.screen, "chat.take_back")
        lines: list[Content] = []
        for at, prompt in enumerate(shown, start=1):
            more = f"  and {hidden} before " if at == 1 and hidden else ""
            more = f"  {take_back} takes it back " if at == len(shown) and take_back else more
            label = _FIRST_LABEL if at == 1 else " " * len(_FIRST_LABEL)
            room = max(1, width - len(label) - len(more))
            text = cut(Content(printable(title_of(prompt))), room)
            gap = " " * max(0, room - text.cell_length)
            lines.append(Content.assemble((label, "$quiet"), text, gap, (more, "$quiet")))
        return Content("\n").join(lines)
