"""Notify a user in another window that a long answer has ended."""

from __future__ import annotations

import os
from time import monotonic
from typing import Any

from textual.app import App

from app.ui.terminal.sequences import send

LONG_S = 20.0
"""Shorter answers do not notify."""
_BELL = "\a"
_BY_OSC_9 = ("iTerm.app", "WezTerm", "ghostty")
_BY_OSC_777 = ("rxvt", "foot")


class Attention:
    """Times answers, and notifies if one took long and the terminal reports that it lost the focus.

    Attributes:
        enabled: False to never notify.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._began: float | None = None
        self.enabled = True

    def begin(self) -> None:
        """Start the timer."""
        self._began = monotonic()

    def end(self) -> None:
        """Stop the timer, and notify if the answer took long."""
        began, self._began = self._began, None
        if began is not None and self.enabled and not self._app.app_focus and monotonic() - began >= LONG_S:
            # Without text of the answer: others may see the notification.
            self.call(f"Answer finished after {monotonic() - began:.0f} s")

    def call(self, text: str) -> None:
        """Ring the bell, with a message where the terminal can show one."""
        sequence = notification(text)
        if sequence != _BELL:
            send(self._app, sequence)
        self._app.bell()


def notification(text: str) -> str:
    """Return the control sequence that shows a message in this terminal; a bell where none is known."""
    if os.environ.get("TERM", "").startswith(_BY_OSC_777):
        return f"\x1b]777;notify;Tandem;{text}\x1b\\"
    if os.environ.get("TERM_PROGRAM", "") in _BY_OSC_9 or os.environ.get("KITTY_WINDOW_ID"):
        return f"\x1b]9;Tandem: {text}\x1b\\"
    return _BELL
