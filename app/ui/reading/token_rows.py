"""Text as rows, with the origin of each token.

The draft model is teal, n-gram drafting is underlined teal, the target is amber.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.content import Content, Span

from app.core.printable import printable
from app.engine.text.segments import Segment
from app.engine.types import Origin
from app.ui.reading.rows import Row
from app.ui.reading.wrapping import spaced_content

STYLES = {Origin.DRAFT: "$draft", Origin.NGRAM: "underline $draft", Origin.TARGET: "$target"}
COLORLESS = {Origin.DRAFT: "", Origin.NGRAM: "italic", Origin.TARGET: "bold underline"}
LEGEND = {
    Origin.DRAFT: ("teal = draft model", "draft"),
    Origin.NGRAM: ("underlined teal = n-gram", "n-gram"),
    Origin.TARGET: ("amber = target", "target"),
}
"""Legend of the token view, with and without the color names."""
_LINE_END = "⏎"
_LONGEST = 2_000

_LEGEND_GAP = ", "


def legend(styles: Mapping[Origin, str], room: int) -> Content:
    """Return the names of all origins, each in its own style.

    Args:
        styles: The style of each origin.
        room: Available cells; colors are named if they fit and are shown.
    """
    for brief in (styles is not STYLES, True):
        parts = [Content.styled(LEGEND[origin][brief], style) for origin, style in styles.items()]
        found = Content(_LEGEND_GAP).join(parts)
        if found.cell_length <= room:
            return found
    return Content("")


Run = tuple[str, Origin | None]
"""A text and who wrote it; no one did where thinking ends and the answer begins, or the other way round."""


class TokenRuns:
    """Origins of the tokens of an answer, as runs."""

    def __init__(self) -> None:
        self._runs: list[tuple[list[str], Origin | None]] = []
        self._thinking: bool | None = None

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, segments: Iterable[Segment]) -> list[Run]:
        """Take more of it; returns that as runs."""
        fresh: list[Run] = []
        for segment in segments:
            if not segment.text:
                continue
            if self._thinking not in (None, segment.reasoning):
                fresh.append(("", None))
            self._thinking = segment.reasoning
            fresh.append((segment.text, segment.origin))
        for text, origin in fresh:
            if self._runs and self._runs[-1][1] is origin:
                self._runs[-1][0].append(text)
            else:
                self._runs.append(([text], origin))
        return fresh

    @property
    def runs(self) -> list[Run]:
        return [("".join(texts), origin) for texts, origin in self._runs]


class TokenDocument:
    """Growing text as it came, in two colors; line ends are shown, for they are tokens too.

    Args:
        styles: How the tokens of each writer look.

    Attributes:
        frozen: Rows that never change again.
        open: The row after them.
    """

    def __init__(self, styles: Mapping[Origin, str] = STYLES) -> None:
        self._styles = styles
        self.frozen: list[Row] = []
        self._text: list[str] = []
        self._spans: list[Span] = []
        self._length = 0
        self._last = ""
        """The last printed character."""
        self._joined = False

    @property
    def open(self) -> list[Row]:
        return [self._row()] if self._length else []

    def append(self, runs: Iterable[Run]) -> None:
        for text, origin in runs:
            if origin is None:
                self._part()
                continue
            text = printable(text, self._last)
            self._last = text[-1:] or self._last
            for line in text.splitlines(keepends=True):
                self._add(line, self._styles[origin])

    def _part(self) -> None:
        """Leave a row free: models write marks there, which are not shown."""
        if self._length:
            self._freeze(joins=False)
        self.frozen.append(Row())

    def _add(self, line: str, style: str) -> None:
        ends = line.endswith("\n")
        rest = line.removesuffix("\n")
        while self._length + len(rest) > _LONGEST:
            room = _LONGEST - self._length
            self._put(rest[:room], style)
            self._freeze(joins=True)
            rest = rest[room:]
        self._put(rest + _LINE_END * ends, style)
        if ends:
            self._freeze(joins=False)

    def _put(self, text: str, style: str) -> None:
        if text:
            self._text.append(text)
            self._spans.append(Span(self._length, self._length + len(text), style))
            self._length += len(text)

    def _freeze(self, *, joins: bool) -> None:
        self.frozen.append(self._row())
        self._text, self._spans, self._length, self._joined = [], [], 0, joins

    def _row(self) -> Row:
        text = "".join(self._text)
        content = spaced_content(Content(text, list(self._spans)))
        return Row(content, joined=self._joined, source=text.removesuffix(_LINE_END))
