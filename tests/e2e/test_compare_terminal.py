"""Compare in a real terminal: both sides answer, a verdict follows, the conversation does not change."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.e2e.terminal import MARKS, Terminal

pytestmark = MARKS

_FIGURES = r"\d+(\.\d)? tok/s"
_VERDICT = re.compile(r"(too few runs to tell|nothing was drafted)[^)]*1\s+run")


def _sides(screen: str) -> list[str]:
    """The lines above the texts, without the figures where there are none yet."""
    return [line for line in screen.splitlines() if re.match(r"\s*With(out)? draft", line)]


def _asks(terminal: Terminal) -> str:
    """One answered prompt; returns the answer's lines."""
    terminal.until(lambda s: " ready " in s)
    terminal.type("Name the capital of France.")
    terminal.press("Enter")
    screen = terminal.until(lambda s: "Paris" in s and re.search(_FIGURES, s))
    return next(line for line in screen.splitlines() if "Paris" in line).strip()


def test_both_sides_answer_and_the_conversation_is_unchanged(start: Callable[..., Terminal]) -> None:
    terminal = start("--temp", "0", "--max-tokens", "16")
    answer = _asks(terminal)
    terminal.type("half a prom")
    terminal.until(lambda s: "half a prom" in s)
    terminal.press("C-u")
    terminal.until(lambda s: "ask anything" in s)

    terminal.press("F2", "F2")
    terminal.until(lambda s: len(_sides(s)) == 2)
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

    terminal.press("Escape")
    screen = terminal.until(lambda s: "ask anything" in s)
    assert answer in screen
    assert not _sides(screen)
    terminal.type("Are you sure?")
    terminal.press("Enter")
    terminal.until(lambda s: s.count("Answer") == 2 and re.search(_FIGURES, s))
    terminal.press("C-q")
    assert terminal.exit_code() == 0
