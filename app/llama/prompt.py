"""From a conversation to token ids, such that no message can forge a control token."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.chat.message import Message
from app.engine.text import ReasoningSplitter
from app.llama.model import Model
from app.llama.template import ChatTemplate

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private-use characters around the number of a taken text while the template is rendered."""
_MARK = re.compile(f"{_OPEN}([0-9]{{1,9}}){_CLOSE}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered conversation.

    Attributes:
        tokens: Token ids, ready for the target.
        reasoning_opened: Whether the template already began the model's thinking.
    """

    tokens: tuple[int, ...]
    reasoning_opened: bool


class PromptBuilder:
    """Renders and tokenizes conversations for one model.

    The whole rendered text is tokenized with special tokens recognised, as the model was trained. A message that
    contains the text of a control token would end its own turn or speak for somebody else; such texts are taken out
    before rendering and come back as ordinary characters.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._template = ChatTemplate(model.chat_template, self._text(model.bos), self._text(model.eos))
        # A message's own marks would be read as ours, so they are taken out as well.
        self._forgeries = _Forgeries([*model.control_tokens, _OPEN, _CLOSE])
        self._control = frozenset(model.control_tokens.values())

    def build(self, messages: Sequence[Message]) -> Prompt:
        """The prompt for the next answer.

        Raises:
            TemplateError: The model's template cannot render the conversation.
            UsageError: It is longer than any context.
        """
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
        opened = text.rstrip().endswith(ReasoningSplitter.OPEN)
        return Prompt(tuple(tokens), opened)

    def _literally(self, text: str) -> list[int]:
        """The ids of a text as ordinary characters.

        llama.cpp makes some control tokens also when it is told not to (the "user-defined" ones); no part of such a
        text is long enough for that.
        """
        out: list[int] = []
        while self._control.intersection(tokens := self._model.tokenize(text, parse_special=False)):
            head, text = text[0], text[1:]
            out += (t for t in self._model.tokenize(head, parse_special=False) if t not in self._control)
        return out + tokens

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
