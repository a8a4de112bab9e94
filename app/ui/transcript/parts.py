"""Parts of a message as lines of text: Markdown, tokens, attachments and reasoning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from time import monotonic

from textual.content import Content

from app.conversations.attached import Attachment
from app.conversations.message import ResultOf
from app.core.printable import printable
from app.core.units import counted
from app.engine.text.segments import Segment
from app.ui.key_names import code_key
from app.ui.reading.rows import NOTHING, CodeStart, Line, Row
from app.ui.reading.token_rows import LINE_END, TokenDocument, TokenStyles
from app.ui.text import size
from app.ui.transcript.message_part import QUIET, MessagePart
from app.ui.widgets.row_canvas import n_leading, typed_rows

_MARKED_BAR_STYLE = "bold $foreground"
"""Style of the bar of the marked code block."""
AT_ONCE = 16_000
"""Characters of Markdown that are read before keys are handled: about 50 ms."""
INDENT = Content("  ")


class MarkdownPart(MessagePart):
    """Growing Markdown; a long text is read in pieces, so that keys do not wait for it."""

    def __init__(self, *, has_code_keys: bool = False, prefix: Content = NOTHING, style: str = "") -> None:
        # The first frame need not wait for the Markdown parser.
        from app.ui.reading.document import MarkdownDocument

        super().__init__(prefix=prefix, style=style, n_below=1)
        self._document = MarkdownDocument(code_key if has_code_keys else None)
        self.unread = ""

    def append(self, text: str) -> None:
        """Show more text; show a long text in part, until the next call of `read`."""
        is_reading = bool(self.unread)
        self.unread += text
        if not is_reading:
            self.read()

    def read(self) -> None:
        """Read the next piece of a long text."""
        piece, self.unread = self.unread[:AT_ONCE], self.unread[AT_ONCE:]
        if piece:
            self.put(*self._document.append(piece))

    def read_all(self) -> None:
        """Read the rest immediately."""
        while self.unread:
            self.read()

    def mark_code(self, number: int) -> int:
        """Mark only the code block with a number from 1; return its first line. 0 marks none."""
        self.read_all()
        starts = [at for at, row in enumerate(self.rows) if isinstance(row, CodeStart)]
        start = starts[number - 1] if 1 <= number <= len(starts) else 0
        end = start + 1 + n_leading(type(row) is Row and row.source is not None for row in self.rows[start + 1 :])

        def look(at: int, row: Row) -> Row:
            first, rest = (bar.stylize(_MARKED_BAR_STYLE) for bar in (row.first, row.rest))
            return replace(row, first=first, rest=rest) if start <= at < end else row

        self.mark("code", look if number else None)
        return self.top_of(start)

    def code_label_at(self, x: int, y: int) -> int | None:
        """Return the number, from 1, of the code block whose label is at a cell, if any."""
        starts = [(at, row.label.cell_length) for at, row in enumerate(self.rows) if isinstance(row, CodeStart)]
        return next(
            (n for n, (at, cells) in enumerate(starts, 1) if self.top_of(at) == y and x >= self.width - cells), None
        )


class TokenPart(MessagePart):
    """The plain text of an answer, in the color of each token's source."""

    def __init__(self, segments: Iterable[Segment], styles: TokenStyles) -> None:
        super().__init__(n_below=1)
        self._document = TokenDocument(styles)
        self.append(segments)

    def append(self, segments: Iterable[Segment]) -> None:
        """Show more text."""
        self.put(*self._document.append(segments))

    @property
    def plain(self) -> str:
        """The whole text."""
        return "".join(map(_plain, self.rows))

    def mark_characters(self, start: int, end: int) -> None:
        """Mark only the characters in a range."""
        marked: dict[int, tuple[int, int]] = {}
        at = 0
        for number, row in enumerate(self.rows):
            marked[number] = max(start - at, 0), min(end - at, len(_plain(row)))
            at += len(_plain(row))

        def look(number: int, row: Row) -> Row:
            begin, stop = marked.get(number, (0, 0))
            return row.stylized("reverse", begin, stop) if begin < stop else row

        self.mark("step", look)

    def character(self, row: int, at: int) -> int:
        """Return the index in the whole text of a character of a row."""
        return sum(map(len, map(_plain, self.rows[:row]))) + at


def _plain(row: Row) -> str:
    return (row.source or "") + "\n" * row.content.plain.endswith(LINE_END)


@dataclass(frozen=True, slots=True)
class BriefRow(Row):
    """A row that is cut at the end of the line."""

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> Iterator[Line]:
        room = max(1, width - self.first.cell_length)
        yield [(None, self.first), (0, self.content.truncate(room, ellipsis=True))]


_MAX_LINES, _MAX_COLUMNS = 100, 400
"""Displayed lines of an attachment, and characters per line."""


_MAX_ERROR, _MIN_SHOWN_S = 80, 0.1
"""Characters of an error in a summary line, and the shortest call whose time is shown, in seconds."""


class Folding:
    """A summary line that a click opens, and the contents below it.

    Args:
        title: The summary without the arrow; None shows nothing.
    """

    def __init__(self, title: str | None, contents: MessagePart) -> None:
        self.parts = MessagePart(style=QUIET), contents
        self._title = title
        self.fold(opened=False)

    @property
    def is_open(self) -> bool:
        return self.parts[1].is_shown

    def fold(self, *, opened: bool) -> None:
        """Show or hide the contents."""
        self.parts[1].is_shown = opened
        self._draw()

    def _draw(self) -> None:
        arrow = "▾" if self.is_open else "▸"
        self.parts[0].put(0, list(typed_rows(f"{arrow} {self._title}")) if self._title is not None else ())


def _folded_text(title: str, text: str) -> Folding:
    return Folding(title, MessagePart(typed_rows(_beginning(text)), prefix=INDENT, style=QUIET))


def folded_attachment(attachment: Attachment) -> Folding:
    """Return an attachment under its name and size."""
    about = f"  {size(attachment.size)}" if attachment.is_file else ""
    return _folded_text(f"{printable(attachment.name)}{about}", attachment.text)


def folded_result(result: ResultOf, text: str) -> Folding:
    """Return the result of a call under the name of its tool and its size, or under its error."""
    lines = text.splitlines()
    outcome = f"failed: {_cut(lines[0], _MAX_ERROR) if lines else ''}" if result.failed else counted(len(lines), "line")
    seconds = f", {result.seconds:,.1f} s" if result.seconds >= _MIN_SHOWN_S else ""
    return _folded_text(f"{printable(result.tool)}  {outcome}{seconds}", text)


def folded_summary(text: str) -> Folding:
    """Return the summary that replaces the dimmed messages for the model."""
    n = len(text.split())
    title = f"the dimmed messages as a summary, {n:,} word{'s' * (n != 1)}; /summary changes it"
    return _folded_text(title if text else "the model no longer reads the dimmed messages", text)


def _beginning(text: str) -> str:
    lines = iter(printable(text).split("\n"))
    shown = [_cut(line, _MAX_COLUMNS) for line in islice(lines, _MAX_LINES)]
    rest = sum(1 for _ in lines)
    return "\n".join([*shown, *([f"… {rest:,} more line{'s' * (rest != 1)}"] if rest else [])])


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[:most]}…"


class Reasoning(Folding):
    """Number of words and duration of the reasoning; if open, its text.

    Attributes:
        markdown: The part with the text, which is read when it is opened.
    """

    def __init__(self, text: str) -> None:
        self.markdown = MarkdownPart(prefix=INDENT, style=QUIET)
        self.text = self._unread = ""
        super().__init__(None, self.markdown)
        self._n_words = 0
        self._began = self._latest = 0.0
        self._add(text)

    def add(self, text: str) -> None:
        """Add text that the model generates now."""
        self._latest = monotonic()
        self._began = self._began or self._latest
        self._add(text)

    def _add(self, text: str) -> None:
        continues_word = bool(self.text[-1:].strip() and text[:1].strip())
        self._n_words += len(text.split()) - continues_word
        self.text += text
        self._unread += text
        seconds = self._latest - self._began
        time = f", {seconds:,.0f} s" if seconds >= 1 else ""
        words = self._n_words
        self._title = f"reasoning, {words:,} word{'s' * (words != 1)}{time}" if words else None
        self._draw()

    def _draw(self) -> None:
        super()._draw()
        # Its Markdown already ends with a blank line.
        self.parts[0].n_below = 0 if self.is_open else 1
        if self.is_open and self._unread:
            self.markdown.append(self._unread)
            self._unread = ""
