"""The verify steps of the last answer: a row each, newest first, and the details of the chosen one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from textual import events
from textual.content import Content
from textual.widget import Widget

from app.ui.key_names import key
from app.ui.reading.steps import step_lines, step_rows
from app.ui.reading.token_rows import COLORLESS, STYLES, legend
from app.worker.events import StepDetails

_MAX_STEPS = 2_000
_NOTHING = "The next answer shows its verify steps here; left and right go through them."
_DETAIL_LINES, _BRIEF_LINES = 5, 3
"""Lines below the rows: all details of the chosen step, and those without the probabilities."""
_AROUND_LEGEND = 3
"""Spaces around the legend in the title of the border."""
_AIRY = 10
"""Lines from which a blank one stands between the two."""


class Inspector(Widget):
    """Explains the newest step until the user goes back, or clicks on another one."""

    DEFAULT_CSS = "Inspector { display: none; border-title-align: right; border-title-color: $quiet; }"

    def __init__(self) -> None:
        super().__init__()
        self._steps: deque[StepDetails] = deque(maxlen=_MAX_STEPS)
        self._newer = 0
        """Steps after the chosen one."""

    def on_resize(self) -> None:
        self._show()

    def open(self, shown: bool) -> None:
        """Show or hide the inspector."""
        self.display = shown
        self._show()

    def begin(self) -> None:
        """Forget the steps of the last answer."""
        self._steps.clear()
        self._newer = 0
        self._show()

    def add(self, steps: Iterable[StepDetails]) -> None:
        """Append steps; a chosen earlier one stays chosen."""
        added = list(steps)
        self._steps.extend(added)
        if self._newer:
            self._newer = min(self._newer + len(added), len(self._steps) - 1)
        if self.display:
            self._show()

    def step(self, by: int) -> None:
        """Go to later steps, or to earlier ones if negative; at the newest, stay with it."""
        self._newer = max(0, min(self._newer - by, len(self._steps) - 1))
        self._show()

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if place is not None and place.y < min(self._n_rows, len(self._steps)):
            self.step(self._above - place.y)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.step(-1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.step(1)

    @property
    def details(self) -> StepDetails | None:
        """The step that is explained."""
        return self._steps[-1 - self._newer] if self._steps else None

    @property
    def _is_brief(self) -> bool:
        return self.size.height <= _DETAIL_LINES

    @property
    def _n_rows(self) -> int:
        """Rows of the list."""
        height = self.size.height
        return max(1, height - (_BRIEF_LINES if self._is_brief else _DETAIL_LINES + (height >= _AIRY)))

    @property
    def _above(self) -> int:
        """Rows above the chosen one: it is in the middle, except near both ends."""
        n_rows, older = self._n_rows, len(self._steps) - 1 - self._newer
        return min(self._newer, max(n_rows // 2, n_rows - 1 - older))

    def _show(self) -> None:
        details = self.details
        number = f"step {details.number:,} of {self._steps[-1].number:,}" if details is not None else ""
        leaves = f"{key('chat.tokens', 'f3')} leaves"
        title = Content(f" {'   '.join(words for words in (number, leaves) if words)} ")
        styles = COLORLESS if self.app.no_color else STYLES
        names = legend(styles, self.size.width - title.cell_length - _AROUND_LEGEND)
        self.border_title = Content.assemble(" ", names, "  ", title) if names else title
        self.refresh()

    def render(self) -> Content:
        details = self.details
        if details is None:
            return Content.styled(_NOTHING, "$quiet")
        width, above = self.size.width, self._above
        newest_first = list(reversed(self._steps))
        first = self._newer - above
        rows = step_rows(newest_first[first : first + self._n_rows], above, width)
        gap = [Content("")] * (self.size.height >= _AIRY)
        return Content("\n").join([*rows, *gap, *step_lines(details, width, brief=self._is_brief)])
