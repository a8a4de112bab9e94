"""What was said, and what stands there before that."""

from __future__ import annotations

from textual.containers import VerticalGroup
from textual.content import Content
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.visual import VisualType
from textual.widget import Widget

from app.ui.widgets.even import Even
from app.ui.widgets.stack import Stack

_WHO = ("The ", "target", " answers. The ", "draft", " runs ahead of it, and what the target agrees with comes sooner.")
_KEYS = (
    ("chat.compare", "one prompt with and without the draft"),
    ("chat.tokens", "who wrote each token"),
    ("chat.settings", "every setting"),
    ("chat.pairs", "other models"),
    ("app.keys", "every key"),
)
_KEY = 5
"""Cells for a key, and what is between it and what it does."""
_WIDTH = 100
"""Cells of a message, which is in the middle where there are more."""


class Said(VerticalGroup, Stack, Even):
    """The messages; while there are none, what the two colours mean and where to go from here."""

    @property
    def message_width(self) -> int:
        """Cells of a line of a message."""
        return max(1, min(_WIDTH, self.size.width) - 1)

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._on_bindings)

    def _on_bindings(self, _: Screen[object]) -> None:
        if not self.children:
            self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        return super().render_lines(crop) if self.children else Widget.render_lines(self, crop)

    def render(self) -> VisualType:
        return super().render() if self.children else self._nothing_yet()

    def _nothing_yet(self) -> Content:
        target, draft = (Content.styled(_WHO[1], "$target"), Content.styled(_WHO[3], "$draft"))
        room = max(0, self.size.width - _WIDTH - 1)
        who = Content.assemble(_WHO[0], target, _WHO[2], draft, _WHO[4])
        lines = [*who.wrap(max(1, self.size.width - room - 2)), Content("")]
        keys = {one.binding.id: self.app.get_key_display(one.binding) for one in self.screen.active_bindings.values()}
        named = [(keys[identity], does) for identity, does in _KEYS if identity in keys]
        # Keys of the user's own may be longer.
        column = max([_KEY, *(len(shown) + 2 for shown, _ in named)])
        lines += [Content.assemble((f"{shown:{column}}", "$foreground"), does) for shown, does in named]
        margin = " " * (room // 2 + 1)
        return Content("\n").join(Content.assemble(margin, line.stylize_before("$quiet")) for line in lines)
