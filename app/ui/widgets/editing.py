"""Editing keys in the order in which they were typed."""

from __future__ import annotations

from textual import events
from textual.widget import Widget


async def run_own_binding(widget: Widget, event: events.Key) -> None:
    """Do at once what a key means to the widget that has the focus.

    Textual asks bindings only when a key has bubbled up to the app. By then characters that were typed after it stand
    in the text already: a fast typist's backspace would take away the wrong ones.
    """
    for binding in widget._bindings.key_to_bindings.get(event.key, ()):
        if not binding.priority and await widget.app.run_action(binding.action, widget):
            event.stop()
            event.prevent_default()
            return
