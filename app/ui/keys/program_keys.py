"""The keys that work on every screen."""

from __future__ import annotations

import sys

from textual.binding import Binding, BindingType

PROGRAM_KEYS: list[BindingType] = [
    Binding("ctrl+q", "quit", "quit", id="app.quit", tooltip="Stop everything and leave", priority=True),
    Binding("ctrl+p", "command_palette", "commands", id="app.commands", tooltip="Look for a command", priority=True),
    Binding("f1", "keys", "keys", id="app.keys", tooltip="Show every key"),
    # Where nothing is selected: what edits text has it for copying.
    Binding("ctrl+c", "help_quit", "stop", id="app.interrupt", tooltip="Stop the answer; once more, leave", show=False),
]
CAN_SUSPEND = sys.platform != "win32"
# What a shell's user expects of it, wherever the cursor is: nothing else is on this key. Windows has no suspending.
if CAN_SUSPEND:
    PROGRAM_KEYS.append(
        Binding(
            "ctrl+z",
            "suspend_process",
            "suspend",
            id="app.suspend",
            tooltip="Suspend Tandem; fg brings it back",
            show=False,
            priority=True,
        )
    )
