"""One message of a conversation, and how an answer ended."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.widgets import Static

from app.conversations.attached import split
from app.conversations.message import Ending, Role, repeated
from app.conversations.tree import Node, State
from app.core.errors import AppError
from app.core.printable import printable
from app.engine.text.segments import Segment
from app.engine.types import FinishReason
from app.models.pair_info import PairInfo
from app.ui.key_names import for_chat, key
from app.ui.models.fit_options import FitOptionList
from app.ui.models.state import FitOption
from app.ui.reading.token_rows import TokenRuns
from app.ui.transcript.fixes import in_keys
from app.ui.transcript.message_view import MessageView
from app.ui.transcript.parts import (
    Folding,
    ModelMarkdown,
    Reasoning,
    TokenView,
    folded_attachment,
    folded_summary,
)
from app.ui.transcript.preview import PicturePreview
from app.ui.widgets.rows_view import Passage, RowsView

_REASON_TEXTS = {
    FinishReason.CANCELLED: "stopped",
    FinishReason.LENGTH: "cut at the token limit",
    FinishReason.CONTEXT: "cut: the context is full",
}
_STATE_TEXTS = {
    State.STOPPED: "stopped",
    State.CUT: "cut before its end",
    State.FAILED: "failed before its end",
    State.WRITING: "another Tandem is writing it",
}


def in_words(ending: Ending, *, empty: bool, thought: bool = False) -> str:
    """Return why the model stopped writing, with the keys that help; "" for a complete answer."""
    if ending.reason is None:
        return ""
    if ending.reason is FinishReason.REPETITION:
        return repeated(ending.repeats)
    reason = _REASON_TEXTS.get(ending.reason, _empty_answer(thought=thought) if empty else "")
    if ending.reason is FinishReason.CONTEXT:
        new, settings, more = key("chat.new", "ctrl+n"), key("chat.settings", "f4"), key("chat.go_on", "ctrl+g")
        restart = f"{new} starts a new conversation"
        if ending.at_limit:
            return f"{reason}, and it cannot be longer here; {restart}"
        return f"{reason}; {restart}, or set a longer context in {settings}, then {more} continues"
    return reason


def _empty_answer(*, thought: bool) -> str:
    return "the model gave no answer after its reasoning" if thought else "the model generated no text"


def in_vain(ending: Ending, pair: PairInfo | None, *, thought: bool = False) -> str:
    """Return why a regenerated or continued answer was discarded."""
    if ending.failure is not None:
        return in_keys(ending.failure, pair).sentences
    return f"No new text: {in_words(ending, empty=True, thought=thought)}."


def remark_on(node: Node) -> str:
    """Return how an answer ended, or why a prompt has none; "" for a failure, which is shown as an error."""
    ending = node.ending
    if node.role is not Role.ASSISTANT:
        return in_words(ending, empty=True)
    empty, thought = not node.text.strip(), bool(node.reasoning.strip())
    if ending.failure is not None:
        return ""
    if node.state is State.COMPLETE:
        return _empty_answer(thought=thought) if empty else ""
    text = in_words(ending, empty=empty, thought=thought) if node.state is State.CUT else ""
    return text or _STATE_TEXTS.get(node.state, "")


class UserMessage(MessageView):
    """A prompt or a system message; attachments, and a summary of earlier messages, are collapsed."""

    def __init__(self, node: Node) -> None:
        super().__init__("You" if node.role is Role.USER else "System", node)
        question, attachments = split(node.text)
        self.text = printable(question)
        self._passage = Passage(self.text, "prompt")
        self._folded: list[Folding] = [
            folded_attachment(each) if each.picture is None else PicturePreview(each, each.picture)
            for each in attachments
        ]
        if node.compaction is not None:
            self._folded.insert(0, folded_summary(node.compaction.summary))

    @property
    def folded(self) -> Sequence[Folding]:
        return self._folded

    def compose(self) -> ComposeResult:
        yield self._label
        yield from self._folded
        yield self._passage

    def part_with(self, words: re.Pattern[str]) -> RowsView | None:
        return self._passage


class ErrorNotice(VerticalGroup):
    """An error and its fix, perhaps with options to choose from."""

    def __init__(self, error: AppError, options: Sequence[FitOption] = (), classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._error = error
        self._options = options

    def compose(self) -> ComposeResult:
        yield Passage(printable(for_chat(self._error.message)), "what")
        if self._options:
            yield FitOptionList(self._options)
        if self._error.hint:
            yield Passage(printable(for_chat(self._error.hint)), "way-out")


class AnswerMessage(MessageView):
    """An answer, or in its place the reason why a prompt has none.

    Args:
        node: The answer, or the prompt.
        token_runs: Sources of its tokens, if known.
        shows_tokens: True to show these.
        shows_reasoning: True to open the reasoning.
    """

    def __init__(
        self,
        node: Node,
        *,
        is_running: bool = False,
        token_runs: TokenRuns | None = None,
        shows_tokens: bool = False,
        shows_reasoning: bool = False,
    ) -> None:
        is_answer = node.role is Role.ASSISTANT
        super().__init__("Answer", node if is_answer else None)
        self.reasoning = Reasoning(node.reasoning if is_answer else "")
        self.reasoning.open = shows_reasoning
        self.markdown = ModelMarkdown(has_code_keys=True)
        self.marked_code = 0
        """Number of the marked code block, from 1; 0 for none."""
        self.remark = Static(classes="remark")
        self.has_grown = False
        """True once text came since the answer began or was continued."""
        self._add(node.text if is_answer else "")
        is_new = not (self.text or self.reasoning.text)
        self.token_runs = token_runs or (TokenRuns() if is_new else None)
        """Sources of all tokens; None if the beginning of the answer was not seen."""
        self.tokens: TokenView | None = None
        self._note = "waiting for the models" if node.id < 0 else ""
        self._is_final = False
        self._error: AppError | None = None
        if not is_running:
            self._set_ending(node)
        self._show_tokens(shows_tokens)
        self._draw_remark()

    def compose(self) -> ComposeResult:
        yield self._label
        yield self.reasoning
        yield self.markdown
        if self.tokens is not None:
            yield self.tokens
        yield self.remark
        if self._error is not None:
            yield ErrorNotice(in_keys(self._error, self.pair))

    @property
    def folded(self) -> Sequence[Folding]:
        return [self.reasoning] if self.reasoning.text.strip() else []

    def add(self, segments: Sequence[Segment]) -> None:
        """Show more text, and store who wrote it."""
        self.has_grown = True
        if self.token_runs is not None:
            runs = self.token_runs.add(segments)
            if self.tokens is not None:
                self.tokens.append(runs)
        if reasoning := "".join(segment.text for segment in segments if segment.reasoning):
            self.reasoning.add(reasoning)
        self._add("".join(segment.text for segment in segments if not segment.reasoning))

    def _add(self, text: str) -> None:
        # Leading spaces would make the first line a code block.
        text = text if self.text else text.lstrip()
        if text:
            self.text += text
            self.markdown.append(text)

    async def show_tokens(self, shown: bool) -> None:
        """Replace the formatted text by its tokens in the colors of their sources, if known, or the reverse."""
        if self.tokens is not None:
            await self.tokens.remove()
        self._show_tokens(shown)
        if self.tokens is not None:
            await self.mount(self.tokens, after=self.markdown)

    def part_with(self, words: re.Pattern[str]) -> RowsView | None:
        if words.search(self.text) is None and words.search(self.reasoning.text) is not None:
            self.reasoning.open = True
            return self.reasoning.view
        self.markdown.read_all()
        return self.markdown

    def choose(self, chosen: bool, *, focus: bool = True) -> None:
        super().choose(chosen, focus=focus)
        if not chosen:
            self.mark_code(0)

    @on(ModelMarkdown.LabelClicked)
    def _copy_code(self, event: ModelMarkdown.LabelClicked) -> None:
        self.action_request(f"copy_code {event.number}")

    def mark_code(self, number: int) -> int:
        """Mark a code block; return its first screen line. 0 marks none."""
        if not number and not self.marked_code:
            return 0
        self.marked_code = number
        return self.markdown.mark_code(number)

    def _show_tokens(self, shown: bool) -> None:
        self.tokens = None
        if shown and self.token_runs is not None:
            self.tokens = TokenView(self.token_runs.runs)
        self.set_class(self.tokens is not None, "-tokens")

    def place(self, at: int, of: int, *, can_go_on: bool, model: str) -> None:
        super().place(at, of, can_go_on=can_go_on, model=model)
        self._draw_remark()

    def note(self, text: str) -> None:
        """Show a line below the answer; an empty text removes it."""
        self._note = text
        self._draw_remark()

    def _draw_remark(self) -> None:
        more = f"{key('chat.go_on', 'ctrl+g')} continues" if self.can_go_on and not self._is_final else ""
        remark = "; ".join(filter(None, (self._note, more)))
        self.remark.update(Content(printable(remark)))
        self.remark.set_class(bool(remark), "-given")

    async def resume(self) -> None:
        """Remove the remark on its end, as more text comes."""
        self.can_go_on = self.has_grown = False
        self.note("")
        await self.query(ErrorNotice).remove()

    async def end(self, node: Node) -> None:
        """Show how the answer ended."""
        self._set_ending(node)
        self._draw_remark()
        if self._error is not None:
            await self.mount(ErrorNotice(in_keys(self._error, self.pair)))

    def _set_ending(self, node: Node) -> None:
        self._note, self._error = remark_on(node), node.ending.failure
        self._is_final = node.ending.reason is FinishReason.CONTEXT
