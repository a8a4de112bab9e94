"""Output to a terminal, a pipe or a file: answers without control characters, a progress line, result files."""

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from app.cli.setting_flags import in_flags
from app.core.errors import AppError, UsageError
from app.core.printable import escape_unprintable, printable
from app.core.regular_file import exists, is_folder
from app.engine.text.segments import Segment

LOADING = "Loading the models"
LOOKING = "Looking at this machine"
"""Status while a command inspects the machine."""
_CLEAR_LINE = "\r\x1b[K"
_ON_WINDOWS = ("WT_SESSION", "TERM", "TERM_PROGRAM", "ANSICON", "ConEmuANSI")
_DIM_CODE, _RESET_CODE = "\x1b[2m", "\x1b[0m"
HANG = len("tandem: ")
"""Indent of the lines below a message."""
_COMMAND_LINE = re.compile(r"\b(tandem|pip|python3?|uv|cmake|export) ")


def json_for(stream: TextIO, value: object) -> str:
    """Return a value as one line of JSON without control characters; in ASCII for a terminal."""
    return escape_unprintable(json.dumps(value, ensure_ascii=stream.isatty()))


def print_result(value: object, lines: Iterable[str], *, as_json: bool, hang: int = 0) -> None:
    """Print the result of a command on stdout: as one line of JSON, or as lines for reading; see `for_reading`."""
    text = json_for(sys.stdout, value) if as_json else for_reading("\n".join(lines), sys.stdout, hang)
    print(text, flush=True)


def obeys_codes() -> bool:
    """Return whether the terminal supports escape sequences."""
    if os.environ.get("TERM") == "dumb":
        return False
    # The older Windows console prints them as text; newer terminals on Windows set a variable.
    return sys.platform != "win32" or any(map(os.environ.get, _ON_WINDOWS))


def columns_of(stream: TextIO) -> int | None:
    """Return the columns of a stream's terminal; None for a pipe or file."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def for_reading(text: str, stream: TextIO, hang: int = 0) -> str:
    """Wrap the lines of a text for a terminal; return it unchanged for a pipe or file.

    Lines with a command stay whole, so that it can be copied. Continuation lines are indented by `hang` more columns.
    Fixes in the text become flags and commands.
    """
    text = in_flags(text)
    columns = columns_of(stream)
    if columns is None:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= columns or _COMMAND_LINE.search(line):
            lines.append(line)
            continue
        indent = " " * (hang + len(line) - len(line.lstrip(" ")))
        lines += textwrap.wrap(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


class TerminalLine:
    """One line on stderr that overwrites itself; silent without a terminal."""

    _stream: TextIO | None = None
    """The stream that shows the line."""
    _shown = ""

    @property
    def is_live(self) -> bool:
        return sys.stderr.isatty() and obeys_codes()

    def show(self, text: str) -> None:
        """Replace the line if stderr is a terminal."""
        if self.is_live and text != self._shown:
            # A wrapped line could not be erased.
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(_CLEAR_LINE + printable(text)[:width])
            sys.stderr.flush()
            self._stream, self._shown = sys.stderr, text

    def clear(self) -> None:
        if self._shown and self._stream == sys.stderr:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
        self._shown = ""

    def say(self, text: str, hang: int = 0) -> None:
        """Print a permanent line; indent its continuation lines by `hang` columns."""
        self.clear()
        sys.stderr.write(for_reading(printable(text), sys.stderr, hang) + "\n")
        sys.stderr.flush()

    @property
    def can_ask(self) -> bool:
        """Return whether the user can see a question and reply."""
        return sys.stderr.isatty() and sys.stdin.isatty()

    def ask(self, question: str) -> str | None:
        """Ask on stderr, since stdout may be a file; return the reply in lower case, or None after Ctrl+D."""
        self.clear()
        sys.stderr.write(question)
        sys.stderr.flush()
        try:
            return input().strip().lower()
        except EOFError:
            return None


status = TerminalLine()
"""The status line of this process."""


class AnswerPrinter:
    """Streams an answer to one stream and the reasoning to another, or prints both as JSON at the end."""

    def __init__(self, answer: TextIO, reasoning: TextIO, prefill: str = "", *, as_json: bool = False) -> None:
        self._answer = answer
        self._reasoning = reasoning
        self._prefill = [Segment(prefill)] if prefill else []
        self._as_json = as_json
        colored = reasoning.isatty() and obeys_codes() and not os.environ.get("NO_COLOR")
        self._style = (_DIM_CODE, _RESET_CODE) if colored else ("", "")
        self._current: TextIO | None = None
        """The stream of the last text."""
        self._last = ""
        """The last character of the last text."""
        self._answered = False

    def print(self, segments: Sequence[Segment]) -> None:
        """Print the text that can be shown now."""
        if self._as_json:
            return
        status.clear()
        begun, self._prefill = self._prefill, []
        for segment in [*begun, *segments]:
            if segment.reasoning:
                on, off = self._style
                self._write(self._reasoning, f"{on}{printable(segment.text)}{off}", segment.text)
            elif text := segment.text if self._answered else segment.text.lstrip():
                if not self._answered:
                    if self._current is not None:
                        self.break_line()
                        self._write(self._reasoning, "\n", "\n")
                    self._answered, self._last = True, ""
                text = printable(text, self._last)
                self._write(self._answer, text, text)

    def _write(self, stream: TextIO, styled: str, text: str) -> None:
        stream.write(styled)
        stream.flush()
        self._current = stream
        self._last = text[-1:] or self._last

    @property
    def holds_line(self) -> bool:
        """Return whether the cursor of a terminal is in an unfinished line."""
        return self._current is not None and self._current.isatty() and self._last != "\n"

    def break_line(self) -> None:
        """End an unfinished line on a terminal or of the reasoning, so that a message gets its own line."""
        if self.holds_line or self._current is self._reasoning:
            self.end_line()

    def end_line(self) -> None:
        """End an unfinished line, on a terminal or in a file."""
        if self._current is not None and self._last != "\n":
            self._write(self._current, "\n", "\n")

    def finish(self, answer: Mapping[str, Any], summary: str) -> None:
        """Print the whole answer as JSON, or end its text; its summary goes to stderr."""
        # Even an answer without a token prints its prefill.
        self.print(())
        status.clear()
        self.print_json(answer)
        self.end()
        status.say(summary)

    def print_json(self, answer: Mapping[str, Any]) -> None:
        """Print the whole answer as JSON if the user asked for it."""
        if self._as_json:
            print(json_for(self._answer, answer), file=self._answer, flush=True)

    def end(self) -> None:
        """End the last line; in a file, an answer has at least one line."""
        if self._as_json:
            return
        if not self._answered:
            self.break_line()
        is_ended = self._last == "\n" if self._answered else self._current is not None and self._answer.isatty()
        if not is_ended:
            self._answer.write("\n")
            self._answer.flush()


def check_writable(file: Path, *, overwrites: bool = True) -> None:
    """Raise UsageError if a result cannot be written to this path, or would overwrite a file that it must not."""
    reason = ""
    if is_folder(file):
        reason = "it is a folder"
    elif not is_folder(file.parent):
        reason = f"there is no folder {file.parent}"
    elif not os.access(file if exists(file) else file.parent, os.W_OK):
        reason = "permission denied"
    if reason:
        raise UsageError(f"{file} cannot be written: {reason}.", "Choose another file.")
    if not overwrites and exists(file):
        raise exists_already(file)


def exists_already(file: Path) -> UsageError:
    """Return the error for an existing file without --force."""
    return UsageError(f"{file} exists already.", "Choose another file, or add --force to overwrite it.")


class LineFile:
    """A file whose lines are on disk as soon as they are added; the first line replaces the old content.

    A full disk must not end the measurement: `close` reports it. Without a path, nothing is written. Raises UsageError.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._mode = "w"
        self._error: OSError | None = None
        if file is not None:
            check_writable(file)

    def add(self, *lines: str) -> None:
        """Write some lines."""
        if self._file is None or self._error is not None:
            return
        try:
            with self._file.open(self._mode, encoding="utf-8", errors="replace", newline="\n") as out:
                out.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            self._error = error
        self._mode = "a"

    def close(self) -> None:
        """Raise AppError if a line could not be written."""
        if self._error is not None:
            raise _write_error(self._file, self._error)


def write_file(file: Path, text: str) -> None:
    """Write a text file. Raises AppError if that fails."""
    try:
        file.write_bytes(text.encode(errors="replace"))
    except OSError as error:
        raise _write_error(file, error) from error


def _write_error(file: Path | None, error: OSError) -> AppError:
    return AppError(f"{file} cannot be written: {error.strerror}.", "Choose another file.")
