"""A widget that shows rows of text, and draws only those in sight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from textual.geometry import Region, Size
from textual.reactive import var
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style

from app.ui.reading.flow import Flow
from app.ui.reading.rows import Row
from app.ui.widgets.lines_view import LinesView

_MOST_DRAWN = 1_000
"""Screen lines that are kept."""


class RowsView(LinesView):
    """Rows of text, as high as they are, with one blank line below them.

    A line is drawn once: Textual draws everything anew that has grown, and keeps what it has made of a line with it.
    """

    # Nothing scrolls in it.
    virtual_size = var(Size(0, 0))

    DEFAULT_CSS = "RowsView { width: 1fr; height: auto; }"

    def __init__(self) -> None:
        self._flow = Flow()
        self._drawn: dict[int, Strip] = {}
        self._drawn_at = (0, 0, 0)
        super().__init__()

    @property
    def rows(self) -> Sequence[Row]:
        """Everything that is shown, or will be with its widget."""
        return self._flow.rows

    def put(self, start: int, rows: Sequence[Row]) -> None:
        """Put rows in place of all from the one numbered `start` on."""
        width = self.size.width
        if not width:
            self._flow.replace(start, rows)
            self.refresh(layout=True)
            return
        before = self._flow.height(width)
        changed = self._flow.replace(start, rows)
        after = self._flow.height(width)
        top = self._flow.top(changed) + self._flow.alike
        for y in range(top, before + 1):
            self._drawn.pop(y, None)
        self.refresh(Region(0, top, width, max(before, after) + 1 - top), layout=after != before)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        if not regions:
            self._drawn.clear()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def render_lines(self, crop: Region) -> list[Strip]:
        drawn = self._drawn
        at = (self.size.width, *crop.column_span)
        if at != self._drawn_at or len(drawn) > _MOST_DRAWN:
            drawn.clear()
            self._drawn_at = at
        missing = [y for y in crop.line_range if y not in drawn]
        if missing and not self.is_attached:
            # It was removed since the last layout, and is still in it.
            return [Strip.blank(crop.width, self.visual_style.rich_style)] * crop.height
        if missing:
            lines = range(missing[0], missing[-1] + 1)
            region = Region(crop.x, lines.start, crop.width, len(lines))
            fresh = super().render_lines(region) if self.styles.gutter else self._bare_lines(region)
            drawn.update(zip(lines, fresh, strict=True))
        return [drawn[y] for y in crop.line_range]

    def _bare_lines(self, crop: Region) -> list[Strip]:
        """Lines with nothing around them, without asking for each of them what that is."""
        width, filters = self.size.width, self.get_line_filters()
        base, background = self.background_colors
        blank = Style(background=base + background).rich_style
        strips = [self.render_line(y).adjust_cell_length(width, blank) for y in crop.line_range]
        for each in filters:
            strips = [strip.apply_filter(each, background) for strip in strips]
        return [strip.crop(*crop.column_span) for strip in strips]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._flow.height(width) + 1 if width and self._flow.rows else 0

    def render_line(self, y: int) -> Strip:
        self._flow.height(self.size.width)
        found = self._flow.at(y)
        return self.draw(*found) if found is not None else Strip.blank(self.size.width, self.visual_style.rich_style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """What is selected, with lines as their writer meant them."""
        found: list[str] = []
        for number, row in enumerate(self._flow.rows):
            span = selection.get_span(number)
            if span is None:
                continue
            text = row.text if span == (0, -1) else row.part(*span)
            found.append(("" if row.joined or not found else "\n") + text)
        return "".join(found), "\n"
