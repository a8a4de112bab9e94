"""Files in prompts, pastes and signals in a real terminal."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.terminal import MARKS, Terminal

pytestmark = MARKS

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "zebra notes.md"
    file.write_text("The zebra is called Trieste.\n" * 4)
    return file


def _process(folder: Path) -> int:
    return int((folder / "process").read_text())


def test_a_paste_with_colors_presses_no_keys(start: Callable[..., Terminal], tmp_path: Path) -> None:
    terminal = start("--temp", "0")
    terminal.until(lambda s: " ready " in s)
    pasted = tmp_path / "pasted"
    pasted.write_text("\x1b[31mred\x1b[0m and\nmore text that is longer than any key\n")
    terminal._tmux("load-buffer", str(pasted))
    terminal._tmux("paste-buffer", "-p")
    screen = terminal.until(lambda s: "more text that is longer than any key" in s)
    assert "[31mred[0m and" in screen
    assert "Answer" not in screen
    terminal.press("C-q")
    assert terminal.exit_code() == 0


def test_sigterm_restores_the_terminal_and_keeps_what_was_shown(start: Callable[..., Terminal], tmp_path: Path) -> None:
    terminal = start("--temp", "0")
    terminal.type("Write a very long story about a lighthouse, with many chapters.")
    terminal.press("Enter")
    terminal.until(lambda s: re.search(r"\d tok/s", s))
    os.kill(_process(tmp_path), signal.SIGTERM)
    assert terminal.exit_code() == 128 + signal.SIGTERM
    assert terminal.screen.strip() == ""
    (tmp_path / "status").unlink()

    again = start("--temp", "0")
    again.until(lambda s: " ready " in s)
    again.press("C-o")
    again.until(lambda s: "Write a very long story" in s)
    again.press("Enter")
    again.until(lambda s: "cut before its end" in s)
    again.press("C-q")
    assert again.exit_code() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no terminal to close like this")
def test_closing_the_terminal_ends_the_program(tmp_path: Path, demo_draft: Path) -> None:
    import pty

    parent, child = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "app", "--pair", "demo"],
        cwd=_ROOT,
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(child)
    shown = b""
    # The cursor is on the first letter.
    while b"sk anything" not in shown:
        shown += os.read(parent, 4096)
    os.close(parent)
    program.send_signal(signal.SIGHUP)
    assert program.wait(240) in (128 + signal.SIGHUP, -signal.SIGHUP)
