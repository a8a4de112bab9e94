"""What is written to a terminal depends on which one it is."""

from __future__ import annotations

import io

import pytest

from app.cli.output import AnswerPrinter, StatusLine
from app.engine.text import Segment
from app.engine.types import Origin

THOUGHT = Segment("so", Origin.TARGET, reasoning=True)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("term", "codes"), [("xterm", True), ("", True), ("dumb", False)])
def test_a_terminal_that_obeys_no_codes_gets_none(monkeypatch: pytest.MonkeyPatch, term: str, codes: bool) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Screen()
    status = StatusLine(screen)
    status.show("Loading")
    status.say("Loaded")
    AnswerPrinter(screen, screen).print([THOUGHT])
    assert ("\x1b" in screen.getvalue()) == codes
    assert "Loaded\n" in screen.getvalue()


def test_no_colour_still_lets_a_line_overwrite_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    StatusLine(screen).show("Loading")
    assert "Loading" in screen.getvalue()
    thinking = Screen()
    AnswerPrinter(screen, thinking).print([THOUGHT])
    assert thinking.getvalue() == "so"
