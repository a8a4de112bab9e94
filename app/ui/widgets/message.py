"""One message of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.getters import query_one
from textual.reactive import reactive
from textual.widgets import Static

from app.engine.text import Segment, printable
from app.errors import AppError
from app.ui.ways import NoRoomError
from app.ui.widgets.speech import Speech
from app.ui.widgets.way_list import WayList

if TYPE_CHECKING:
    from app.ui.widgets.markdown import ModelMarkdown


class UserMessage(Speech):
    """What the user asked, exactly as typed.

    Args:
        text: The prompt.
        label: Who speaks.
        node: Its id in the conversation.
    """

    def __init__(self, text: str, label: str = "You", node: int | None = None) -> None:
        super().__init__(label, node)
        self._text = printable(text)

    @property
    def text(self) -> str:
        return self._text

    def compose(self) -> ComposeResult:
        yield self.label
        yield Static(Content(self._text), classes="said")


class Reasoning(VerticalGroup):
    """The model's thinking: one line with its length, the text itself on request."""

    open: reactive[bool] = reactive(False, toggle_class="-open")

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def compose(self) -> ComposeResult:
        yield Static(classes="summary")
        yield Static(classes="thought")

    def add(self, text: str) -> None:
        self._text += text
        self._draw()

    def watch_open(self) -> None:
        if self.is_mounted:
            self._draw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.open = not self.open

    def _draw(self) -> None:
        words = len(self._text.split())
        self.set_class(bool(words), "-begun")
        mark = "▾" if self.open else "▸"
        self.query_one(".summary", Static).update(Content(f"{mark} thinking, {words:,} word{'s' * (words != 1)}"))
        if self.open:
            self.query_one(".thought", Static).update(Content(self._text.strip()))


class Problem(VerticalGroup):
    """A failure: what happened, and what to do."""

    def __init__(self, error: AppError) -> None:
        super().__init__()
        self._error = error

    def compose(self) -> ComposeResult:
        yield Static(Content(printable(self._error.message)), classes="what")
        if isinstance(self._error, NoRoomError):
            yield WayList(self._error.ways)
        if self._error.hint:
            yield Static(Content(printable(self._error.hint)), classes="way-out")


class AnswerMessage(Speech):
    """One answer, from its first word to its last.

    Args:
        node: Its id in the conversation; None until it has one.
    """

    reasoning = query_one(Reasoning)
    remark = query_one(".remark", Static)

    def __init__(self, node: int | None = None) -> None:
        super().__init__("Answer", node)
        self._begun = False
        self._said: list[str] = []
        self._remark = ""
        self._is_final = False
        self._markdown: ModelMarkdown | None = None

    def compose(self) -> ComposeResult:
        # The first frame need not wait for a Markdown parser.
        from app.ui.widgets.markdown import ModelMarkdown

        self._markdown = ModelMarkdown()
        yield self.label
        yield Reasoning()
        yield self._markdown
        yield Static(classes="remark")

    @property
    def text(self) -> str:
        return "".join(self._said)

    async def add(self, segments: Sequence[Segment]) -> None:
        """Show more text; must not be called again before it returns."""
        await self.put(
            "".join(s.text for s in segments if not s.reasoning), "".join(s.text for s in segments if s.reasoning)
        )

    async def put(self, text: str, thought: str = "") -> None:
        """Show more text, and more thinking; must not be called again before it returns."""
        if thought:
            self.reasoning.add(printable(thought))
        # Indented code is the only thing that leading space could mean, and models do not mean it.
        text = text if self._begun else text.lstrip()
        if text and self._markdown is not None:
            self._begun = True
            self._said.append(printable(text))
            await self._markdown.append(self._said[-1])

    def place(self, at: int, of: int, *, can_go_on: bool) -> None:
        super().place(at, of, can_go_on=can_go_on)
        self._draw_remark()

    def note(self, text: str, *, is_final: bool = False) -> None:
        """Say something about the answer, below it.

        Args:
            text: What to say; an empty one says nothing.
            is_final: Whether nothing can come after it, even if the answer is not at its end.
        """
        self._remark, self._is_final = text, is_final
        self._draw_remark()

    def _draw_remark(self) -> None:
        more = "ctrl+g continues" if self.can_go_on and not self._is_final else ""
        remark = "; ".join(filter(None, (self._remark, more)))
        self.remark.update(Content(printable(remark)))
        self.remark.set_class(bool(remark), "-given")

    async def go_on(self) -> None:
        """More is to come: what was said about its end holds no longer."""
        self.can_go_on = False
        self.note("")
        await self.query(Problem).remove()

    async def fail(self, error: AppError) -> None:
        """Say why there is no answer, or no more of it."""
        self.note("")
        await self.mount(Problem(error))
