"""One message of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from app.chat.attached import split
from app.engine.text import Segment, printable
from app.errors import AppError
from app.ui.ways import NoRoomError
from app.ui.widgets.absent import AbsentAnswer, AbsentPrompt
from app.ui.widgets.folded import FoldedText
from app.ui.widgets.reasoning import Reasoning
from app.ui.widgets.speech import Speech
from app.ui.widgets.way_list import WayList

if TYPE_CHECKING:
    from app.ui.reading.origins import Writers
    from app.ui.widgets.markdown import ModelMarkdown
    from app.ui.widgets.token_view import TokenView


_DEAR = 20_000
"""Characters of an answer that is not read anew each time it comes near: that would take a tenth of a second."""


class UserMessage(Speech):
    """What the user asked, exactly as typed.

    Args:
        text: The prompt; what it includes is folded.
        label: Who speaks.
        node: Its id in the conversation.
    """

    def __init__(self, text: str, label: str = "You", node: int | None = None) -> None:
        super().__init__(label, node)
        self._whole = text
        question, self._attachments = split(text)
        self._text = printable(question)

    @property
    def text(self) -> str:
        return self._text

    def compose(self) -> ComposeResult:
        yield self.label
        for attachment in self._attachments:
            yield FoldedText(attachment)
        yield Static(Content(self._text), classes="said")

    def absent(self) -> AbsentPrompt:
        opened = [folded.open for folded in self.query(FoldedText)]
        return AbsentPrompt(self._whole, self.speaker, self.node, opened)

    def recall(self, was: AbsentPrompt) -> None:
        """Be as a message was that is mounted no longer."""
        for folded, opened in zip(self.query(FoldedText), was.opened, strict=False):
            folded.open = opened


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
        self._seen_whole = True
        self._said: list[str] = []
        self._remark = ""
        self._is_final = False
        self._error: AppError | None = None
        self._markdown: ModelMarkdown | None = None
        self._writers: Writers | None = None
        self._tokens: TokenView | None = None

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
        self._seen_whole = self._seen_whole and live
        if thought:
            self.reasoning.add(thought, live=live)
        # Indented code is the only thing that leading space could mean, and models do not mean it.
        text = text if self._begun else text.lstrip()
        if text and self._markdown is not None:
            self._begun = True
            self._said.append(text)
            self._markdown.append(text)

    @property
    def shows_tokens(self) -> bool:
        return self._tokens is not None

    async def show_tokens(self, shown: bool) -> None:
        """Show who wrote each token, in place of the formatted text, or the text again.

        An answer that was not seen coming from its first word stays as it is.
        """
        writers = self._writers if shown and self._seen_whole else None
        if self._tokens is not None:
            await self._tokens.remove()
            self._tokens = None
        self.set_class(bool(writers), "-tokens")
        if writers:
            from app.ui.widgets.token_view import TokenView

            self._tokens = TokenView()
            self._tokens.append(writers.runs)
            await self.mount(self._tokens, after=self._markdown)

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
        self._error = None
        await self.query(Problem).remove()

    async def fail(self, error: AppError) -> None:
        """Say why there is no answer, or no more of it."""
        self.note("")
        self._error = error
        await self.mount(Problem(error))

    # Being mounted and not

    def absent(self) -> AbsentAnswer:
        thought, text = self.reasoning, self.text
        dear = self._markdown is not None and len(text) > _DEAR
        return AbsentAnswer(
            text,
            thought.text,
            thought.seconds,
            thought.open,
            self._remark,
            self._is_final,
            self._error,
            self._writers if self._seen_whole else None,
            self._markdown.document if self._markdown is not None and dear else None,
            self.node,
        )

    async def recall(self, was: AbsentAnswer) -> None:
        """Be as an answer was that is mounted no longer."""
        if was.document is not None and self._markdown is not None:
            self._begun, self._said = True, [was.text]
            self._markdown.show(was.document)
            await self.put("", was.thought)
        else:
            await self.put(was.text, was.thought)
        self.reasoning.recall(was.seconds, opened=was.opened)
        self._writers, self._seen_whole = was.writers, was.writers is not None or not (was.text or was.thought)
        if was.error is not None:
            await self.fail(was.error)
        self.note(was.remark, is_final=was.is_final)
