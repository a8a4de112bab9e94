"""The keys that work on every screen."""

from __future__ import annotations

from textual.binding import Binding, BindingType

PROGRAM_KEYS: list[BindingType] = [
    Binding("ctrl+q", "quit", "quit", id="app.quit", tooltip="Stop everything and leave", priority=True),
    Binding("ctrl+p", "command_palette", "commands", id="app.commands", tooltip="Look for a command", priority=True),
    Binding("f1", "keys", "keys", id="app.keys", tooltip="Show every key"),
]
