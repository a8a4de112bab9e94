"""Changes to Textual's terminal driver: its writer, its parser of terminal input, and termination by a signal.

The parser has two changes:

- Textual 8.2.8 reads a paste one character at a time, so an escape character in it begins a key: up to 32 characters
  after it, including line ends, become key presses. Colored text, pasted from tmux, would send itself.
- Textual reads alt and a digit as the character that macOS types with it ("™" for alt+2), reports alt and a letter
  with the letter as typed text, and drops alt from other keys such as enter.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Queue
from types import FrameType
from typing import IO

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread
from textual.message import Message

_PASTE_START = "\x1b[200~"
_PASTE_END = "\x1b[201~"
_MAX_SPLIT_CHARACTERS = len(_PASTE_END) - 1
"""Characters of the end mark that may have already arrived."""

_SIGNAL_EXIT = 128
"""Added to a signal number for the exit code, by the convention of shells."""
END_S = 3.0
"""Longest time from a signal to the exit."""
_ALT_AND_KEY = 2
"""Characters of alt and another key: the escape character and the key's."""


class InputParser(XTermParser):
    """Textual's parser, except for the text between the marks of a paste."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasted: list[str] | None = None
        self._rest = ""

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the events of the input; an empty text ends the input."""
        if not data:
            yield from super().feed(data)
        while data:
            if self._pasted is None:
                before, start, data = data.partition(_PASTE_START)
                if before:
                    yield from super().feed(before)
                if start:
                    self._pasted = []
                continue
            data, self._rest = self._rest + data, ""
            text, end, after = data.partition(_PASTE_END)
            if not end:
                self._pasted.append(data[:-_MAX_SPLIT_CHARACTERS])
                self._rest = data[-_MAX_SPLIT_CHARACTERS:]
                return
            whole, self._pasted = "".join((*self._pasted, text)), None
            yield events.Paste(whole.replace("\x00", ""))
            data = after

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        # Textual stores a character for these two characters; keys such as escape and f have a tuple.
        if len(sequence) == _ALT_AND_KEY and isinstance(ANSI_SEQUENCES_KEYS.get(sequence), str):
            sequence, alt = sequence[1:], True
        for event in super()._sequence_to_key_events(sequence, alt=alt):
            yield events.Key(f"alt+{event.key.removeprefix('alt+')}", None) if alt else event


class TerminalWriter(WriterThread):
    """Writes on the caller's thread; this thread writes what the terminal does not accept yet."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(file)
        self._terminal = file.fileno()
        self._waiting: Queue[bytes | None] = Queue(MAX_QUEUED_WRITES)
        self._unblocked: int | None = None
        """The terminal, opened again because the shell shares the file's mode, if possible."""
        if sys.platform != "win32":
            with suppress(OSError):
                self._unblocked = os.open(os.ttyname(self._terminal), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)

    def write(self, text: str) -> None:
        """Write text after all earlier text."""
        data = text.encode("utf-8", "replace")
        if self._unblocked is not None and not self._waiting.unfinished_tasks:
            with suppress(OSError):
                data = data[os.write(self._unblocked, data) :]
        if data:
            self._waiting.put(data)

    def run(self) -> None:
        """Write the waiting text."""
        while (data := self._waiting.get()) is not None:
            # The terminal may be gone.
            with suppress(OSError):
                while data:
                    data = data[os.write(self._terminal, data) :]
            self._waiting.task_done()

    def stop(self) -> None:
        """Write the rest, and end the thread."""
        self._waiting.put(None)
        self.join()
        if self._unblocked is not None:
            os.close(self._unblocked)
            self._unblocked = None


def install_driver() -> None:
    """Install this parser and writer in Textual's driver. Windows reads keys from records, without escape sequences."""
    if sys.platform != "win32":
        from textual.drivers import linux_driver

        vars(linux_driver).update(XTermParser=InputParser, WriterThread=TerminalWriter)


def end_politely(leave: Callable[[int], None]) -> None:
    """Call `leave` with an exit code on the running event loop after SIGTERM, SIGHUP, or Ctrl+Break on Windows.

    Restoring a missing terminal could block forever, so the process exits some seconds later in any case.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _: FrameType | None) -> None:
        code = _SIGNAL_EXIT + number
        deadline = threading.Timer(END_S, os._exit, (code,))
        deadline.daemon = True
        deadline.start()
        # The loop may have ended.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(leave, code)

    if sys.platform == "win32":
        signal.signal(signal.SIGBREAK, on_signal)
    else:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, on_signal)
