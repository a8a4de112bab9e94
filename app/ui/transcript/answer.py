"""An answer: its reasoning, its text as Markdown or as tokens, and how it ended, with the keys that help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from app.conversations.message import Ending, Role, repeated
from app.conversations.tree import Node, State
from app.core.errors import AppError, ContextOverflowError, DoesNotFitError
from app.core.printable import printable
from app.engine.text.segments import Segment
from app.engine.text.tool_calls import shown_call
from app.engine.types import FinishReason
from app.models.pair_info import PairInfo, or_longer
from app.ui.key_names import key
from app.ui.reading.token_rows import TokenStyles
from app.ui.transcript.foldings import Reasoning
from app.ui.transcript.message import MessageItem, error_parts
from app.ui.transcript.parts import QUIET, MarkdownPart, MessagePart, TokenPart
from app.ui.widgets.row_canvas import typed_rows

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


class AnswerMessage(MessageItem):
    """An answer, or the reason why a prompt has none.

    Attributes:
        tokens: The text in the colors of its sources, while it replaces the formatted text.
        has_grown: Whether text arrived since the answer began or was continued.
    """

    def __init__(self, node: Node, *, is_running: bool = False) -> None:
        is_answer = node.role is Role.ASSISTANT
        super().__init__("Answer", node)
        # Leading spaces would make the first line a code block.
        self._text, self._thought = (node.text.lstrip(), node.reasoning) if is_answer else ("", "")
        self._call_text = "\n".join(map(shown_call, node.calls))
        self._segments: list[Segment] | None = None if self._text or self._thought or self._call_text else []
        """The whole answer with its sources; None if its beginning was not seen."""
        self.tokens: TokenPart | None = None
        self.has_grown = False
        self._styles: TokenStyles | None = None
        self._shows_reasoning = False
        self._activity = "waiting for the models" if node.id < 0 else None
        self._is_running = is_running

    @property
    def id(self) -> int | None:
        return super().id if self.node.role is Role.ASSISTANT else None

    @property
    def text(self) -> str:
        return self._text

    @cached_property
    def reasoning(self) -> Reasoning:
        """The reasoning of an answer that is laid out."""
        made = Reasoning(self._thought)
        made.fold(opened=self._shows_reasoning)
        return made

    @cached_property
    def markdown(self) -> MarkdownPart:
        """The text of an answer that is laid out."""
        made = MarkdownPart(has_code_keys=True)
        made.append(self._text)
        return made

    @property
    def is_reading(self) -> bool:
        """Return whether a part of a long text is not laid out yet."""
        return self.is_laid_out and bool(self.markdown.unread or self.reasoning.markdown.unread)

    def read_more(self) -> None:
        """Lay out the next piece of a long text."""
        self.markdown.read()
        self.reasoning.markdown.read()

    # Layout

    @cached_property
    def _calls(self) -> MessagePart:
        return MessagePart()

    @cached_property
    def _remark(self) -> MessagePart:
        return MessagePart(style=QUIET, n_below=1)

    def lay_out(self) -> None:
        """Make the parts, or arrange them again."""
        self.tokens = None
        if self._styles is not None and self._segments is not None:
            self.tokens = TokenPart(self._segments, self._styles)
        failure = None if self._is_running else self.node.ending.failure
        error = error_parts(in_keys(failure, self.pair)) if failure is not None else []
        self._draw_calls()
        # The tokens show who wrote the text, instead of its formatting.
        text = [*self.reasoning.parts, self.markdown, self._calls] if self.tokens is None else [self.tokens]
        self.parts = [self._label, *text, self._remark, *error]
        self._draw_remark()
        self._find_foldings()

    def _arrange(self) -> None:
        if self.is_laid_out:
            self.lay_out()

    def _draw_calls(self) -> None:
        self._calls.put(0, list(typed_rows(printable(self._call_text))))

    def _find_foldings(self) -> None:
        self.foldings = [self.reasoning] if self._thought.strip() else ()

    def show_reasoning(self, *, shown: bool) -> None:
        """Open or close the reasoning."""
        self._shows_reasoning = shown
        if self.is_laid_out:
            self.reasoning.fold(opened=shown)

    def show_tokens(self, styles: TokenStyles | None) -> None:
        """Show the tokens in the colors of their sources, if known; None shows the formatted text."""
        self._styles = styles
        self._arrange()

    # Text and its end

    def add(self, segments: Sequence[Segment]) -> None:
        """Show more text, and store its sources."""
        self.has_grown = True
        if self._segments is not None:
            self._segments += segments
        if self.tokens is not None:
            self.tokens.append(segments)
        thought = "".join(segment.text for segment in segments if segment.reasoning)
        text = "".join(segment.text for segment in segments if not (segment.reasoning or segment.call))
        text = text if self._text else text.lstrip()
        if call := "".join(segment.text for segment in segments if segment.call):
            self._call_text += call
            self._draw_calls()
        self._thought += thought
        self._text += text
        if thought and self.is_laid_out:
            self.reasoning.add(thought)
            self._find_foldings()
        if text and self.is_laid_out:
            self.markdown.append(text)

    def note(self, text: str | None) -> None:
        """Show an activity for the answer below it; None removes it."""
        self._activity = text
        self._draw_remark()

    def _draw_remark(self) -> None:
        is_final = self.node.ending.reason is FinishReason.CONTEXT
        calls = "this call was not run" if self.can_go_on and self.node.calls else ""
        more = f"{key('chat.go_on')} {'asks again' if calls else 'continues'}"
        more = more if self.can_go_on and not is_final else ""
        ending = None if self._is_running or self._activity else remark_on(self.node)
        remark = "; ".join(filter(None, (self._activity, ending, calls, more)))
        self._remark.put(0, list(typed_rows(printable(remark))))

    def resume(self) -> None:
        """Remove the remark on its end, because more text comes."""
        self.can_go_on = self.has_grown = False
        self._activity, self._is_running = None, True
        self._arrange()

    def end(self, node: Node) -> None:
        """Show how the answer ended."""
        self.node = node
        self._activity, self._is_running = None, False
        # A truncated call does not run.
        self._call_text = "\n".join(map(shown_call, node.calls))
        self._arrange()

    # Clicks and search

    def request_at(self, part: MessagePart, x: int, y: int) -> str:
        number = self.markdown.code_label_at(x, y) if part is self.markdown else None
        return f"copy_code {number}" if number is not None else super().request_at(part, x, y)

    def part_with(self, words: re.Pattern[str]) -> MessagePart:
        if words.search(self._text) is None and words.search(self._thought) is not None:
            self.reasoning.fold(opened=True)
            self.reasoning.markdown.read_all()
            return self.reasoning.markdown
        self.markdown.read_all()
        return self.markdown


# Endings


def in_words(ending: Ending, *, empty: bool, thought: bool = False) -> str | None:
    """Return why the model stopped writing, with the keys that help; None for a complete answer."""
    if ending.reason is None:
        return None
    if ending.reason is FinishReason.REPETITION:
        return repeated(ending.repeats)
    reason = _REASON_TEXTS.get(ending.reason, _empty_answer(thought=thought) if empty else None)
    if ending.reason is FinishReason.CONTEXT:
        new, settings, more = key("chat.new"), key("chat.settings"), key("chat.go_on")
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
    return f"No new text: {in_words(ending, empty=True, thought=thought) or _empty_answer(thought=thought)}."


def remark_on(node: Node) -> str | None:
    """Return how an answer ended, or why a prompt has none; None for a failure, which is shown as an error."""
    ending = node.ending
    if node.role is not Role.ASSISTANT:
        return in_words(ending, empty=True)
    empty, thought = not node.text.strip(), bool(node.reasoning.strip())
    if ending.failure is not None:
        return None
    if node.state is State.COMPLETE:
        return _empty_answer(thought=thought) if empty and not node.calls else None
    text = in_words(ending, empty=empty, thought=thought) if node.state is State.CUT else None
    return text or _STATE_TEXTS.get(node.state)


def in_keys(error: AppError, pair: PairInfo | None) -> AppError:
    """Return an error whose fix names keys; `pair` is the loaded pair."""
    match error:
        case DoesNotFitError():
            other = f"{key('chat.pairs')} chooses another pair."
            return AppError(error.message, f"Free some memory and send the prompt again; {other}")
        case ContextOverflowError():
            return AppError(error.message, f"{_shorter(error.whose)}{_longer(error, pair)}.")
    return error


def _longer(error: ContextOverflowError, pair: PairInfo | None) -> str:
    settings = key("chat.settings")
    if pair is None or not error.n_tokens:
        return f", or set a longer context ({settings}, ctx)"
    return or_longer(pair, error.n_tokens, lambda enough: f"set a longer context ({settings}, ctx {enough})")


def _shorter(whose: str) -> str:
    if whose == "system":
        return f"Shorten the system prompt ({key('chat.settings')} or /system)"
    if whose == "tools":
        return "Switch servers off (/tools)"
    if whose == "pictures":
        return "Use smaller or fewer pictures"
    if whose == "prompt":
        return "Shorten it, or include a part of its files (@file.pdf:3-7)"
    choose, edit = key("chat.choose"), key("message.edit")
    return f"Start a new conversation ({key('chat.new')}) or edit an earlier prompt ({choose}, then {edit})"
