"""A program in a pseudo terminal. POSIX only."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import psutil

_FRAME_END = b"\x1b[?2026l"


class PseudoTerminal:
    """A process in a pseudo terminal whose output is read at once; `size` is columns and rows."""

    def __init__(self, command: Sequence[str], size: tuple[int, int], environment: Mapping[str, str]) -> None:
        self.began = time.perf_counter()
        self._seen = b""
        self._drawn: list[float] = []
        self._changed = threading.Condition()
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            columns, rows = size
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(command[0], list(command), dict(environment))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._terminal, 65536)
            except OSError:
                data = b""
            if not data:
                return
            if b"\x1b[?2026$p" in data:
                # Asked whether it draws frames at once: yes, so that their ends can be seen.
                os.write(self._terminal, b"\x1b[?2026;2$y")
            with self._changed:
                self._seen += data
                self._drawn += [time.perf_counter()] * (data.count(_FRAME_END) > 0)
                self._changed.notify_all()

    def type(self, text: str) -> None:
        """Send keys, and drop the output so far."""
        self._seen, self._drawn = b"", []
        os.write(self._terminal, text.encode())

    @property
    def frame_sizes(self) -> list[int]:
        """Bytes of every whole frame since the last keys."""
        return [len(frame) for frame in self._seen.split(_FRAME_END)[:-1]]

    @property
    def frame_gaps(self) -> list[float]:
        """Seconds between frames since the last keys."""
        return [later - earlier for earlier, later in pairwise(self._drawn)]

    def until(self, text: str, seconds: float = 60) -> float:
        """Wait for a text in the output; return the seconds since the start of the process."""
        with self._changed:
            if not self._changed.wait_for(lambda: text.encode() in self._seen, seconds):
                raise TimeoutError(f"{text!r} was not drawn")
        return time.perf_counter() - self.began

    def rest(self, seconds: float) -> None:
        """Wait until nothing was drawn for so long since the last keys."""
        while not self._drawn or time.perf_counter() - self._drawn[-1] < seconds:
            time.sleep(seconds / 4)

    def pause(self) -> None:
        """Stop the process, so that it takes no time from another process."""
        for pid in (self._pid, *self._children):
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a stopped process run again."""
        for pid in (*self._children, self._pid):
            os.kill(pid, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all threads of the process and of its children. Linux only."""
        tasks = [task for pid in (self._pid, *self._children) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")]
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    @property
    def _children(self) -> list[int]:
        """Return the processes that it started; Tandem runs in one."""
        return [child.pid for child in psutil.Process(self._pid).children()]

    def wait(self) -> None:
        """Wait for the process to end."""
        os.waitpid(self._pid, 0)

    def close(self) -> None:
        """Kill the process."""
        for pid in (*self._children, self._pid):
            os.kill(pid, signal.SIGKILL)
        self.wait()
