"""From a conversation to token ids, such that no message can forge a control token."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from app.chat.message import Begun, Message
from app.engine.text import ReasoningSplitter
from app.errors import TemplateError
from app.llama.continuation import spelled
from app.llama.model import Model
from app.llama.template import CHATML_MARKS, ChatTemplate

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private-use characters around the number of a taken text while the template is rendered."""
_MARK = re.compile(f"{_OPEN}([0-9]{{1,9}}){_CLOSE}")
_LEDGE = "\x01"
"""A character that no vocabulary joins to others."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered conversation.

    Attributes:
        tokens: Token ids, ready for the target.
        reasoning_opened: Whether it ends inside the model's thinking.
        stops: Texts that end the answer. Markup that a model was not trained on has no end token in its vocabulary,
            and what it writes of it is text.
    """

    tokens: tuple[int, ...]
    reasoning_opened: bool
    stops: tuple[str, ...] = ()


class PromptBuilder:
    """Renders and tokenizes conversations for one model.

    The whole rendered text is tokenized with special tokens recognised, as the model was trained. A message that
    contains the text of a control token would end its own turn or speak for somebody else; such texts are taken out
    before rendering and come back as ordinary characters.

    Raises:
        TemplateError: The model's template is no valid Jinja, or its prompts would not say what was asked.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._template = ChatTemplate(model.chat_template, self._text(model.bos), self._text(model.eos))
        if self._template.leaves_out:
            raise TemplateError(
                "The model's chat template leaves out what is asked.", "The model file may be faulty; try another."
            )
        self._stops = CHATML_MARKS if self._template.is_chatml else ()
        # A message's own marks would be read as ours, so they are taken out as well.
        self._forgeries = _Forgeries([*model.control_tokens, _OPEN, _CLOSE])
        self._control = frozenset(model.control_tokens.values())

    def build(self, messages: Sequence[Message], begun: Begun | None = None, known: Sequence[int] = ()) -> Prompt:
        """The prompt for the next answer, or for the rest of one.

        The begun answer follows what the template writes in front of any answer, as llama-server does it: templates
        trim finished answers, drop their thinking and end their turn.

        Args:
            messages: The conversation, ending with the user.
            begun: The answer to go on with; None for a new one.
            known: Tokens that the cache holds.

        Raises:
            TemplateError: The model's template cannot render the conversation.
            UsageError: It is longer than any context.
        """
        prompt = self._render(messages)
        return prompt if begun is None else self._go_on(prompt, begun, known)

    def _render(self, messages: Sequence[Message]) -> Prompt:
        taken: list[str] = []

        def hide(text: str) -> str:
            out: list[str] = []
            end = 0
            for start, stop in self._forgeries.find(text):
                out += text[end:start], f"{_OPEN}{len(taken)}{_CLOSE}"
                taken.append(text[start:stop])
                end = stop
            return "".join([*out, text[end:]])

        text = self._template.render([replace(m, content=hide(m.content)) for m in messages])
        tokens: list[int] = []
        for index, part in enumerate(_MARK.split(text)):
            # The template may have marks of its own; they stand for nothing.
            if index % 2 == 1 and int(part) < len(taken):
                tokens += self._literally(taken[int(part)])
            elif index % 2 == 0 and part:
                tokens += self._model.tokenize(part, parse_special=True)
        if self._model.add_bos and self._model.bos is not None and tokens[:1] != [self._model.bos]:
            tokens.insert(0, self._model.bos)
        if not tokens:
            raise TemplateError(
                "The model's chat template leaves nothing of this conversation.",
                "The model file may be faulty; try another.",
            )
        opened = text.rstrip().endswith(ReasoningSplitter.OPEN)
        return Prompt(tuple(tokens), opened, self._stops)

    def _go_on(self, prompt: Prompt, begun: Begun, known: Sequence[int]) -> Prompt:
        tokens, thinking = list(prompt.tokens), prompt.reasoning_opened
        begun = replace(begun, text=begun.text.lstrip())
        behind = known[len(tokens) :] if list(known[: len(tokens)]) == tokens else ()
        own = spelled(behind, self._model.piece, begun, thinking=thinking)
        tokens += behind[: own.n_tokens]
        rest, thinking = own.rest, own.thinking
        if rest.reasoning and not thinking:
            thinking = True
            tokens += self._model.tokenize(f"{ReasoningSplitter.OPEN}\n", parse_special=True)
        tokens += self._behind(tokens, rest.reasoning)
        if rest.text and thinking:
            thinking = False
            tokens += self._model.tokenize(f"\n{ReasoningSplitter.CLOSE}\n\n", parse_special=True)
        tokens += self._behind(tokens, rest.text)
        return replace(prompt, tokens=tuple(tokens), reasoning_opened=thinking)

    def _behind(self, tokens: Sequence[int], text: str) -> list[int]:
        """The ids of a text that follows tokens, as ordinary characters."""
        return self._literally(text, begins=bool(self._control.intersection(tokens[-1:])))

    def _literally(self, text: str, *, begins: bool = True) -> list[int]:
        """The ids of a text as ordinary characters.

        llama.cpp makes some control tokens also when it is told not to (the "user-defined" ones); no part of such a
        text is long enough for that. What stands between them is read in one go, as the model has learned to.

        Args:
            text: Any text.
            begins: Whether nothing stands in front of it, or a control token.
        """
        tokens = self._plainly(text, begins=begins)
        if not self._control.intersection(tokens):
            return tokens
        out: list[int] = []
        cuts = [0, *chain.from_iterable(self._forgeries.find(text)), len(text)]
        for start, stop in pairwise(cuts):
            part = text[start:stop]
            while self._control.intersection(tokens := self._plainly(part, begins=begins and not out)):
                head, part = part[0], part[1:]
                out += (t for t in self._plainly(head, begins=begins and not out) if t not in self._control)
            out += tokens
        return out

    def _plainly(self, text: str, *, begins: bool) -> list[int]:
        """As llama.cpp reads a text when it is told to make no special tokens."""
        if begins or not text or self._model.vocab.kind != "llama":
            return self._model.tokenize(text, parse_special=False)
        # SentencePiece puts a space in front of what begins a text, and this does not.
        ledge = self._model.tokenize(_LEDGE, parse_special=False)
        return self._model.tokenize(_LEDGE + text, parse_special=False)[len(ledge) :]

    def _text(self, token: int | None) -> str:
        return "" if token is None else self._model.text_of(token)


class _Forgeries:
    """Finds any of thousands of texts in a long one, in about one look at each place where one could begin."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = {text for text in texts if text}
        self._lengths: dict[str, list[int]] = {}
        for text in self._texts:
            self._lengths.setdefault(text[:2], []).append(len(text))
        self._lengths = {start: sorted(set(lengths), reverse=True) for start, lengths in self._lengths.items()}
        starts = sorted(self._lengths, key=len, reverse=True)
        # Looking ahead, because places may overlap.
        self._starts = re.compile(f"(?=({'|'.join(map(re.escape, starts))}))") if starts else re.compile(r"(?!)")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the texts stand, the longest one at each place, without overlap."""
        end = 0
        for match in self._starts.finditer(text):
            start = match.start()
            if start < end:
                continue
            for length in self._lengths[match[1]]:
                if text[start : start + length] in self._texts:
                    end = start + length
                    yield start, end
                    break
