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
_NOTHING = (
    "Steps are recorded for the last answer of this run. The next answer shows them; left and right go through them."
)
_EXPLAINED, _IN_BRIEF = 5, 3
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
        self._chosen: int | None = None
        self._above = 0
        """Rows in sight above the chosen one."""

    def on_resize(self) -> None:
        self._show()

    def open(self, shown: bool) -> None:
        """Show or hide the inspector."""
        self.display = shown
        self._show()

    def begin(self) -> None:
        """Forget the steps of the last answer."""
        self._steps.clear()
        self._chosen, self._above = None, 0
        self._show()

    def add(self, steps: Iterable[StepDetails]) -> None:
        """Append steps."""
        self._steps.extend(steps)
        if self.display:
            self._show()

    def step(self, by: int) -> None:
        """Go to later steps, or to earlier ones if negative; at the newest, stay with it."""
        if self._steps:
            before, above, last = self._at, self._above_now, len(self._steps) - 1
            at = min(max(0, before + by), last)
            self._above = 0 if at == last else min(max(0, above + before - at), self._n_rows - 1)
            self._chosen = None if at == last else self._steps[at].number
            self._show()

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if place is not None and place.y < min(self._n_rows, len(self._steps)):
            self.step(self._above_now - place.y)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.step(-1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.step(1)

    @property
    def details(self) -> StepDetails | None:
        """The step that is explained."""
        return self._steps[self._at] if self._steps else None

    @property
    def _at(self) -> int:
        # Only the last steps are kept; the oldest of them replaces one that is gone.
        if self._chosen is None:
            return len(self._steps) - 1
        return next((at for at, details in enumerate(self._steps) if details.number >= self._chosen), 0)

    @property
    def _is_brief(self) -> bool:
        return self.size.height <= _EXPLAINED

    @property
    def _n_rows(self) -> int:
        """Rows of the list."""
        height = self.size.height
        explained = _IN_BRIEF if self._is_brief else _EXPLAINED + (height >= _AIRY)
        return max(1, height - explained)

    @property
    def _above_now(self) -> int:
        """Rows above the chosen one."""
        newer, older = len(self._steps) - 1 - self._at, self._at
        return min(newer, self._n_rows - 1, max(self._above, self._n_rows - 1 - older))

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
        width, at, above = self.size.width, self._at, self._above_now
        last = at + above
        shown = [self._steps[each] for each in range(last, max(-1, last - self._n_rows), -1)]
        gap = [Content("")] * (self.size.height >= _AIRY)
        explained = step_lines(details, width, brief=self._is_brief)
        return Content("\n").join([*step_rows(shown, above, width), *gap, *explained])
