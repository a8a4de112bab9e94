"""From a conversation to token ids, such that no message can forge a control token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.chat.message import Message
from app.engine.text import ReasoningSplitter
from app.llama.model import Model
from app.llama.template import ChatTemplate

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private-use characters around the number of a forged control text while the template is rendered."""


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
        forgeable = sorted(model.control_tokens, key=len, reverse=True)
        self._forged = re.compile("|".join(map(re.escape, forgeable)) or r"(?!)")

    def build(self, messages: Sequence[Message]) -> Prompt:
        """The prompt for the next answer.

        Raises:
            TemplateError: The model's template cannot render the conversation.
        """
        taken: list[str] = []

        def take(match: re.Match[str]) -> str:
            taken.append(match.group())
            return f"{_OPEN}{len(taken) - 1}{_CLOSE}"

        # A message's own private-use characters would be read as our marks.
        clean = [replace(m, content=re.sub(f"[{_OPEN}{_CLOSE}]", "\ufffd", m.content)) for m in messages]
        safe = [replace(m, content=self._forged.sub(take, m.content)) for m in clean]
        text = self._template.render(safe)
        tokens: list[int] = []
        for index, part in enumerate(re.split(f"{_OPEN}(\\d+){_CLOSE}", text)):
            literal = index % 2 == 1
            if literal or part:
                source = taken[int(part)] if literal else part
                tokens += self._model.tokenize(source, parse_special=not literal)
        if self._model.add_bos and self._model.bos is not None and tokens[:1] != [self._model.bos]:
            tokens.insert(0, self._model.bos)
        opened = text.rstrip().endswith(ReasoningSplitter.OPEN)
        return Prompt(tuple(tokens), opened)

    def _text(self, token: int | None) -> str:
        return "" if token is None else self._model.text_of(token)
