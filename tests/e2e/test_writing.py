"""A paste into a real terminal, and its end."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.terminal import MARKS, Terminal
from tests.hanging import HANGS_S
from tests.pseudo_terminal import in_terminal

pytestmark = MARKS


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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no terminal to close like this")
def test_closing_the_terminal_ends_the_program(tmp_path: Path, demo_draft: Path) -> None:
    environment = {**os.environ, "TERM": "xterm-256color"}
    with in_terminal("-m", "app", "--pair", "demo", env=environment) as (program, terminal):
        shown = b""
        # The cursor is on the first letter.
        while b"sk anything" not in shown:
            shown += terminal.read(4096)
        terminal.close()
        program.send_signal(signal.SIGHUP)
        assert program.wait(HANGS_S) in (128 + signal.SIGHUP, -signal.SIGHUP)
