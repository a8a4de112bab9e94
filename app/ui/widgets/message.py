"""One message of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from app.engine.text import Segment, printable
from app.errors import AppError
from app.ui.widgets.reasoning import Reasoning

if TYPE_CHECKING:
    from app.ui.reading.origins import Writers
    from app.ui.widgets.markdown import ModelMarkdown
    from app.ui.widgets.token_view import TokenView


class UserMessage(VerticalGroup):
    """What the user asked, exactly as typed.

    Args:
        text: The prompt.
        label: Who speaks.
    """

    def __init__(self, text: str, label: str = "You") -> None:
        super().__init__()
        self._text = printable(text)
        self._label = label

    def compose(self) -> ComposeResult:
        yield Static(self._label, classes="label")
        yield Static(Content(self._text), classes="said")


class Problem(VerticalGroup):
    """A failure: what happened, and what to do."""

    def __init__(self, error: AppError) -> None:
        super().__init__()
        self._error = error

    def compose(self) -> ComposeResult:
        yield Static(Content(printable(self._error.message)), classes="what")
        if self._error.hint:
            yield Static(Content(printable(self._error.hint)), classes="way-out")


class AnswerMessage(VerticalGroup):
    """One answer, from its first word to its last."""

    reasoning = query_one(Reasoning)
    remark = query_one(".remark", Static)

    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        self._markdown: ModelMarkdown | None = None
        self._writers: Writers | None = None
        self._tokens: TokenView | None = None

    def compose(self) -> ComposeResult:
        # The first frame need not wait for a Markdown parser.
        from app.ui.widgets.markdown import ModelMarkdown

        self._markdown = ModelMarkdown()
        yield Static("Answer", classes="label")
        yield Reasoning()
        yield self._markdown
        yield Static(classes="remark")

    async def add(self, segments: Sequence[Segment]) -> None:
        """Show more text, and remember who wrote it; must not be called again before it returns."""
        from app.ui.reading.origins import Writers

        self._writers = self._writers or Writers()
        self._writers.add(segments)
        if self._tokens is not None:
            self._tokens.append((segment.text, segment.origin) for segment in segments)
        await self.put(
            "".join(s.text for s in segments if not s.reasoning),
            "".join(s.text for s in segments if s.reasoning),
            live=True,
        )

    async def put(self, text: str, thought: str = "", *, live: bool = False) -> None:
        """Show more text, and more thinking, that comes now or was kept; not to be called again before it returns."""
        if thought:
            self.reasoning.add(thought, live=live)
        # Indented code is the only thing that leading space could mean, and models do not mean it.
        text = text if self._begun else text.lstrip()
        if text and self._markdown is not None:
            self._begun = True
            self._markdown.append(text)

    @property
    def shows_tokens(self) -> bool:
        return self._tokens is not None

    async def show_tokens(self, shown: bool) -> None:
        """Show who wrote each token, in place of the formatted text, or the text again; only what was seen coming."""
        if self._tokens is not None:
            await self._tokens.remove()
            self._tokens = None
        self.set_class(shown and bool(self._writers), "-tokens")
        if shown and self._writers:
            from app.ui.widgets.token_view import TokenView

            self._tokens = TokenView()
            self._tokens.append(self._writers.runs)
            await self.mount(self._tokens, after=self._markdown)

    def note(self, text: str) -> None:
        """Say something about the answer, below it."""
        self.remark.update(Content(printable(text)))
        self.remark.set_class(bool(text), "-given")

    async def fail(self, error: AppError) -> None:
        """Say why there is no answer, or no more of it."""
        self.note("")
        await self.mount(Problem(error))
