"""In a real terminal: a conversation, a comparison, a full context, a paste, and a terminal that is closed."""

import os
import re
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.tree import State
from app.core.paths import conversations_file
from tests.e2e.terminal import MARKS, Terminal, has_stored_text
from tests.hanging import HANGS_S
from tests.pseudo_terminal import in_terminal

pytestmark = MARKS

_READOUTS = re.compile(r"\d+(\.\d)? tok/s +(\d+% accepted|\d+ of \d+ accepted) .* draft model")


def test_a_conversation(start: Callable[..., Terminal]) -> None:
    terminal = start("--temp", "0", "--draft-n-max", "7")
    screen = terminal.until(lambda s: " ready " in s)
    assert "SmolLM2-135M-Instruct Q4_1 + Q2_K" in screen

    terminal.enter("Name the capital of France.", until=lambda s: "Paris" in s)
    if "esc stop" in terminal.until(_READOUTS.search):
        # Small models sometimes never end.
        terminal.press("Escape", until=lambda s: "esc stop" not in s)

    terminal.enter("Write a very long story about the sea, with many chapters.")
    terminal.until(lambda s: re.search(r"\d tok/s", s))
    terminal.type("typed while it answers", until=lambda s: "typed while it answers" in s and "esc stop" in s)
    terminal.press("Escape", until=lambda s: "stopped" in s)

    # On a busy machine the answer may end before Escape, and the next key would be read as alt with that key.
    assert terminal.exit_code("Space", "C-q") == 0


@pytest.mark.parametrize(
    ("end", "code"),
    [(lambda terminal: terminal.press("C-q"), 0), (Terminal.terminate, 128 + signal.SIGTERM)],
    ids=["ctrl+q", "SIGTERM"],
)
def test_an_end_during_an_answer_restores_the_terminal_and_keeps_what_was_shown(
    start: Callable[..., Terminal], end: Callable[[Terminal], None], code: int
) -> None:
    terminal = start("--temp", "0", "--draft-n-max", "7")
    terminal.enter("Write a very long story about the sea.", until=_READOUTS.search)
    end(terminal)
    assert terminal.exit_code() == code
    assert terminal.screen.strip() == ""
    with closing(sqlite3.connect(conversations_file())) as db:
        [(state, text)] = db.execute("SELECT state, text FROM messages ORDER BY id DESC LIMIT 1")
    assert state == State.CUT.value, "the answer was waited for"
    assert text


def test_after_a_kill_the_conversation_is_there_and_the_answer_marked(start: Callable[..., Terminal]) -> None:
    terminal = start("--temp", "0")
    terminal.enter("Write a very long story about a lighthouse, with many chapters.", until=has_stored_text)
    terminal.kill()

    again = start("--temp", "0")
    again.until(lambda s: " ready " in s)
    again.press("C-o", until=lambda s: "type to search" in s and "Write a very long story" in s)
    again.type("lighthouse", until=lambda s: "Write a very long story" in s and "Nothing" not in s)
    again.press("Enter")
    # It opens at the found message; the end of a long message is further down.
    again.until(lambda s: "type to search" not in s and "Answer" in s)
    again.press("C-End", until=lambda s: "cut before its end; ctrl+g continues" in s)
    again.press("C-g", until=lambda s: re.search(r"\d tok/s", s) and "cut before its end" not in s)
    again.press("Escape", until=lambda s: "stopped; ctrl+g continues" in s)
    again.press("C-Up", until=lambda s: "enter edit" in s)
    assert again.exit_code("C-q") == 0


def test_the_program_starts_with_any_shell_and_any_folder_name(
    start: Callable[..., Terminal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own := tmp_path / "it's mine").mkdir()
    (python := own / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("SHELL", shutil.which("false") or "")
    terminal = start("--target", "/nowhere/a big one.gguf")
    terminal.until(lambda s: "/nowhere/a big one.gguf" in s)
    assert terminal.exit_code("C-c", "C-c") == 0


_FIGURES = r"\d+(\.\d)? tok/s"
_VERDICT = re.compile(r"(too few runs to tell|nothing was drafted)[^)]*1\s+run")


def _sides(screen: str) -> list[str]:
    """Return the lines above the texts, without figures that are not there yet."""
    return [line for line in screen.splitlines() if re.match(r"\s*With(out)? draft", line)]


def _asks(terminal: Terminal) -> str:
    """Send a prompt; return the lines of its answer."""
    terminal.until(lambda s: " ready " in s)
    screen = terminal.enter("Name the capital of France.", until=lambda s: "Paris" in s and re.search(_FIGURES, s))
    return next(line for line in screen.splitlines() if "Paris" in line).strip()


def test_both_sides_answer_and_the_conversation_is_unchanged(start: Callable[..., Terminal]) -> None:
    terminal = start("--temp", "0", "--max-tokens", "16")
    answer = _asks(terminal)
    terminal.type("half a prom", until=lambda s: "half a prom" in s)
    terminal.press("C-u", until=lambda s: "ask anything" in s)

    terminal.press("F2", "F2", until=lambda s: len(_sides(s)) == 2)
    screen = terminal.until(_VERDICT.search)
    plain, drafted = _sides(screen)
    assert "Without draft" in plain
    assert "With draft, automatic" in drafted
    assert re.search(_FIGURES, plain)
    assert re.search(_FIGURES, drafted)
    told = " ".join(screen.split())
    assert "identical output" in told or "differs at token" in told
    assert "first token" in told
    assert re.search(r"both sides reuse \d+ cached tokens", told)

    screen = terminal.press("Escape", until=lambda s: "ask anything" in s)
    assert answer in screen
    assert not _sides(screen)
    terminal.enter("Are you sure?", until=lambda s: s.count("Answer") == 2 and re.search(_FIGURES, s))
    assert terminal.exit_code("C-q") == 0


_MOST_PROMPTS = 8


def test_a_full_context_goes_on_with_a_summary(start: Callable[..., Terminal]) -> None:
    terminal = start("--temp", "0", "--ctx", "512", "--max-tokens", "90", "--no-draft", "--titles", "off")
    terminal.until(lambda s: " ready " in s)
    for number in range(_MOST_PROMPTS):
        terminal.enter(f"Tell me fact number {number} about lighthouses.")
        # The footer offers another answer when this answer has ended.
        terminal.until(lambda s: "esc stop" in s)
        screen = terminal.until(lambda s: "ctrl+r regenerate" in s)
        if "as a summary" in screen:
            break
    else:
        raise AssertionError(f"no summary after {_MOST_PROMPTS} prompts:\n{screen}")
    assert terminal.exit_code("C-q") == 0


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
    assert terminal.exit_code("C-q") == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no terminal to close like this")
def test_closing_the_terminal_ends_the_program(demo_draft: Path) -> None:
    environment = {**os.environ, "TERM": "xterm-256color"}
    with in_terminal("-m", "app", "--pair", "demo", env=environment) as (program, terminal):
        shown = b""
        # The cursor is on the first letter.
        while b"sk anything" not in shown:
            shown += terminal.read(4096)
        terminal.close()
        program.send_signal(signal.SIGHUP)
        assert program.wait(HANGS_S) in (128 + signal.SIGHUP, -signal.SIGHUP)
