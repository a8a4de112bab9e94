"""One message of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.widgets import Static

from app.conversations.attached import split
from app.core.errors import AppError
from app.core.printable import printable
from app.engine.text.segments import Segment
from app.ui.key_names import key
from app.ui.models.fit_options import FitOption, FitOptionList, NoRoomError
from app.ui.transcript.foldable import FoldedText, Folding, Reasoning
from app.ui.transcript.message_data import AnswerData, PromptData
from app.ui.transcript.message_view import MessageView
from app.ui.widgets.passage import Passage

if TYPE_CHECKING:
    from app.ui.transcript.text_views import TokenView


_DEAR = 20_000
"""Characters of a message that is not read again each time it comes near: that would take a tenth of a second."""


class UserMessage(MessageView):
    """A prompt of the user; included files are collapsed.

    Args:
        was: What stood for it.
    """

    def __init__(self, was: PromptData) -> None:
        super().__init__(was.label, was.node)
        self._whole = was.text
        question, attachments = split(was.text)
        self._text = printable(question)
        opened = chain(was.opened, repeat(False))
        self._attachments = [
            FoldedText(text, opened=is_open) for text, is_open in zip(attachments, opened, strict=False)
        ]

    @property
    def text(self) -> str:
        return self._text

    @property
    def folded(self) -> Sequence[Folding]:
        return self._attachments

    def compose(self) -> ComposeResult:
        yield self.label
        yield from self._attachments
        if len(self._text) <= _DEAR:
            yield Passage(self._text, "said")
        else:
            from app.ui.transcript.text_views import PlainText

            yield PlainText(self._text)

    def data(self) -> PromptData:
        return PromptData(self._whole, self.speaker, self.node, [folded.open for folded in self._attachments])


class Problem(VerticalGroup):
    """A failure: what happened, and what to do."""

    def __init__(self, error: AppError) -> None:
        super().__init__()
        self._error = error

    def compose(self) -> ComposeResult:
        yield Passage(printable(self._error.message), "what")
        if isinstance(self._error, NoRoomError):
            yield FitOptionList(self._error.options)
        if self._error.hint:
            yield Passage(printable(self._error.hint), "way-out")

    def again(self) -> Problem:
        """The same in another place."""
        return Problem(self._error)


class Offer(Problem):
    """The ways out of a failure that is told already, where they can be taken."""

    def __init__(self, ways: tuple[FitOption, ...]) -> None:
        super().__init__(NoRoomError("What would make it fit:", ways))


class AnswerMessage(MessageView):
    """One answer, from its first word to its last.

    Args:
        was: What stood for it.
        tokens: Whether who wrote each token is shown, if that is known.
    """

    def __init__(self, was: AnswerData, *, tokens: bool = False) -> None:
        # The first frame need not wait for a Markdown parser.
        from app.ui.transcript.text_views import ModelMarkdown

        super().__init__("Answer", was.node)
        self.reasoning = Reasoning(was.thought, was.seconds, opened=was.opened)
        self._markdown = ModelMarkdown(was.document)
        self.remark = Static(classes="remark")
        self._said = [was.text] if was.document is not None else []
        self._remark, self._is_final = was.remark, was.is_final
        self._error = was.error
        self.has_grown = False
        """Whether anything came since the last `resume`."""
        self._token_runs = was.token_runs
        self._seen_whole = was.token_runs is not None or not (was.text or was.thought)
        self._tokens: TokenView | None = None
        if was.document is None:
            self._say(was.text)
        self._show_tokens(tokens)
        self._draw_remark()

    def compose(self) -> ComposeResult:
        yield self.label
        yield self.reasoning
        yield self._markdown
        if self._tokens is not None:
            yield self._tokens
        yield self.remark
        if self._error is not None:
            yield Problem(self._error)

    @property
    def text(self) -> str:
        return "".join(self._said)

    @property
    def folded(self) -> Sequence[Folding]:
        return [self.reasoning] if self.reasoning.text.strip() else []

    @property
    def is_said(self) -> bool:
        return self.node is not None or bool(self.text.strip() or self.reasoning.text.strip())

    async def add(self, segments: Sequence[Segment]) -> None:
        """Show more text, and remember who wrote it."""
        from app.ui.reading.token_rows import TokenRuns

        self.has_grown = True
        self._token_runs = self._token_runs or TokenRuns()
        fresh = self._token_runs.add(segments)
        if self._tokens is not None:
            self._tokens.append(fresh)
        if thought := "".join(s.text for s in segments if s.reasoning):
            self.reasoning.add(thought)
        self._say("".join(s.text for s in segments if not s.reasoning))

    def _say(self, text: str) -> None:
        # Indented code is the only thing that leading space could mean, and models do not mean it.
        text = text if self._said else text.lstrip()
        if text:
            self._said.append(text)
            self._markdown.append(text)

    @property
    def shows_tokens(self) -> bool:
        return self._tokens is not None

    async def show_tokens(self, shown: bool) -> None:
        """Show who wrote each token, in place of the formatted text, or the text again.

        An answer that was not seen coming from its first word stays as it is.
        """
        if self._tokens is not None:
            await self._tokens.remove()
        self._show_tokens(shown)
        if self._tokens is not None:
            await self.mount(self._tokens, after=self._markdown)

    def _show_tokens(self, shown: bool) -> None:
        self._tokens = None
        if shown and self._seen_whole and self._token_runs:
            from app.ui.transcript.text_views import TokenView

            self._tokens = TokenView(self._token_runs.runs)
        self.set_class(self._tokens is not None, "-tokens")

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
        more = f"{key('chat.go_on', 'ctrl+g')} continues" if self.can_go_on and not self._is_final else ""
        remark = "; ".join(filter(None, (self._remark, more)))
        self.remark.update(Content(printable(remark)))
        self.remark.set_class(bool(remark), "-given")

    async def resume(self) -> None:
        """More is to come: remove what was said about its end."""
        self.can_go_on = self.has_grown = False
        self.note("")
        self._error = None
        await self.query(Problem).remove()

    async def end(self, data: AnswerData) -> None:
        """Say why there is no answer, or no more of it, as `data` says."""
        self.note(data.remark, is_final=data.is_final)
        await self._fail(data.error)

    async def _fail(self, error: AppError | None) -> None:
        self._error = error
        if error is not None:
            await self.mount(Problem(error))

    def data(self) -> AnswerData:
        text, thought = self.text, self.reasoning
        return AnswerData(
            text,
            thought.text,
            thought.seconds,
            thought.open,
            self._remark,
            self._is_final,
            self._error,
            self._token_runs if self._seen_whole else None,
            self._markdown.document if len(text) > _DEAR and self._markdown.is_whole else None,
            self.node,
        )
