"""A widget that shows rows of text, and draws only those in sight."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from app.ui.reading.flow import Flow
from app.ui.reading.rows import Part, Row


class RowsView(Widget):
    """Rows of text, as high as they are, with one blank line below them."""

    DEFAULT_CSS = "RowsView { width: 1fr; height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        # Nothing that a model wrote can be clicked.
        self.auto_links = False
        self._flow = Flow()

    @property
    def rows(self) -> Sequence[Row]:
        """Everything that is shown, or will be with its widget."""
        return self._flow.rows

    def put(self, start: int, rows: Sequence[Row]) -> None:
        """Put rows in place of all from the one numbered `start` on."""
        width = self.size.width
        before = self._flow.height(width) if width else 0
        self._flow.replace(start, rows)
        self.refresh(layout=not width or self._flow.height(width) != before)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._flow.height(width) + 1 if width and self._flow.rows else 0

    def render_line(self, y: int) -> Strip:
        self._flow.height(self.size.width)
        base = self.visual_style
        found = self._flow.at(y)
        if found is None:
            return Strip.blank(self.size.width, base.rich_style)
        number, parts = found
        selection = self.text_selection
        span = selection.get_span(number) if selection is not None else None
        segments: list[Segment] = []
        for part in parts:
            segments += self._segments(part, number, base, span)
        return Strip(segments)

    def _segments(self, part: Part, number: int, base: Style, span: tuple[int, int] | None) -> list[Segment]:
        x, content = part
        if x is None:
            return [Segment(text, (base + style).rich_style) for text, style in content.render(base, end="")]
        if span is not None:
            content = self._selected(content, span[0] - x, len(content) if span[1] < 0 else span[1] - x)
        segments = []
        for text, style in content.render(base, end=""):
            segments.append(Segment(text, (base + style).rich_style_with_offset(x, number)))
            x += len(text)
        return segments

    def _selected(self, content: Content, start: int, end: int) -> Content:
        start, end = max(0, start), min(len(content), end)
        if start >= end:
            return content
        style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
        return content.stylize(style, start, end)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """What is selected, with lines as their writer meant them."""
        found: list[str] = []
        for number, row in enumerate(self._flow.rows):
            span = selection.get_span(number)
            if span is None:
                continue
            text = row.text if span == (0, -1) else row.content.plain[span[0] : None if span[1] < 0 else span[1]]
            found.append(("" if row.joined or not found else "\n") + text)
        return "".join(found), "\n"
