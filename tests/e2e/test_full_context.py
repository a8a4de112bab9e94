"""A conversation that fills the context goes on, in a real terminal."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.terminal import MARKS, Terminal

pytestmark = MARKS

_MOST_PROMPTS = 8


def test_a_full_context_goes_on_with_a_summary(start: Callable[..., Terminal]) -> None:
    terminal = start("--temp", "0", "--ctx", "512", "--max-tokens", "90", "--no-draft", "--titles", "off")
    terminal.until(lambda s: " ready " in s)
    for number in range(_MOST_PROMPTS):
        terminal.type(f"Tell me fact number {number} about lighthouses.")
        terminal.press("Enter")
        # The footer offers another answer once this one has ended.
        terminal.until(lambda s: "esc stop" in s)
        screen = terminal.until(lambda s: "ctrl+r regenerate" in s)
        if "as a summary" in screen:
            break
    else:
        raise AssertionError(f"no summary after {_MOST_PROMPTS} prompts:\n{screen}")
    terminal.press("C-q")
    assert terminal.exit_code() == 0
