"""A picture of a prompt: its name and size, and a small preview in half cells."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby

from textual.color import Color
from textual.content import Content
from textual.geometry import Size
from textual.style import Style

from app.conversations.attached import Attachment
from app.core.errors import AppError
from app.core.pictures import Picture, PictureData, pixels
from app.core.printable import printable
from app.ui.text import size
from app.ui.transcript.message_part import MessagePart
from app.ui.transcript.parts import INDENT, BriefRow, Folding

_MOST_COLUMNS, _MOST_ROWS, _LEAST_ROWS = 40, 12, 4
_UPPER_HALF = "▀"
_SHARE_OF_WINDOW = 4
"""A preview takes at most a quarter of the window's height."""


class PicturePreview(Folding):
    """Name and size of a picture; if open, a preview."""

    def __init__(self, attachment: Attachment, picture: Picture) -> None:
        self.picture = picture
        self._about = [f"{printable(attachment.name)}  {picture.width:,} × {picture.height:,}", "", ""]
        """Name, bytes and tokens, as far as they are known."""
        super().__init__(self._about[0], MessagePart(prefix=INDENT))
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


def half_cells(data: PictureData, columns: int, rows: int) -> Content:
    """Return a picture as half cells, two pixels per cell; empty if it cannot be decoded."""
    import numpy as np
    from PIL.Image import Resampling

    with suppress(AppError):
        image = pixels(data, (2 * columns, 4 * rows))
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
