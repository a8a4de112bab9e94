"""Textual's thread that writes to the terminal, left out while the terminal takes what is written at once."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from queue import Queue
from typing import IO

from textual.drivers._writer_thread import MAX_QUEUED_WRITES, WriterThread


class TerminalWriter(WriterThread):
    """Write on the caller's thread; what the terminal does not take yet is left to this thread."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(file)
        self._terminal = file.fileno()
        self._waiting: Queue[bytes | None] = Queue(MAX_QUEUED_WRITES)
        self._unblocked: int | None = None
        """The terminal, opened once more: the mode of the file is shared with the shell. None where that fails."""
        if sys.platform != "win32":
            with suppress(OSError):
                self._unblocked = os.open(os.ttyname(self._terminal), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)

    def write(self, text: str) -> None:
        """Write text, after all that was written before."""
        data = text.encode("utf-8", "replace")
        if self._unblocked is not None and not self._waiting.unfinished_tasks:
            with suppress(OSError):
                data = data[os.write(self._unblocked, data) :]
        if data:
            self._waiting.put(data)

    def run(self) -> None:
        """Write what waits."""
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
