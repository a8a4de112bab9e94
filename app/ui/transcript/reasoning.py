"""A model's thinking."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from textual.app import ComposeResult

from app.ui.transcript.folding import Folding

if TYPE_CHECKING:
    from app.ui.transcript.markdown import ModelMarkdown


class Reasoning(Folding):
    """The model's thinking: one line with its length, the text itself on request.

    Args:
        text: What was thought already.
        seconds: How long that took; 0 if nobody saw it.
        opened: Whether the text is shown at first.
    """

    def __init__(self, text: str = "", seconds: float = 0.0, *, opened: bool = False) -> None:
        super().__init__(opened=opened)
        self._thought: ModelMarkdown | None = None
        self._said: list[str] = []
        self._unread: list[str] = []
        self._words = 0
        self._in_word = False
        self._began, self._latest = 0.0, seconds
        self._count(text)
        self._show(text)

    def compose(self) -> ComposeResult:
        yield self.summary
        if self._thought is not None:
            yield self._thought

    def add(self, text: str) -> None:
        """Take more of it, which is being thought now."""
        self._count(text)
        if self._words:
            now = monotonic()
            self._began = self._began or now - self._latest
            self._latest = now
        self._show(text)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._said)

    @property
    def seconds(self) -> float:
        """How long it took, as far as it was seen."""
        return self._latest - self._began

    def _count(self, text: str) -> None:
        """Count words that may be cut anywhere, without looking at what was counted before."""
        if text:
            words = len(text.split())
            continues = self._in_word and not text[0].isspace()
            self._words += words - (continues and words > 0)
            self._in_word = not text[-1].isspace()

    def _show(self, text: str) -> None:
        self._said.append(text)
        self._unread.append(text)
        self.draw()

    def draw(self) -> None:
        words, seconds = self._words, self.seconds
        self.set_class(bool(words), "-begun")
        time = f", {seconds:,.0f} s" if seconds >= 1 else ""
        self.say(f"thinking, {words:,} word{'s' * (words != 1)}{time}")
        if self.open and (text := "".join(self._unread)):
            self._shown.append(text)
            self._unread.clear()

    @property
    def _shown(self) -> ModelMarkdown:
        """The text, which costs nothing until somebody wants to see it."""
        if self._thought is None:
            from app.ui.transcript.markdown import ModelMarkdown

            self._thought = ModelMarkdown()
            if self.is_attached:
                self.mount(self._thought)
        return self._thought
