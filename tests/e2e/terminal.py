"""The program in a real terminal, for tests: keys in, what is on the screen out."""

from __future__ import annotations

import os
import shlex
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
_HANGS_S = 120.0
"""What has not come by then never comes, on the busiest machine; how fast anything is, no test says."""


class Terminal:
    """`tandem` in a tmux window of its own server.

    Args:
        folder: For what is told of the program.
        flags: It is given.
        output: A file that takes its standard output in the terminal's place.
    """

    def __init__(self, folder: Path, *flags: str, output: Path | None = None) -> None:
        self._name = f"tandem-test-{uuid.uuid4().hex}"
        self._status = folder / "status"
        self._process = folder / "process"
        into = f"> {shlex.quote(str(output))}" if output is not None else ""
        # The shell that becomes the program tells its number, to kill exactly this one.
        program = shlex.quote(f'echo $$ > "$0"; exec "$@" {into}')
        # Readline, which a test runner loads, tells children a size that would hold whatever the window's becomes.
        # Ctrl+c is for the program; some shells would end with it before they have told its status.
        run = f'unset COLUMNS LINES; trap : INT; status=$0; sh -c {program} "$@"; echo $? > "$status"; sleep 60'
        words = [str(self._status), str(self._process), sys.executable, "-m", "app", *flags]
        # Word by word: a single one is for the shell of the person, whose language may be another.
        shell = ["sh", "-c", run, *words]
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", "80", "-y", "24", "-c", str(_ROOT), *shell)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-L", self._name, *arguments], check=True, capture_output=True, text=True)
        return done.stdout

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    @property
    def printed(self) -> str:
        """All that was printed, also what has left the screen at its top."""
        return self._tmux("capture-pane", "-p", "-S", "-")

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def until(self, what: Callable[[str], object]) -> str:
        """Look until the screen is as wanted; returns it."""
        deadline = time.monotonic() + _HANGS_S
        while time.monotonic() < deadline:
            if what(screen := self.screen):
                return screen
            time.sleep(0.05)
        pytest.fail(f"never came true; the screen shows:\n{self.screen}")

    def exit_code(self) -> int:
        """Wait for the program to end."""
        self.until(lambda _: self._status.exists() and self._status.read_text())
        return int(self._status.read_text())

    def kill(self) -> None:
        """End the program as a power cut would."""
        os.kill(int(self._process.read_text()), signal.SIGKILL)
        self.until(lambda _: self._status.exists() and self._status.read_text())
        self._status.unlink()

    def close(self) -> None:
        self._tmux("kill-server")
