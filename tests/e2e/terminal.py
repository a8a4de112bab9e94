"""The program in a real terminal, for tests: keys in, what is on the screen out."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

MARKS = [
    pytest.mark.terminal,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is absent"),
]
"""Of every module whose tests open one."""
_ROOT = Path(__file__).parents[2]


class Terminal:
    """`tandem` in a tmux window of its own server."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._name = f"tandem-test-{uuid.uuid4().hex}"
        self._status = folder / "status"
        self._process = folder / "process"
        # The shell that becomes the program tells its number, to kill exactly this one.
        program = f"echo $$ > {self._process}; exec {sys.executable} -m app {' '.join(flags)}"
        # Readline, which a test runner loads, tells children a size that would hold whatever the window's becomes.
        run = f"unset COLUMNS LINES; sh -c '{program}'; echo $? > {self._status}; sleep 60"
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", "80", "-y", "24", "-c", str(_ROOT), run)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-L", self._name, *arguments], check=True, capture_output=True, text=True)
        return done.stdout

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def until(self, what: Callable[[str], object], seconds: float = 60) -> str:
        """Look until the screen is as wanted; returns it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if what(screen := self.screen):
                return screen
            time.sleep(0.05)
        pytest.fail(f"never came true; the screen shows:\n{self.screen}")

    def exit_code(self, seconds: float = 60) -> int:
        """Wait for the program to end."""
        self.until(lambda _: self._status.exists() and self._status.read_text(), seconds)
        return int(self._status.read_text())

    def kill(self) -> None:
        """End the program as a power cut would."""
        os.kill(int(self._process.read_text()), signal.SIGKILL)
        self.until(lambda _: self._status.exists() and self._status.read_text())
        self._status.unlink()

    def close(self) -> None:
        self._tmux("kill-server")
