"""Writing to a terminal or a pipe: answers, a status line that goes away, nothing that a model could abuse."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, TextIO

from app.core.printable import escape_unprintable, printable
from app.engine.text.segments import Segment

LOADING = "Loading the models"
LOOKING = "Looking at this machine"
"""Status while a command inspects the machine."""
_CLEAR_LINE = "\r\x1b[K"
_ON_WINDOWS = ("WT_SESSION", "TERM", "TERM_PROGRAM", "ANSICON", "ConEmuANSI")
_DIM, _RESET = "\x1b[2m", "\x1b[0m"


def json_for(stream: TextIO, value: object) -> str:
    """Return a value as one line of JSON without control characters; in ASCII for a terminal."""
    return escape_unprintable(json.dumps(value, ensure_ascii=stream.isatty()))


def obeys_codes() -> bool:
    """Return whether the terminal supports control codes."""
    if os.environ.get("TERM") == "dumb":
        return False
    # The console of older Windows shows them unless a program tells it otherwise; others there say who they are.
    return sys.platform != "win32" or any(map(os.environ.get, _ON_WINDOWS))


class StatusLine:
    """One line on stderr that overwrites itself; silent without a terminal.

    Attributes:
        last: The one that was shown last in this process, if any.
    """

    last: ClassVar[StatusLine | None] = None

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty() and obeys_codes()
        self._shown = ""

    @property
    def is_live(self) -> bool:
        """Return whether it is on a terminal."""
        return self._live

    def show(self, text: str) -> None:
        """Replace the line, on a terminal only."""
        if self._live and text != self._shown:
            # A line that wraps could not be taken back.
            self._stream.write(_CLEAR_LINE + printable(text)[: width_of(self._stream) - 1])
            self._stream.flush()
            self._shown = text
            StatusLine.last = self

    def clear(self) -> None:
        if self._shown:
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()
            self._shown = ""

    def say(self, text: str, hang: int = 0) -> None:
        """Write a line that stays; what of it does not fit goes on below, indented by so many columns."""
        self.clear()
        self._stream.write(for_reading(printable(text), self._stream, hang) + "\n")
        self._stream.flush()

    @property
    def can_ask(self) -> bool:
        """Return whether the user can see a question and reply."""
        return self._stream.isatty() and self.can_reply

    @property
    def can_reply(self) -> bool:
        """Return whether stdin is a terminal."""
        return sys.stdin.isatty()

    def ask(self, question: str) -> str | None:
        """Ask beside whatever else is said, for standard output may be a file.

        Returns:
            The reply in small letters; None where there is no more to read, as after ctrl+d.
        """
        self.clear()
        self._stream.write(question)
        self._stream.flush()
        try:
            return input().strip().lower()
        except EOFError:
            return None


def clear_status() -> None:
    """Clear the status line, whichever command wrote it."""
    if StatusLine.last is not None:
        StatusLine.last.clear()


class AnswerPrinter:
    """Streams the answer to one stream and the model's thinking to the other."""

    def __init__(self, answer: TextIO, thinking: TextIO) -> None:
        self._answer = answer
        self._thinking = thinking
        colored = thinking.isatty() and obeys_codes() and not os.environ.get("NO_COLOR")
        self._style = (_DIM, _RESET) if colored else ("", "")
        self._last = ""
        """Last character of the answer; "" before it begins."""
        self._last_thought = ""

    def print(self, segments: Sequence[Segment]) -> None:
        """Write what can be shown now."""
        for segment in segments:
            if segment.reasoning:
                self._print_thought(segment.text)
            else:
                self._print_answer(segment.text)
        self._answer.flush()
        self._thinking.flush()

    def _print_thought(self, text: str) -> None:
        on, off = self._style
        self._thinking.write(f"{on}{printable(text)}{off}")
        self._last_thought = text[-1:] or self._last_thought

    def _print_answer(self, text: str) -> None:
        if not self._last:
            text = text.lstrip()
            if not text:
                return
            if self._last_thought:
                self._break_thought()
                self._thinking.write("\n")
                self._thinking.flush()
        text = printable(text, self._last)
        self._answer.write(text)
        self._last = text[-1:] or self._last

    @property
    def _is_thinking(self) -> bool:
        return not self._last and self._last_thought != ""

    @property
    def holds_line(self) -> bool:
        """Return whether the terminal's cursor is in an unfinished line of text."""
        if self._is_thinking:
            return self._thinking.isatty() and self._last_thought != "\n"
        return self._answer.isatty() and self._last not in ("", "\n")

    def break_line(self) -> None:
        """Let what is said about the answer stand in a line of its own, where both are on one terminal."""
        if self._is_thinking:
            self._break_thought()
        elif self.holds_line:
            self._answer.write("\n")
            self._answer.flush()
            self._last = "\n"

    def _break_thought(self) -> None:
        if self._last_thought != "\n":
            self._thinking.write("\n")
            self._thinking.flush()
            self._last_thought = "\n"

    def end(self) -> None:
        """Finish the last line; of an answer that never began, that of the thinking."""
        if self._is_thinking:
            self._break_thought()
        if self._last != "\n" and not (self._is_thinking and self._answer.isatty()):
            self._answer.write("\n")
        self._answer.flush()


HANG = len("tandem: ")
"""Indent of the lines below a message."""
_USUAL = 80
"""Columns of a terminal of unknown width."""
_FEWEST = 20
"""Columns of indented text at least."""
_BOUND = "\N{NO-BREAK SPACE}"
_COMMAND = re.compile(
    r"(?:^ *|(?<=: ))(?![^\"']*\. [A-Z])(?:[A-Z_]+=\S.*|(?:\S*(?:tandem|pip|python3?|uv|cmake|export)(?:\.exe)?) .*)$"
)
"""A command in a line, which must not be wrapped."""


def for_reading(text: str, stream: TextIO, hang: int = 0) -> str:
    """Wrap text for a terminal; return it unchanged for a pipe or file.

    Args:
        text: One line or several.
        stream: Where it goes.
        hang: Columns that what goes on below is indented by, besides what its line is.
    """
    columns = columns_of(stream)
    if columns is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in broken(line, columns, hang + _indent(line)))


def columns_of(stream: TextIO) -> int | None:
    """Return the columns of a stream's terminal; None for a pipe or file."""
    return width_of(stream) if stream.isatty() else None


def width_of(terminal: TextIO) -> int:
    """Return the columns of the terminal that a stream goes to; COLUMNS overrides it."""
    with suppress(KeyError, ValueError):
        if (wanted := int(os.environ["COLUMNS"])) > 0:
            return wanted
    with suppress(OSError, ValueError):
        return os.get_terminal_size(terminal.fileno()).columns or _USUAL
    return _USUAL


def broken(line: str, columns: int, hang: int) -> list[str]:
    """Wrap a line; longer words and commands stay whole.

    Args:
        line: Without an end.
        columns: Of the terminal.
        hang: Columns in front of all lines but the first.
    """
    if len(line) <= columns or " " not in line[hang:].strip():
        return [line]
    bound = _COMMAND.sub(lambda found: found[0].replace(" ", _BOUND), line)
    parts = textwrap.wrap(
        bound,
        max(_FEWEST + hang, columns),
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_BOUND, " ") for part in parts]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
