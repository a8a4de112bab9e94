"""The status line above the prompt, as in `107 tok/s · 3.1× · 78% accepted · draft model`."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content
from textual.widget import Widget

from app.engine.drafting_report import NO_DRAFT, NO_DRAFT_USED
from app.engine.types import SOURCE_NAMES
from app.ui.sidebar.readouts import Readouts
from app.ui.text import tokens

_GAP = " · "
_MODES = {"automatic": "automatic drafting", "fixed": "fixed drafting", "off": "drafting off"}
_UNDRAFTED = (NO_DRAFT, NO_DRAFT_USED)
_CONTEXT_FROM = 0.5
"""Share of the context in use from which on it is shown."""


class StatusLine(Widget):
    """Show as many whole readouts as fit, the most important first."""

    def __init__(self, readouts: Readouts) -> None:
        super().__init__()
        self._readouts = readouts

    def on_mount(self) -> None:
        self._readouts.watch(self.refresh)

    def render(self) -> Content:
        width, parts = self.size.width, list(self._parts())
        while len(parts) > 1 and Content(_GAP).join(parts).cell_length > width:
            parts.pop()
        return Content(_GAP).join(parts).truncate(width, ellipsis=True)

    def _parts(self) -> Iterator[Content]:
        shown = self._readouts
        numbers = shown.numbers if not shown.doing else None
        if shown.doing:
            yield Content.styled(shown.doing, "$quiet")
        elif numbers is not None:
            yield Content(numbers.pace)
            if numbers.speedup is not None:
                yield Content(numbers.speedup.brief)
            if numbers.acceptance is not None:
                yield Content.styled(numbers.accepted, "$draft")
        if source := self._source():
            drafts = source not in _UNDRAFTED and (numbers is not None or shown.next_draft.is_on)
            yield Content.styled(source, "$draft" if drafts else "$quiet")
        if shown.n_ctx and (shown.used or 0) >= _CONTEXT_FROM * shown.n_ctx:
            yield Content.styled(f"context {shown.used_tokens} of {tokens(shown.n_ctx)}", "$quiet")

    def _source(self) -> str:
        """Return the draft source of the step or of the finished answer, or how the next answer is drafted."""
        shown = self._readouts
        if shown.doing or shown.drafting is None:
            return _MODES.get(shown.next_draft.mode, shown.next_draft.mode)
        if shown.live:
            return NO_DRAFT if shown.drafting.source == "off" else SOURCE_NAMES[shown.drafting.source]
        numbers = shown.numbers
        return (numbers.drafted_by if numbers is not None else "") or NO_DRAFT_USED
