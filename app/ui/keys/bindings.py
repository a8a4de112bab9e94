"""The keys of the program and of the chat; f1, the footer and the user's own keys are made from these bindings."""

from __future__ import annotations

import sys

from textual.binding import Binding, BindingType

from app.ui.key_names import CHOOSE

PROGRAM_KEYS: list[BindingType] = [
    Binding("ctrl+q", "quit", "quit", id="app.quit", tooltip="Stop everything and leave", priority=True),
    Binding("ctrl+p", "command_palette", "commands", id="app.commands", tooltip="Look for a command", priority=True),
    Binding("f1", "keys", "keys", id="app.keys", tooltip="Show every key"),
    # Where nothing is selected: what edits text has it for copying.
    Binding("ctrl+c", "help_quit", "stop", id="app.interrupt", tooltip="Stop the answer; once more, leave", show=False),
]
CAN_SUSPEND = sys.platform != "win32"
# As in a shell, wherever the cursor is. Windows cannot suspend.
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

CHAT_KEYS: list[BindingType] = [
    Binding(
        "escape",
        "leave_task",
        "leave it",
        key_display="esc",
        id="chat.leave_task",
        tooltip="Stop editing",
    ),
    Binding("escape", "stop", "stop", key_display="esc", id="chat.stop", tooltip="Stop the answer; its text stays"),
    Binding(
        "ctrl+d",
        "toggle_drafting",
        "draft",
        id="chat.drafting",
        tooltip="Turn the draft on or off, also during an answer",
        priority=True,
    ),
    Binding("ctrl+r", "again", "again", id="chat.again", tooltip="Answer the last prompt again"),
    Binding("ctrl+g", "go_on", "continue", id="chat.go_on", tooltip="Continue an answer that ended early", show=False),
    Binding(
        "ctrl+e",
        "edit_last",
        "edit",
        id="chat.edit_last",
        tooltip="Edit the last prompt, if nothing is typed",
        show=False,
        priority=True,
    ),
    Binding("ctrl+n", "restart", "new", id="chat.new", tooltip="Begin a new conversation"),
    Binding("ctrl+o", "conversations", "open", id="chat.open", tooltip="Search and open a conversation"),
    Binding("f2", "compare", "compare", id="chat.compare", tooltip="Compare with and without the draft", priority=True),
    Binding("f3", "toggle_tokens", "tokens", id="chat.tokens", tooltip="Show the source of each token", priority=True),
    Binding("f4", "settings", "settings", id="chat.settings", tooltip="See and change every setting", priority=True),
    Binding(
        "f5", "toggle_panel", "numbers", id="chat.panel", tooltip="Show numbers, more numbers, or none", priority=True
    ),
    Binding("f6", "pairs", "models", id="chat.pairs", tooltip="Choose or add a pair of models", priority=True),
    Binding(
        "f7",
        "toggle_sidebar",
        "conversations",
        id="chat.sidebar",
        tooltip="Show or hide the conversations",
        priority=True,
    ),
    Binding(
        "ctrl+t", "toggle_thinking", "thinking", id="chat.thinking", tooltip="Show or hide the reasoning", show=False
    ),
    Binding(CHOOSE, "choose", "messages", id="chat.choose", tooltip="Choose a message to change", show=False),
    Binding(
        "left", "round(-1)", "earlier", id="chat.earlier_round", tooltip="Show an earlier verify step", priority=True
    ),
    Binding("right", "round(1)", "later", id="chat.later_round", tooltip="Show a later verify step", priority=True),
    Binding("f8", "copy_answer", "copy", id="chat.copy", tooltip="Copy the answer", show=False, priority=True),
    Binding(
        "ctrl+b",
        "copy_code",
        "copy code",
        id="chat.copy_code",
        tooltip="Copy the last code of the answer",
        show=False,
        priority=True,
    ),
    Binding("pageup", "page(-1)", "page up", id="chat.page_up", show=False, priority=True),
    Binding("pagedown", "page(1)", "page down", id="chat.page_down", show=False, priority=True),
    Binding("ctrl+home", "beginning", "to the beginning", id="chat.beginning", show=False, priority=True),
    Binding("ctrl+end", "follow", "to the end", id="chat.follow", show=False, priority=True),
]

SHOWN_FIRST = (
    "message.leave",
    "message.edit",
    "message.again",
    "message.go_on",
    "message.unfold",
    "message.earlier",
    "chat.leave_task",
    "sidebar.leave",
    "title.take",
    "title.leave",
    "found.open",
    "found.pin",
    "found.rename",
    "found.delete",
    "found.undelete",
    "chat.stop",
    "chat.earlier_round",
    "chat.later_round",
    "chat.drafting",
    "chat.again",
    "chat.new",
    "chat.open",
    "chat.compare",
    "chat.tokens",
    "chat.settings",
    "chat.panel",
    "chat.pairs",
    "prompt.break_line",
    "app.commands",
)
"""The keys in the last line, most important first; it shows as many as fit."""
SHOWN_WITHOUT_MODELS = ("chat.leave_task", "chat.pairs", "chat.settings", *SHOWN_FIRST)
"""The same without loaded models."""
