"""Collapsible parts of a message: attachments, pictures, results of calls, summaries and reasoning."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby, islice
from time import monotonic

from textual.color import Color
from textual.content import Content
from textual.geometry import Size
from textual.style import Style

from app.conversations.attached import Attachment
from app.conversations.message import ResultOf
from app.core.errors import AppError
from app.core.pictures import Picture, PictureData, pixels
from app.core.printable import printable
from app.core.units import counted
from app.ui.reading.rows import BriefRow
from app.ui.text import size
from app.ui.transcript.parts import QUIET, MarkdownPart, MessagePart
from app.ui.widgets.row_canvas import typed_rows

_INDENT = Content("  ")
_MAX_LINES, _MAX_COLUMNS = 100, 400
"""Displayed lines of an attachment, and characters per line."""
_MAX_ERROR, _MIN_SHOWN_S = 80, 0.1
"""Characters of an error in a summary line, and the shortest call whose time is shown, in seconds."""
_MOST_COLUMNS, _MOST_ROWS, _LEAST_ROWS = 40, 12, 4
_UPPER_HALF = "▀"
_SHARE_OF_WINDOW = 4
"""A preview takes at most a quarter of the window's height."""


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
    return Folding(title, MessagePart(typed_rows(_beginning(text)), prefix=_INDENT, style=QUIET))


def folded_attachment(attachment: Attachment) -> Folding:
    """Return an attachment under its name and size; a picture has a preview."""
    if attachment.picture is not None:
        return PicturePreview(attachment.picture)
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
    title = f"the dimmed messages as a summary, {counted(n, 'word')}; /summary changes it"
    return _folded_text(title if text else "the model no longer reads the dimmed messages", text)


def _beginning(text: str) -> str:
    lines = iter(printable(text).split("\n"))
    shown = [_cut(line, _MAX_COLUMNS) for line in islice(lines, _MAX_LINES)]
    rest = sum(1 for _ in lines)
    return "\n".join([*shown, *([f"… {counted(rest, 'more line')}"] if rest else [])])


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[:most]}…"


class Reasoning(Folding):
    """Number of words and duration of the reasoning; if open, its text.

    Attributes:
        markdown: The part with the text, which is read when it is opened.
    """

    def __init__(self, text: str) -> None:
        self.markdown = MarkdownPart(prefix=_INDENT, style=QUIET)
        self._unread = ""
        super().__init__(None, self.markdown)
        self._n_words, self._last = 0, ""
        self._began = self._latest = 0.0
        self._add(text)

    def add(self, text: str) -> None:
        """Add text that the model generates now."""
        self._latest = monotonic()
        self._began = self._began or self._latest
        self._add(text)

    def _add(self, text: str) -> None:
        continues_word = bool(self._last.strip() and text[:1].strip())
        self._n_words += len(text.split()) - continues_word
        self._last = text[-1:] or self._last
        self._unread += text
        seconds = self._latest - self._began
        time = f", {seconds:,.0f} s" if seconds >= 1 else ""
        words = self._n_words
        self._title = f"reasoning, {counted(words, 'word')}{time}" if words else None
        self._draw()

    def _draw(self) -> None:
        super()._draw()
        # Its Markdown already ends with a blank line.
        self.parts[0].n_below = 0 if self.is_open else 1
        if self.is_open and self._unread:
            self.markdown.append(self._unread)
            self._unread = ""


class PicturePreview(Folding):
    """Name and size of a picture; if open, a preview."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self._about = [f"{printable(picture.shown)}  {picture.width:,} × {picture.height:,}", "", ""]
        """Name, bytes and tokens, as far as they are known."""
        super().__init__(self._about[0], MessagePart(prefix=_INDENT))
        self.fold(opened=True)

    def show(self, data: PictureData, preview: Content) -> None:
        """Show the preview of the picture, made by `half_cells`."""
        self.parts[1].put(0, [BriefRow(line, source="") for line in preview.split("\n")] if preview else [])
        self._tell(1, size(len(data.data)))

    def count(self, n_tokens: int | None) -> bool:
        """Show the tokens of the picture if they are known; return whether that is new."""
        return n_tokens is not None and self._tell(2, f"{n_tokens:,} tokens")

    def _tell(self, at: int, text: str) -> bool:
        before, self._about[at] = self._about[at], text
        self._title = "  ".join(filter(None, self._about))
        self._draw()
        return text != before


def preview_room(window: Size) -> tuple[int, int]:
    """Return the largest numbers of columns and rows of a preview in a window."""
    return min(_MOST_COLUMNS, window.width // 2), min(_MOST_ROWS, max(_LEAST_ROWS, window.height // _SHARE_OF_WINDOW))


def half_cells(picture: PictureData, columns: int, rows: int) -> Content:
    """Return a picture as half cells, two pixels per cell; empty if it cannot be decoded."""
    import numpy as np
    from PIL.Image import Resampling

    with suppress(AppError):
        image = pixels(picture, (2 * columns, 4 * rows))
        image.thumbnail((columns, 2 * rows), Resampling.BOX)
        lines = [[Color(*pixel) for pixel in line] for line in np.asarray(image).tolist()]
        lines += [[Color(0, 0, 0, 0)] * len(lines[0])] * (len(lines) % 2)
        return Content("\n").join(map(_line, lines[::2], lines[1::2]))
    return Content("")


def _line(upper: list[Color], lower: list[Color]) -> Content:
    line = Content("")
    for (over, under), same in groupby(zip(upper, lower, strict=True)):
        line += Content.styled(_UPPER_HALF * len(list(same)), Style(background=under, foreground=over))
    return line
