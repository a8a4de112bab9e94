"""The keys of the program and of the chat, and the last line of a screen that shows its keys.

f1, the last line and the user's own keys are made from these bindings.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from textual.binding import ActiveBinding, BindingType
from textual.content import Content
from textual.screen import Screen

from app.ui.key_names import CHOOSE, bind, hidden
from app.ui.widgets.words import Word, Words

_DRAFTING = "Turn the draft on or off, also during an answer"
_COPY_CODE = "Copy the last code of the answer"
_SUSPEND = "Suspend Tandem; fg brings it back"

PROGRAM_KEYS: list[BindingType] = [
    bind("ctrl+q", "quit", "quit", "app.quit", "Quit Tandem", priority=True),
    bind("ctrl+p", "command_palette", "commands", "app.commands", "Search commands", priority=True),
    bind("f1", "keys", "keys", "app.keys", "Show every key"),
    # Where nothing is selected: what edits text has it for copying.
    hidden("ctrl+c", "help_quit", "stop", "app.interrupt", "Stop the answer; press twice to quit"),
]
# As in a shell, wherever the cursor is. Windows cannot suspend.
if sys.platform != "win32":
    PROGRAM_KEYS.append(hidden("ctrl+z", "suspend_process", "suspend", "app.suspend", _SUSPEND, priority=True))

CHAT_KEYS: list[BindingType] = [
    bind("escape", "leave_task", "cancel", "chat.leave_task", "Stop editing"),
    bind("escape", "take_back", "take back", "chat.take_back", "Take the last prompt that waits back"),
    bind("escape", "stop", "stop", "chat.stop", "Stop the answer; its text stays"),
    bind("ctrl+d", "toggle_drafting", "draft", "chat.drafting", _DRAFTING, priority=True),
    bind("ctrl+r", "again", "again", "chat.again", "Answer the last prompt again"),
    hidden("ctrl+g", "go_on", "continue", "chat.go_on", "Continue an answer that ended early"),
    hidden("ctrl+e", "edit_last", "edit", "chat.edit_last", "Edit the last prompt (empty input)", priority=True),
    bind("ctrl+n", "restart", "new", "chat.new", "Start a new conversation"),
    bind("ctrl+o", "conversations", "open", "chat.open", "Search and open a conversation"),
    bind("f2", "compare", "compare", "chat.compare", "Compare with and without the draft", priority=True),
    bind("f3", "toggle_tokens", "tokens", "chat.tokens", "Show the source of each token", priority=True),
    bind("f4", "settings", "settings", "chat.settings", "See and change every setting", priority=True),
    bind("f5", "toggle_panel", "numbers", "chat.panel", "Show numbers, more numbers, or none", priority=True),
    bind("f6", "pairs", "models", "chat.pairs", "Choose or add a pair of models", priority=True),
    bind("f7", "toggle_sidebar", "conversations", "chat.sidebar", "Show or hide the conversations", priority=True),
    hidden("ctrl+t", "toggle_thinking", "thinking", "chat.thinking", "Show or hide the reasoning"),
    hidden(CHOOSE, "choose", "messages", "chat.choose", "Choose a message to change"),
    bind("left", "round(-1)", "earlier", "chat.earlier_round", "Show an earlier verify step", priority=True),
    bind("right", "round(1)", "later", "chat.later_round", "Show a later verify step", priority=True),
    hidden("f8", "run_line('/copy')", "copy", "chat.copy", "Copy the answer", priority=True),
    hidden("ctrl+b", "run_line('/copy code')", "copy code", "chat.copy_code", _COPY_CODE, priority=True),
    hidden("pageup", "page(-1)", "page up", "chat.page_up", priority=True),
    hidden("pagedown", "page(1)", "page down", "chat.page_down", priority=True),
    hidden("ctrl+home", "beginning", "to the beginning", "chat.beginning", priority=True),
    hidden("ctrl+end", "follow", "to the end", "chat.follow", priority=True),
]

SHOWN_FIRST = (
    "message.leave",
    "message.edit",
    "message.again",
    "message.go_on",
    "message.fork",
    "message.delete",
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
    "chat.take_back",
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
    """Sort bindings by the place of their ids in `first`; the others come last.

    Those in `idle` have nothing to do. They are dimmed, not disabled: pressing one may say why.
    """

    def rank(item: tuple[str, ActiveBinding]) -> int:
        identity = item[1].binding.id
        return first.index(identity) if identity in first else len(first)

    shown = {key: one._replace(enabled=one.enabled and one.binding.id not in idle) for key, one in bindings.items()}
    return dict(sorted(shown.items(), key=rank))
