"""The last line: as many keys as fit, each of them whole, and always the way to the others."""

from __future__ import annotations

from functools import partial
from typing import Any

from textual.binding import ActiveBinding
from textual.content import Content
from textual.screen import Screen

from app.ui.widgets.words import Word, Words

_RIGHT = ("app.quit", "app.keys")
"""The keys that are never left out."""


class KeyBar(Words):
    """The keys of the screen it is on, in the order of the screen's `active_bindings`."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._on_bindings)
        self.call_after_refresh(self._on_bindings, self.screen)

    def _on_bindings(self, screen: Screen[Any]) -> None:
        # While the terminal is not looked at nothing has the focus; its keys will be back with it.
        if not self.is_attached or screen is not self.screen or not self.app.app_focus:
            return
        # One action has one place, whatever the number of its keys; of two that are called the same the first counts.
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
