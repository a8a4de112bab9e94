"""Run the program in a real terminal: send keys and read the screen."""

import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from app.core.paths import conversations_file
from tests.hanging import HANGS_S

MARKS = [pytest.mark.terminal, pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is absent")]
"""Marks for every module whose tests open a terminal."""
Condition = Callable[[str], object]
"""Returns whether the screen shows what is waited for."""
_ROOT = Path(__file__).parents[2]
_STAYS_S = 900
"""How long the window outlives the program: longer than any wait, so that a failed test shows the screen."""


def _anything(_: str) -> bool:
    return True


class Terminal:
    """`tandem` in a window of a separate tmux server."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._name = f"tandem-test-{uuid.uuid4().hex}"
        self._status = folder / "status"
        self._process = folder / "process"
        # The shell writes its process id before it executes the program.
        program = shlex.quote('echo $$ > "$0"; exec "$@"')
        # Readline, which a test runner loads, sets COLUMNS and LINES, which would override the size of the window.
        # Ctrl+c is for the program; without the trap, some shells would end before writing its exit code.
        run = f'unset COLUMNS LINES; trap : INT; status=$0; sh -c {program} "$@"; echo $? > "$status"; sleep {_STAYS_S}'
        words = [str(self._status), str(self._process), sys.executable, "-m", "app", *flags]
        # Separate arguments: tmux would run a single argument with the login shell of the user.
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
        """Return the output, including the scrollback."""
        return self._tmux("capture-pane", "-p", "-S", "-")

    def type(self, text: str, *, until: Condition = _anything) -> str:
        """Type a text, and wait as `until` does."""
        self._tmux("send-keys", "-l", text)
        return self.until(until)

    def press(self, *keys: str, until: Condition = _anything) -> str:
        """Press keys, and wait as `until` does."""
        self._tmux("send-keys", *keys)
        return self.until(until)

    def enter(self, line: str, *, until: Condition = _anything) -> str:
        """Type a line, press Enter, and wait as `until` does."""
        self.type(line)
        return self.press("Enter", until=until)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def until(self, is_reached: Condition) -> str:
        """Wait until the screen meets a condition; return the screen."""
        deadline = time.monotonic() + HANGS_S
        while time.monotonic() < deadline:
            if is_reached(screen := self.screen):
                return screen
            time.sleep(0.05)
        pytest.fail(f"condition not met; the screen shows:\n{self.screen}")

    def exit_code(self, *keys: str) -> int:
        """Press keys, and wait for the program to end; return its exit code."""
        if keys:
            self.press(*keys)
        self.until(lambda _: self._status.exists() and self._status.read_text())
        return int(self._status.read_text())

    @property
    def program(self) -> psutil.Process:
        """The process that draws, below the process that the shell started."""
        return psutil.Process(int(self._process.read_text())).children()[0]

    @property
    def modes(self) -> str:
        """Return whether the alternate screen, the cursor and mouse reports are on, as digits."""
        return self._tmux("display-message", "-p", "#{alternate_on}#{cursor_flag}#{mouse_any_flag}").strip()

    def terminate(self) -> None:
        """Send SIGTERM to the parent of the program."""
        os.kill(int(self._process.read_text()), signal.SIGTERM)

    def kill(self) -> None:
        """Kill the program and its parent with SIGKILL."""
        self.program.kill()
        os.kill(int(self._process.read_text()), signal.SIGKILL)
        self.until(lambda _: self._status.exists() and self._status.read_text())
        self._status.unlink()

    def close(self) -> None:
        self._tmux("kill-server")


def has_stored_text(_: str) -> bool:
    """Return whether a part of the answer is on disk."""
    # The program creates the file with the first prompt.
    file = f"file:{conversations_file()}?mode=ro"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(file, uri=True)) as database:
        return bool(
            database.execute("SELECT count(*) FROM messages WHERE state = 'writing' AND text <> ''").fetchone()[0]
        )
    return False
