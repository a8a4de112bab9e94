"""Collapsible parts of a message: attachments and reasoning."""

from __future__ import annotations

from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from app.conversations.attached import Attachment
from app.core.printable import printable
from app.ui.text import size

if TYPE_CHECKING:
    from app.ui.transcript.text_views import ModelMarkdown


class Folding(VerticalGroup):
    """A line that says what there is; a click on it shows that, or hides it again.

    Args:
        opened: Whether it is shown at first.
    """

    open: reactive[bool] = reactive(False, toggle_class="-open")

    def __init__(self, *, opened: bool) -> None:
        super().__init__()
        self.summary = Static(classes="summary")
        self.open = opened

    def watch_open(self) -> None:
        if self.is_mounted:
            self.draw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.open = not self.open

    def say(self, what: str) -> None:
        """Say in the line what there is."""
        self.summary.update(Content(f"{'▾' if self.open else '▸'} {what}"))

    def draw(self) -> None:
        """Say what there is, and show it if it is open."""
        raise NotImplementedError


_MOST_LINES = 100
_MOST_COLUMNS = 400


class FoldedText(Folding):
    """Its name and size; a click opens the beginning of it.

    Args:
        attachment: What is included.
        opened: Whether it is open at first.
    """

    def __init__(self, attachment: Attachment, *, opened: bool = False) -> None:
        super().__init__(opened=opened)
        self._attachment = attachment
        self._contents = Static(classes="contents")

    def compose(self) -> ComposeResult:
        yield self.summary
        yield self._contents

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        attachment = self._attachment
        about = f"  {size(attachment.size)}" if attachment.is_file else ""
        self.say(f"{printable(attachment.name)}{about}")
        if self.open:
            self._contents.update(Content(beginning(attachment.text)))


def beginning(text: str) -> str:
    """Return what is shown of a text that is open."""
    lines = iter(printable(text).split("\n"))
    shown = [line[:_MOST_COLUMNS] for line in islice(lines, _MOST_LINES)]
    rest = sum(1 for _ in lines)
    return "\n".join([*shown, *([f"… {rest:,} more line{'s' * (rest != 1)}"] if rest else [])])


class Reasoning(Folding):
    """The model's thinking: one line with its length, the text itself on request.

    Args:
        text: What was thought already.
        seconds: How long that took; 0 if no one saw it.
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
        """Return how long it took, as far as it was seen."""
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
            from app.ui.transcript.text_views import ModelMarkdown

            self._thought = ModelMarkdown()
            if self.is_attached:
                self.mount(self._thought)
        return self._thought
