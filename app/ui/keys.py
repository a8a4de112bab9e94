"""The keys of the program and of the chat, and the last line of a screen that shows its keys.

f1, the last line and the user's own keys are made from these bindings.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from textual.binding import ActiveBinding, Binding, BindingType
from textual.content import Content
from textual.screen import Screen

from app.ui.key_names import CHOOSE
from app.ui.widgets.words import Word, Words

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
    Binding("escape", "leave_task", "leave it", key_display="esc", id="chat.leave_task", tooltip="Stop editing"),
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


_RIGHT = ("app.quit", "app.keys")
"""The keys that are always shown."""


class KeyBar(Words):
    """Show the keys of the screen in the order of its `active_bindings`."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._on_bindings)
        self.call_after_refresh(self._on_bindings, self.screen)

    def _on_bindings(self, screen: Screen[Any]) -> None:
        # Without the terminal's focus no widget has the focus; its keys come back with it.
        if not self.is_attached or screen is not self.screen or not self.app.app_focus:
            return
        # One entry for each description; the first binding counts.
        shown: dict[str, ActiveBinding] = {}
        for active in screen.active_bindings.values():
            if active.binding.show:
                shown.setdefault(active.binding.description, active)
        right = {one.binding.id: one for one in shown.values() if one.binding.id in _RIGHT}
        self.say(
            [self._word(one) for one in shown.values() if one.binding.id not in _RIGHT],
            [self._word(right[identity]) for identity in _RIGHT if identity in right],
        )

    def _word(self, active: ActiveBinding) -> Word:
        binding, enabled = active.binding, active.enabled
        key, what = self.app.get_key_display(binding), binding.description
        if not enabled:
            return Word(Content.styled(f"{key} {what}", "$quiet"), None)
        text = Content.assemble((key, "$foreground"), (f" {what}", "$quiet"))
        return Word(text, partial(self.app.simulate_key, binding.key))


def in_order(
    bindings: dict[str, ActiveBinding], first: Sequence[str], idle: Collection[str] = ()
) -> dict[str, ActiveBinding]:
    """Return the bindings of a screen, those for its last line first.

    Args:
        bindings: The active ones.
        first: Ids for the last line, most important first.
        idle: Ids without anything to do. They are dimmed, not disabled: pressing one may say why.
    """

    def rank(item: tuple[str, ActiveBinding]) -> int:
        identity = item[1].binding.id
        return first.index(identity) if identity in first else len(first)

    shown = {key: one._replace(enabled=one.enabled and one.binding.id not in idle) for key, one in bindings.items()}
    return dict(sorted(shown.items(), key=rank))
