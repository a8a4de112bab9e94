"""What is written to a terminal depends on which one it is."""

from __future__ import annotations

import io
import sys
from typing import NoReturn

import pytest

from app.cli import main
from app.cli.output import AnswerPrinter, StatusLine
from app.core.errors import HubError
from app.engine.text.segments import Segment
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


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The console of Windows 10."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("COLUMNS", "20")
    for name in ("TERM", "TERM_PROGRAM", "WT_SESSION", "ANSICON", "ConEmuANSI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("windows")
def test_windows_old_console_gets_no_status_line() -> None:
    screen = Screen()
    status = StatusLine(screen)
    status.show("Loading")
    status.say("Loaded")
    AnswerPrinter(screen, screen).print([THOUGHT])
    assert screen.getvalue() == "Loaded\nso"


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("name", ["WT_SESSION", "TERM_PROGRAM"])
def test_windows_newer_terminals_obey_codes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    screen = Screen()
    StatusLine(screen).show("Loading")
    assert screen.getvalue() == "\r\x1b[KLoading"


def test_no_color_still_lets_a_line_overwrite_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    StatusLine(screen).show("Loading")
    assert "Loading" in screen.getvalue()
    thinking = Screen()
    AnswerPrinter(screen, thinking).print([THOUGHT])
    assert thinking.getvalue() == "so"


@pytest.mark.parametrize("stream", [Screen, io.StringIO])
def test_an_answer_has_no_control_characters_on_a_screen_or_in_a_pipe(stream: type[io.StringIO]) -> None:
    answer = stream()
    printer = AnswerPrinter(answer, stream())
    printer.print([Segment("a\x1b]52;c;eA==\x07\u202e\u200b\tb", Origin.TARGET)])
    printer.end()
    assert answer.getvalue() == "a]52;c;eA==\tb\n"


def test_a_failure_takes_the_place_of_the_line_that_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> NoReturn:
        raise HubError("The hub cannot be found.", "Look here.\nOr there.")

    monkeypatch.setattr("app.cli.pairs_check.resolve", offline)
    monkeypatch.setattr("sys.stderr", screen := Screen())
    assert main(["pairs", "find", "owner/some-GGUF"]) == 1
    shown = screen.getvalue().rpartition("\x1b[K")[2]
    assert shown == "tandem: The hub cannot be found.\n        Look here.\n        Or there.\n"


def test_ctrl_c_leaves_no_line_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("app.cli.pairs.place", interrupted)
    monkeypatch.setattr("sys.stderr", screen := Screen())
    assert main(["pairs", "list"]) == 130
    assert "Looking at this machine" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[K")


def test_a_question_stands_where_it_is_seen_and_not_in_the_answer_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Screen(" Yes\n"))
    screen = Screen()
    status = StatusLine(screen)
    status.show("Looking")

    assert (status.ask("Download? "), status.ask("And now? ")) == ("yes", None)

    assert screen.getvalue().endswith("\x1b[KDownload? And now? ")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("stream", "reply"), [(Screen, io.StringIO), (io.StringIO, Screen)])
def test_nobody_is_asked_who_would_not_see_it_or_cannot_reply(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], reply: type[io.StringIO]
) -> None:
    monkeypatch.setattr("sys.stdin", reply())
    assert not StatusLine(stream()).can_ask
