"""A model's thinking."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

if TYPE_CHECKING:
    from app.ui.widgets.markdown import ModelMarkdown


class Reasoning(VerticalGroup):
    """The model's thinking: one line with its length, the text itself on request."""

    open: reactive[bool] = reactive(False, toggle_class="-open")

    def __init__(self) -> None:
        super().__init__()
        self._thought: ModelMarkdown | None = None
        self._said: list[str] = []
        self._unread: list[str] = []
        self._words = 0
        self._in_word = False
        self._began = self._latest = 0.0

    def compose(self) -> ComposeResult:
        yield Static(classes="summary")

    def add(self, text: str, *, live: bool = True) -> None:
        """Take more of it.

        Args:
            text: What the model thought since.
            live: Whether it is being thought now, and not fetched from where it was kept.
        """
        self._count(text)
        if live and self._words:
            self._latest = monotonic()
            self._began = self._began or self._latest
        self._said.append(text)
        self._unread.append(text)
        self._draw()

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._said)

    @property
    def seconds(self) -> float:
        """How long it took, as far as it was seen."""
        return self._latest - self._began

    def recall(self, seconds: float, *, opened: bool) -> None:
        """Be as thinking was that is mounted no longer."""
        self._began, self._latest = 0.0, seconds
        self.open = opened
        self._draw()

    def watch_open(self) -> None:
        if self.is_mounted:
            self._draw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.open = not self.open

    def _count(self, text: str) -> None:
        """Count words that may be cut anywhere, without looking at what was counted before."""
        if text:
            words = len(text.split())
            continues = self._in_word and not text[0].isspace()
            self._words += words - (continues and words > 0)
            self._in_word = not text[-1].isspace()

    def _draw(self) -> None:
        words, seconds = self._words, self.seconds
        self.set_class(bool(words), "-begun")
        mark = "▾" if self.open else "▸"
        time = f", {seconds:,.0f} s" if seconds >= 1 else ""
        length = f"{mark} thinking, {words:,} word{'s' * (words != 1)}{time}"
        self.query_one(".summary", Static).update(Content(length))
        if self.open and self._unread:
            self._shown.append("".join(self._unread))
            self._unread.clear()

    @property
    def _shown(self) -> ModelMarkdown:
        """The text, which costs nothing until somebody wants to see it."""
        if self._thought is None:
            from app.ui.widgets.markdown import ModelMarkdown

            self._thought = ModelMarkdown()
            self.mount(self._thought)
        return self._thought
