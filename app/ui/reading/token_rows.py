"""Text as rows, colored by the source of each token.

The draft model or draft layer is teal, n-gram drafting is underlined teal, the target is amber.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from textual.content import Content, Span

from app.core.printable import printable
from app.engine.sources import Source
from app.engine.text.segments import Segment
from app.ui.reading.rows import Row, spaced_content


class TokenStyles(NamedTuple):
    """Styles of tokens by their source: a model, a free source, or the target itself."""

    model: str
    free: str
    target: str

    def of(self, source: Source | None) -> str:
        """Return the style for a source; None for the target's own tokens."""
        if source is None:
            return self.target
        return self.free if source.is_free else self.model


STYLES = TokenStyles("$draft", "underline $draft", "$target")
COLORLESS = TokenStyles("", "italic", "bold underline")
_NAMES_WITH_COLORS = TokenStyles("teal = {drafter}", f"underlined teal = {Source.NGRAM.label}", "amber = target")
_BRIEF_NAMES = TokenStyles("teal draft", f"underlined {Source.NGRAM.label}", "amber target")
_SHORT_NAMES = TokenStyles("draft", Source.NGRAM.label, "target")
LINE_END = "⏎"
_MAX_ROW_CHARACTERS = 2_000
"""Characters of a row; the next row continues a longer line."""


def legend(styles: TokenStyles, room: int, drafter: str) -> Content:
    """Return the names of all sources, each in its own style.

    Args:
        room: Available cells; colors are named if they fit and are shown.
        drafter: Name of the source other than n-grams.
    """
    for names in (_NAMES_WITH_COLORS, _BRIEF_NAMES, _SHORT_NAMES) if styles is STYLES else (_SHORT_NAMES,):
        entries = zip(names, styles, strict=True)
        found = Content(", ").join(Content.styled(name.format(drafter=drafter), style) for name, style in entries)
        if found.cell_length <= room:
            return found
    return Content("")


class TokenDocument:
    """Growing plain text with visible line ends, which are tokens too.

    Attributes:
        frozen: Rows that never change again.
    """

    def __init__(self, styles: TokenStyles = STYLES) -> None:
        self._styles = styles
        self.frozen: list[Row] = []
        self._text = ""
        self._spans: list[Span] = []
        self._last = ""
        """The last printed character."""
        self._joined = False
        self._is_reasoning: bool | None = None

    @property
    def open(self) -> list[Row]:
        """The row after the frozen rows."""
        return [self._row()] if self._text else []

    def append(self, segments: Iterable[Segment]) -> tuple[int, list[Row]]:
        """Add text; return the changed rows, and the number of the first."""
        n_frozen = len(self.frozen)
        for segment in filter(lambda segment: segment.text, segments):
            if self._is_reasoning not in (None, segment.reasoning):
                # A blank row between reasoning and answer.
                if self._text:
                    self._freeze(joined=False)
                self.frozen.append(Row())
            self._is_reasoning = segment.reasoning
            text = printable(segment.text, self._last)
            self._last = text[-1:] or self._last
            for line in text.splitlines(keepends=True):
                self._add(line, self._styles.of(segment.source))
        return n_frozen, [*self.frozen[n_frozen:], *self.open]

    def _add(self, line: str, style: str) -> None:
        rest = line.removesuffix("\n")
        while len(self._text) + len(rest) > _MAX_ROW_CHARACTERS:
            room = _MAX_ROW_CHARACTERS - len(self._text)
            self._put(rest[:room], style)
            self._freeze(joined=True)
            rest = rest[room:]
        if line.endswith("\n"):
            self._put(rest + LINE_END, style)
            self._freeze(joined=False)
        else:
            self._put(rest, style)

    def _put(self, text: str, style: str) -> None:
        if text:
            start = len(self._text)
            if self._spans and self._spans[-1].style == style:
                start = self._spans.pop().start
            self._text += text
            self._spans.append(Span(start, len(self._text), style))

    def _freeze(self, *, joined: bool) -> None:
        self.frozen.append(self._row())
        self._text, self._spans, self._joined = "", [], joined

    def _row(self) -> Row:
        content = spaced_content(Content(self._text, list(self._spans)))
        return Row(content, joined=self._joined, source=self._text.removesuffix(LINE_END))
