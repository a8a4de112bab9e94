"""The status line above the prompt, as in `107 tok/s   78% accepted   speedup 3.1×      draft model   2.1k of 32k`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content

from app.core.units import counted
from app.engine.answer_numbers import AnswerNumbers
from app.engine.drafting_report import NO_DRAFT, PAUSED, drafting_now, rate_number
from app.ui.sidebar.view import ReadoutView
from app.ui.text import NONE, cell, tokens

_COLUMN_GAP = "   "
_SPEED, _BARS, _ACCEPTED, _SPEEDUP = 10, 8, 17, 23
"""Cells of the numbers. Each keeps its place, whatever the others show."""
_BARS_FROM = 110
"""Cells of the line from which on it shows bars."""
_MODE_NAMES = {"automatic": "drafting automatic", "fixed": "drafting fixed", "off": "drafting off"}
_UNDRAFTED_SOURCES = (NO_DRAFT, f"drafting {PAUSED}")
_CONTEXT_FROM, _MUCH = 90, 0.5
"""Cells of the line from which on it shows the context, and the share in use from which on every line does."""


class StatusLine(ReadoutView):
    """Show numbers on the left and drafts and context on the right, as many as fit, the most important first."""

    def lines(self, width: int, height: int) -> Sequence[Content]:
        shown = self._readouts
        numbers = shown.numbers if not shown.doing else None
        if numbers is None:
            left = Content.styled(shown.doing, "$quiet").truncate(width, ellipsis=True)
        else:
            left = Content(_COLUMN_GAP).join(self._numbers(numbers, width))
        parts = list(self._right(numbers, width))
        while parts and left.cell_length + sum(len(_COLUMN_GAP) + part.cell_length for part in parts) > width:
            parts.pop(0)
        right = Content(_COLUMN_GAP).join(parts)
        return [left + " " * (width - left.cell_length - right.cell_length) + right]

    def _numbers(self, numbers: AnswerNumbers, width: int) -> Iterator[Content]:
        speed, gain = numbers.speed, numbers.speedup
        columns = [
            (_SPEED, Content(f"{NONE if speed is None else rate_number(speed)} tok/s")),
            (
                _ACCEPTED,
                Content.styled(numbers.accepted or f"{NONE} accepted", "$draft" if numbers.accepted else "$quiet"),
            ),
            (
                _SPEEDUP,
                Content(f"speedup {NONE}" if gain is None else gain.labeled),
            ),
        ]
        if width >= _BARS_FROM:
            columns.insert(1, (_BARS, Content.styled(self._readouts.recent.bars(_BARS), "$quiet")))
        for cells, column in columns:
            if cells > width:
                break
            yield cell(column, cells) if column is not columns[-1][1] else column
            width -= cells + len(_COLUMN_GAP)

    def _right(self, numbers: AnswerNumbers | None, width: int) -> Iterator[Content]:
        """Yield the parts at the right end, the most important last."""
        shown, source = self._readouts, self._source()
        if shown.n_tools:
            yield Content.styled(counted(shown.n_tools, "tool"), "$quiet")
        if source:
            drafts = source not in _UNDRAFTED_SOURCES and (numbers is not None or shown.next_draft.is_on)
            yield Content.styled(source, "$draft" if drafts else "$quiet")
        if shown.n_ctx and (width >= _CONTEXT_FROM or (shown.used or 0) >= _MUCH * shown.n_ctx):
            yield Content.styled(f"context {shown.used_tokens} of {tokens(shown.n_ctx)}", "$quiet")

    def _source(self) -> str:
        """Return the draft source of the step or of the finished answer, or how the next answer is drafted."""
        shown = self._readouts
        if shown.doing or shown.drafting is None:
            return _MODE_NAMES.get(shown.next_draft.mode, shown.next_draft.mode)
        if shown.live:
            source, _ = drafting_now(shown.drafting)
            return f"drafting {PAUSED}" if source == PAUSED else source
        numbers = shown.numbers
        return (numbers.drafted_by if numbers is not None else "") or NO_DRAFT
