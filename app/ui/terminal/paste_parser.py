"""Pastes into the terminal, taken whole; and of every key, whether escape came right before it.

Textual 8.2.8 reads a paste as it reads keys, one character at a time. An escape character in it begins a key there,
and up to 32 characters behind it, a line end among them, become key presses: text with colours, pasted, sends itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from app.ui.terminal import windows_characters

_START = "\x1b[200~"
_END = "\x1b[201~"
_SPLIT = len(_END) - 1
"""Characters of the end mark that may have come already."""


class PasteParser(XTermParser):
    """Textual's parser for everything but what stands between the marks of a paste."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasted: list[str] | None = None
        self._held = ""

    def feed(self, data: str) -> Iterable[Message]:
        """The events in what was read; the empty text ends it."""
        if not data:
            yield from super().feed(data)
        while data:
            if self._pasted is None:
                before, start, data = data.partition(_START)
                if before:
                    yield from super().feed(before)
                if start:
                    self._pasted = []
                continue
            data, self._held = self._held + data, ""
            text, end, rest = data.partition(_END)
            if not end:
                self._pasted.append(data[:-_SPLIT])
                self._held = data[-_SPLIT:]
                return
            whole, self._pasted = "".join((*self._pasted, text)), None
            yield events.Paste(whole.replace("\x00", ""))
            data = rest

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        # Of an escape right before a key Textual tells only if that is a letter or a digit.
        for event in super()._sequence_to_key_events(sequence, alt=alt):
            is_told = not alt or event.key.startswith("alt+")
            yield event if is_told else events.Key(f"alt+{event.key}", event.character)


class ConsoleParser(PasteParser):
    """The same for Windows, whose keys need not have a character: nothing is not the end of what is read."""

    def feed(self, data: str) -> Iterable[Message]:
        """The events in what was read."""
        if data:
            yield from super().feed(data)


def take_pastes_whole() -> None:
    """Let Textual's driver read with it; the driver takes its parser from its module."""
    if sys.platform == "win32":
        from textual.drivers import win32

        vars(win32)["XTermParser"] = ConsoleParser
        windows_characters.mend(win32.KEY_EVENT_RECORD)
    else:
        from textual.drivers import linux_driver

        vars(linux_driver)["XTermParser"] = PasteParser
