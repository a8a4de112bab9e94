"""A widget that draws its own lines, each of them selectable as text."""

from __future__ import annotations

from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from app.ui.reading.rows import Line, Part


class LinesView(Widget):
    """Draws lines made of parts; whoever derives from it says which, in `render_line`."""

    def __init__(self) -> None:
        super().__init__()
        # Nothing that a model wrote can be clicked.
        self.auto_links = False

    def draw(self, number: int, line: Line) -> Strip:
        """A line with what is selected of it.

        Args:
            number: Of the row of text that the parts' places refer to.
            line: Its parts.
        """
        base, selection = self.visual_style, self.text_selection
        span = selection.get_span(number) if selection is not None else None
        segments: list[Segment] = []
        for part in line:
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
