"""The keys of the chat screen, and their order in its last line."""

from __future__ import annotations

import sys

from textual.binding import ActiveBinding, Binding, BindingType

KEYS: list[BindingType] = [
    Binding("escape", "stop", "stop", key_display="esc", id="chat.stop", tooltip="Stop the answer; its text stays"),
    Binding(
        "ctrl+d",
        "toggle_drafting",
        "draft",
        id="chat.drafting",
        tooltip="Draft the next answers, or decode them plainly",
        priority=True,
    ),
    Binding("ctrl+r", "again", "again", id="chat.again", tooltip="Answer the last prompt again"),
    Binding("ctrl+n", "restart", "new", id="chat.new", tooltip="Begin a new conversation"),
    Binding("ctrl+o", "conversations", "open", id="chat.open", tooltip="Look for a conversation and go on with it"),
    Binding("f6", "pairs", "models", id="chat.pairs", tooltip="Choose or add a pair of models", priority=True),
    Binding("ctrl+t", "toggle_thinking", "thinking", id="chat.thinking", tooltip="Show the thinking", show=False),
    Binding("ctrl+g", "copy_answer", "copy", id="chat.copy", tooltip="Copy the answer", show=False, priority=True),
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
    Binding("ctrl+end", "follow", "to the end", id="chat.follow", show=False, priority=True),
]
# In a list it brings back what was deleted; Windows has no suspending.
if sys.platform != "win32":
    KEYS.append(Binding("ctrl+z", "app.suspend_process", "suspend", id="chat.suspend", show=False, priority=True))

_FIRST = (
    "chat.stop",
    "prompt.break_line",
    "chat.drafting",
    "chat.again",
    "chat.new",
    "chat.open",
    "app.quit",
    "chat.pairs",
)
"""The keys in the last line, most wanted first; the last two may be out of sight in 80 columns."""


def in_order(bindings: dict[str, ActiveBinding], first: tuple[str, ...] = _FIRST) -> dict[str, ActiveBinding]:
    """The bindings, those for the last line in front."""

    def rank(item: tuple[str, ActiveBinding]) -> int:
        identity = item[1].binding.id
        return first.index(identity) if identity in first else len(first)

    return dict(sorted(bindings.items(), key=rank))
