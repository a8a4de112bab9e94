"""Control sequences for the terminal itself, past the screen."""

from __future__ import annotations

import os
from typing import Any

from textual.app import App

_ESCAPE = "\x1b"


def send(app: App[Any], sequence: str) -> bool:
    """Send a control sequence, also through tmux; return whether there is a terminal."""
    driver = app._driver
    if driver is None or app.is_headless:
        return False
    driver.write(through_tmux(sequence) if os.environ.get("TMUX") else sequence)
    driver.flush()
    return True


def through_tmux(sequence: str) -> str:
    """Wrap a sequence for the terminal that tmux runs in."""
    return f"{_ESCAPE}Ptmux;{sequence.replace(_ESCAPE, _ESCAPE * 2)}{_ESCAPE}\\"
