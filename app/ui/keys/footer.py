"""The last line: as many keys as fit, in order, and always those that quit and list every key."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from textual.binding import ActiveBinding
from textual.content import Content
from textual.screen import Screen

from app.ui.widgets.words import Word, Words

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
