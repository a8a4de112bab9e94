"""The program crashes during an answer: the terminal is usable, and one key opens the conversation again."""

import re
import signal
from collections.abc import Callable

import pytest

from tests.e2e.terminal import MARKS, Terminal, has_stored_text

pytestmark = MARKS


def _in_the_middle(start: Callable[..., Terminal]) -> Terminal:
    terminal = start("--temp", "0", "--no-draft")
    terminal.enter("Write a very long story about a lighthouse.", until=has_stored_text)
    assert terminal.modes == "101"
    return terminal


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_the_conversation_is_opened_again_with_enter(start: Callable[..., Terminal], number: signal.Signals) -> None:
    terminal = _in_the_middle(start)
    terminal.program.send_signal(number)
    terminal.until(lambda s: f"tandem: The program crashed ({number.name})" in s and "Press enter" in s)
    assert terminal.modes == "010"

    terminal.press("Enter", until=lambda s: "cut before its end; ctrl+g continues" in s and " ready " in s)
    terminal.press("C-g", until=lambda s: re.search(r"\d tok/s", s))
    (engine,) = terminal.program.children()
    engine.send_signal(number)
    terminal.until(lambda s: f"The engine process crashed ({number.name})" in s and " ready " in s)
    terminal.press("C-g", until=lambda s: re.search(r"\d tok/s", s))
    assert terminal.exit_code("C-q") == 0


def test_another_key_leaves_with_a_usable_terminal(start: Callable[..., Terminal]) -> None:
    terminal = _in_the_middle(start)
    terminal.program.send_signal(signal.SIGABRT)
    terminal.until(lambda s: "Press enter" in s)
    terminal.type("q")

    assert terminal.exit_code() == 1
    assert terminal.modes == "010"
