"""Text of an empty conversation."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget

_WHO = (
    "The ",
    "draft",
    " model guesses the next tokens; the ",
    "target",
    " checks them in one pass. Same quality, faster.",
)
_KEYS = (
    ("chat.compare", "compare with and without the draft"),
    ("chat.tokens", "color tokens by source"),
    ("chat.settings", "settings"),
    ("chat.pairs", "models"),
    ("app.keys", "all keys"),
)
_KEY = 5
"""Cells for a key, and what is between it and what it does."""
_AROUND, _FEWEST = 8, 3
"""Rows of the window that are around it, and the least that it takes: it is seen from its beginning."""


class Welcome(Widget):
    """What the two colors mean, and where to go from here."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._on_bindings)

    def _on_bindings(self, _: Screen[object]) -> None:
        if self.display:
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(len(self._lines(width)), max(_FEWEST, viewport.height - _AROUND))

    def render(self) -> Content:
        return Content("\n").join(line.stylize_before("$quiet") for line in self._lines(self.size.width))

    def _lines(self, width: int) -> list[Content]:
        draft, target = (Content.styled(_WHO[1], "$draft"), Content.styled(_WHO[3], "$target"))
        who = Content.assemble(_WHO[0], draft, _WHO[2], target, _WHO[4])
        keys = {one.binding.id: self.app.get_key_display(one.binding) for one in self.screen.active_bindings.values()}
        named = [(keys[identity], does) for identity, does in _KEYS if identity in keys]
        # Keys of the user's own may be longer.
        column = max([_KEY, *(len(shown) + 2 for shown, _ in named)])
        rows = [Content.assemble((f"{shown:{column}}", "$foreground"), does) for shown, does in named]
        return [*who.wrap(max(1, width - 1)), Content(""), *(row.truncate(width, ellipsis=True) for row in rows)]
