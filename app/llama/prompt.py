"""Render a conversation as token ids; no message can forge a control token."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from app.conversations.message import Message, Prefill, Role
from app.core.errors import TemplateError
from app.core.pictures import MARK, PictureData
from app.engine.text.call_formats import TRIGGERS, is_call_mark
from app.engine.text.reasoning import AnswerPart, ReasoningMarkup, RenderedPrompt
from app.engine.text.tool_calls import ToolCall
from app.llama.model import Model
from app.llama.reasoning_markup import markup_of
from app.llama.template import CHATML_MARKS, ChatTemplate, TemplateBudgetError
from app.settings.layers import AS_TRAINED, Thinking, ThinkingSupport
from app.settings.table import EFFORTS

if TYPE_CHECKING:
    from app.llama.projector import Projector

_OPENING_CHARACTER, _CLOSING_CHARACTER = "\ue000", "\ue001"
"""Private-use characters around the number of a hidden text while the template is rendered."""
_HIDDEN_TEXT_MARK = re.compile(f"{_OPENING_CHARACTER}([0-9]{{1,9}}){_CLOSING_CHARACTER}")
_UNMERGED_CHARACTER = "\x01"
"""Character that no vocabulary merges with others."""


class PromptBuilder:
    """Renders and tokenizes conversations for one model.

    The rendered text is tokenized with special tokens, as in training. A message with the text of a control token could
    end its own turn; these texts are hidden before rendering and restored as ordinary characters.

    Raises:
        TemplateError: The template is invalid, leaves out the user's words, or exceeds its budget.
    """

    def __init__(self, model: Model, encoder: Projector | None = None) -> None:
        self._model = model
        self._encoder = encoder
        self._template = ChatTemplate(model.chat_template, *map(model.text_of, (model.vocab.bos, model.vocab.eos)))
        if self._template.leaves_out:
            raise TemplateError(
                "The model's chat template leaves out the prompt.", "The model file may be faulty; try another."
            )
        self._stops = CHATML_MARKS if self._template.is_chatml else ()
        # These characters in a message would be read as marks, so they are hidden too.
        texts = sorted(
            filter(None, [*model.control_tokens, _OPENING_CHARACTER, _CLOSING_CHARACTER, MARK]), key=len, reverse=True
        )
        self._control_texts = re.compile("|".join(map(re.escape, texts)))
        self._control = frozenset(model.control_tokens.values())
        self._written = markup_of(model.chat_template)
        self._markup = self._written.with_tokens(model.control_tokens)
        self.call_format = self._template.call_format
        self.thinking_support = self._thinking_support()

    def build(
        self,
        messages: Sequence[Message],
        prefill: Prefill | None = None,
        thinking: Thinking = AS_TRAINED,
        tools: Sequence[Mapping[str, Any]] = (),
        pictures: Sequence[PictureData] = (),
    ) -> RenderedPrompt:
        """Return the prompt for the next answer, or for the rest of an answer.

        The text of a prefilled answer follows the beginning of its turn, as in llama-server: in a complete message, the
        template would trim it, drop its reasoning and end its turn.

        Args:
            thinking: Reasoning settings; ignored if the prefilled answer has reasoning.
            tools: Tools that the model may call, as in OpenAI's API.
            pictures: Pictures in the order of their marks in messages; marks in answers are dropped.

        Raises:
            TemplateError: The model's template cannot render the conversation.
            UsageError: It is longer than any context.
            DecodeError: A picture has a size that the projector cannot read.
        """
        self._template.renew_budget()
        # The other fields of a tool are for the server.
        tools = [{"type": "function", "function": tool["function"]} for tool in tools]
        prompt = self._build(
            messages, prefill, thinking, tools, self._encoder.tokens(pictures) if self._encoder else ()
        )
        return replace(prompt, tool_marks=self._tool_marks, markup=self._markup_with_calls) if tools else prompt

    @cached_property
    def _tool_marks(self) -> Mapping[int, bytes]:
        # Gemma has thousands of control tokens.
        return {token: text.encode() for text, token in self._model.control_tokens.items() if is_call_mark(text)}

    @cached_property
    def _markup_with_calls(self) -> ReasoningMarkup:
        return replace(self._written, calls=TRIGGERS).with_tokens(self._model.control_tokens)

    def _build(
        self,
        messages: Sequence[Message],
        prefill: Prefill | None,
        thinking: Thinking,
        tools: Sequence[Mapping[str, Any]] = (),
        pictures: Sequence[tuple[int, ...]] = (),
    ) -> RenderedPrompt:
        if prefill is not None and prefill.reasoning.strip() and thinking.enabled is False:
            thinking = replace(thinking, enabled=None)
        prompt = self._render(messages, thinking, tools, pictures)
        # Templates that mark answers mark calls differently, and the model must be free to write that mark.
        is_open = tools and self._written.speak and prompt.part is AnswerPart.START
        if thinking.enabled is False and not is_open:
            # The template may ignore the setting, or leave the choice to the model.
            prompt = self._begin_answer(prompt)
        return prompt if prefill is None else self._append(prompt, prefill)

    def _thinking_support(self) -> ThinkingSupport:
        def tokens(enabled: bool | None = None, effort: str | None = None) -> tuple[int, ...] | None:
            try:
                return self._build([Message(Role.USER, "a")], None, Thinking(enabled, effort)).tokens
            except TemplateBudgetError:
                raise
            except TemplateError:
                return None

        def depends_on_effort(enabled: bool | None = None) -> bool:
            return len({tokens(enabled, effort) for effort in EFFORTS}) > 1

        if tokens() is None:
            # Building a prompt will report the error.
            return ThinkingSupport()
        # Some templates use the effort only if reasoning is requested.
        effort = depends_on_effort()
        return ThinkingSupport(tokens(True) != tokens(False), effort, effort or depends_on_effort(True))

    def _render(
        self,
        messages: Sequence[Message],
        thinking: Thinking,
        tools: Sequence[Mapping[str, Any]],
        pictures: Sequence[tuple[int, ...]],
    ) -> RenderedPrompt:
        hidden: list[str | tuple[int, ...]] = []
        left, none = iter(pictures), iter(())

        def hide(text: str, pictures: Iterator[tuple[int, ...]] = none) -> str:
            def number(found: re.Match[str]) -> str:
                hidden.append(next(pictures, ()) if found[0] == MARK else found[0])
                return f"{_OPENING_CHARACTER}{len(hidden) - 1}{_CLOSING_CHARACTER}"

            return self._control_texts.sub(number, text)

        def hide_in(value: Any) -> Any:
            if isinstance(value, dict):
                return {hide(key): hide_in(one) for key, one in value.items()}
            if isinstance(value, list):
                return [hide_in(one) for one in value]
            return hide(value) if isinstance(value, str) else value

        safe = [
            replace(
                message,
                # A model may write the character of a mark.
                content=hide(message.content, left if message.role is not Role.ASSISTANT else none),
                reasoning=hide(message.reasoning),
                tool_calls=tuple(ToolCall(hide(c.name), hide(c.arguments), c.id) for c in message.tool_calls),
            )
            for message in messages
        ]
        text = self._template.render(safe, thinking, hide_in(list(tools)))
        tokens: list[int] = []
        for index, part in enumerate(_HIDDEN_TEXT_MARK.split(text)):
            # Marks of the template itself are dropped.
            if index % 2 == 1 and int(part) < len(hidden):
                back = hidden[int(part)]
                tokens += self._text_tokens(back) if isinstance(back, str) else back
            elif index % 2 == 0 and part:
                tokens += self._model.tokenize(part, parse_special=True)
        if not (tokens := self._model.with_bos(tokens)):
            raise TemplateError(
                "The model's chat template renders this conversation as nothing.",
                "The model file may be faulty; try another.",
            )
        return RenderedPrompt(tuple(tokens), self._part_at_end(text), self._markup, self._stops)

    def _part_at_end(self, text: str) -> AnswerPart:
        behind, marks = text.rstrip(), self._written
        if behind.endswith(marks.open):
            return AnswerPart.THINKING
        return AnswerPart.ANSWER if marks.answer and behind.endswith(marks.answer) else AnswerPart.START

    def _append(self, prompt: RenderedPrompt, prefill: Prefill) -> RenderedPrompt:
        if prefill.reasoning:
            if prompt.part is not AnswerPart.THINKING:
                think = self._model.tokenize(self._written.think, parse_special=True)
                prompt = replace(prompt, tokens=(*prompt.tokens, *think), part=AnswerPart.THINKING)
            prompt = self._with_text(prompt, prefill.reasoning)
        if text := prefill.text.lstrip():
            prompt = replace(self._with_text(self._begin_answer(prompt), text), part=AnswerPart.ANSWER)
        return prompt

    def _begin_answer(self, prompt: RenderedPrompt) -> RenderedPrompt:
        marks = self._written
        markers = {AnswerPart.START: marks.speak, AnswerPart.THINKING: marks.conclude, AnswerPart.ANSWER: ""}
        if not (marker := markers[prompt.part]):
            return prompt
        tokens = (*prompt.tokens, *self._model.tokenize(marker, parse_special=True))
        # Some models reason even after an empty thought.
        return replace(prompt, tokens=tokens, part=AnswerPart.ANSWER if marks.answer else AnswerPart.START)

    def _with_text(self, prompt: RenderedPrompt, text: str) -> RenderedPrompt:
        begins = bool(self._control.intersection(prompt.tokens[-1:]))
        return replace(prompt, tokens=(*prompt.tokens, *self._text_tokens(text, begins=begins)))

    def _text_tokens(self, text: str, *, begins: bool = True) -> list[int]:
        """Return the tokens of a text as ordinary characters.

        llama.cpp always recognizes "user-defined" control tokens, so their texts are tokenized in parts. `begins` says
        whether the text begins the prompt or follows a control token.
        """
        tokens = self._tokenize(text, begins=begins)
        if not self._control.intersection(tokens):
            return tokens
        out: list[int] = []
        cuts = [0, *chain.from_iterable(found.span() for found in self._control_texts.finditer(text)), len(text)]
        for start, stop in pairwise(cuts):
            part = text[start:stop]
            while self._control.intersection(tokens := self._tokenize(part, begins=begins and not out)):
                head, part = part[0], part[1:]
                out += (t for t in self._tokenize(head, begins=begins and not out) if t not in self._control)
            out += tokens
        return out

    def _tokenize(self, text: str, *, begins: bool) -> list[int]:
        if begins or not text or self._model.vocab.kind != "llama":
            return self._model.tokenize(text, parse_special=False)
        # SentencePiece would put a space before the text.
        before = self._model.tokenize(_UNMERGED_CHARACTER, parse_special=False)
        return self._model.tokenize(_UNMERGED_CHARACTER + text, parse_special=False)[len(before) :]
