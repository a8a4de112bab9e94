"""Whose turn it is among threads that all run Python."""

from __future__ import annotations

import sys

_TURN_S = 0.001
"""Python leaves a thread five milliseconds before another one gets its turn. A key has several turns to wait for while
other threads import what a model needs, and so has the engine between two of its steps while the screen is drawn."""


def take_short_turns() -> None:
    """Let no thread keep the others waiting for long."""
    sys.setswitchinterval(_TURN_S)
