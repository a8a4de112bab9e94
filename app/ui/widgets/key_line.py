"""The last line: as many keys as fit."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

_SPACE = 3
"""Around a key and its description, and between them."""


class KeyLine(Footer):
    """A footer in which a key that would be cut is left out, with those after it."""

    def compose(self) -> ComposeResult:
        # What ends a line may lie outside it: the last key's space.
        room = self.app.size.width + 1
        for key in super().compose():
            if isinstance(key, FooterKey):
                room -= cell_len(key.key_display) + cell_len(key.description) + _SPACE
            if room >= 0:
                yield key

    def on_resize(self) -> None:
        self.call_after_refresh(self.recompose)
