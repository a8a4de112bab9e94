"""Prompts as token ids: conversations, where no message can forge a control token, and text without a template."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from app.conversations.message import Message, Prefill, Role, pictures_in
from app.core.errors import TemplateError, UsageError
from app.core.pictures import MARK
from app.engine.text.call_formats import TRIGGERS, is_call_mark
from app.engine.text.reasoning import AnswerPart, ReasoningMarkup, RenderedPrompt
from app.engine.text.tool_calls import ToolCall
from app.engine.types import Infill, PlainPrompt
from app.llama.library import native
from app.llama.model import Model
from app.llama.reasoning_markup import markup_of
from app.llama.template import CHATML_MARKS, ChatTemplate, RenderingError
from app.settings.layers import AS_TRAINED, Thinking, ThinkingSupport
from app.settings.table import EFFORTS

if TYPE_CHECKING:
    from app.llama.projector import Projector

_OPENING_CHARACTER, _CLOSING_CHARACTER = "\ue000", "\ue001"
"""Private-use characters around the number of a hidden text while the template is rendered."""
_HIDDEN_TEXT_MARK = re.compile(f"{_OPENING_CHARACTER}([0-9]{{1,9}}){_CLOSING_CHARACTER}")
_UNMERGED_CHARACTER = "\x01"
"""Character that no vocabulary merges with others."""
_CODE_TOKENS = 2048
"""Limit for the code around a gap in tokens, like llama-server's default batch size."""
_PREFIX_SHARE = 0.75
"""Share of that code before the gap."""
_ANSWER_SHARE = 0.125
"""Share of the context that other files leave free."""
_PROJECT_NAME, _FILE_NAME = "myproject\n", "filename\n"
"""Names that llama-server writes into the prompt, so that both use the same cache."""
_SNIPPET_HEADING = "\n\n--- snippet ---\n\n"
"""Text before another file, for models without a token for it."""


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
    ) -> RenderedPrompt:
        """Return the prompt for the next answer, or for the rest of an answer.

        The text of a prefilled answer follows the beginning of its turn, as in llama-server: in a complete message, the
        template would trim it, drop its reasoning and end its turn.

        Args:
            messages: The conversation; marks of pictures in answers are dropped.
            thinking: Reasoning settings; ignored if the prefilled answer has reasoning.
            tools: Tools that the model may call, as in OpenAI's API.

        Raises:
            TemplateError: The model's template cannot render the conversation.
            UsageError: It is longer than any context.
            DecodeError: A picture has a size that the projector cannot read.
        """
        self._template.renew_budget()
        # The other fields of a tool are for the server.
        tools = [{"type": "function", "function": tool["function"]} for tool in tools]
        prompt = self._build(messages, prefill, thinking, tools)
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
    ) -> RenderedPrompt:
        if prefill is not None and prefill.reasoning.strip() and thinking.enabled is False:
            thinking = replace(thinking, enabled=None)
        prompt = self._render(messages, thinking, tools)
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
            except RenderingError:
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
        self, messages: Sequence[Message], thinking: Thinking, tools: Sequence[Mapping[str, Any]]
    ) -> RenderedPrompt:
        hidden: list[str | tuple[int, ...]] = []
        left, none = iter(self._encoder.tokens(pictures_in(messages)) if self._encoder else ()), iter(())

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
            raise RenderingError(
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


def plain_tokens(model: Model, prompt: PlainPrompt, n_ctx: int) -> tuple[int, ...]:
    """Return the tokens of a prompt, with BOS first if the model expects it.

    Raises:
        UsageError: It has a token outside the vocabulary, or the model cannot fill gaps.
    """
    if isinstance(prompt, Infill):
        return tuple(_infill(model, prompt, n_ctx))
    tokens: list[int] = []
    for part in prompt.parts:
        tokens += [part] if isinstance(part, int) else model.tokenize(part, parse_special=True)
    model.check_tokens(tokens)
    if isinstance(prompt.parts[0] if prompt.parts else "", str):
        tokens = model.with_bos(tokens)
    return tuple(tokens)


def _fim_tokens(model: Model) -> tuple[int, int, int, int | None, int | None]:
    """Return the tokens before the prefix, the suffix and the gap, and before a repository and a file, if any."""
    names = ("pre", "suf", "mid", "rep", "sep")
    found = [getattr(native, f"llama_vocab_fim_{name}")(model.native_vocab) for name in names]
    prefix, suffix, middle, repository, file = (token if token >= 0 else None for token in found)
    if prefix is None or suffix is None or middle is None:
        raise UsageError(
            f"{model.name} cannot fill in code: its vocabulary has no tokens for it.", "Choose a model for code."
        )
    return prefix, suffix, middle, repository, file


def _infill(model: Model, gap: Infill, n_ctx: int) -> list[int]:
    """Return the prompt in llama-server's order: other files, then prefix, suffix and middle."""
    before_prefix, before_suffix, before_gap, before_repository, before_file = _fim_tokens(model)

    def text(value: str) -> list[int]:
        return model.tokenize(value, parse_special=False)

    files: list[int] = [] if before_repository is None else [before_repository, *text(_PROJECT_NAME)]
    for name, content in gap.files:
        files += text(_SNIPPET_HEADING) if before_file is None else [before_file, *text(f"{name}\n")]
        files += text(content)
    if before_file is not None:
        files += [before_file, *text(_FILE_NAME)]
    room = min(_CODE_TOKENS, n_ctx // 2)
    begun, n_prefix = text(gap.begun), int(_PREFIX_SHARE * room)
    prefix, suffix = text(gap.prefix)[-n_prefix:], text(gap.suffix)[: max(0, room - n_prefix - 2 - len(begun))]
    n_files = max(0, n_ctx - room - int(_ANSWER_SHARE * n_ctx))
    code = [before_prefix, *prefix, *begun, before_suffix, *suffix, before_gap]
    return model.with_bos([*(files[-n_files:] if n_files else []), *code])
