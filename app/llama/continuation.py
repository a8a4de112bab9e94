"""The tokens of an answer that goes on: those of the cache as far as they spell it, and new ones for the rest.

A text can be spelled with other tokens than the model chose, and a model goes on best from its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.chat.message import Begun
from app.engine.text import TextStream
from app.engine.types import Origin


@dataclass(frozen=True, slots=True)
class Spelled:
    """How much of an answer some tokens are.

    Attributes:
        n_tokens: How many of them belong to it.
        rest: What they leave of it.
        thinking: Whether they end inside the model's thinking.
    """

    n_tokens: int
    rest: Begun
    thinking: bool


def spelled(tokens: Sequence[int], piece: Callable[[int], bytes], begun: Begun, *, thinking: bool) -> Spelled:
    """How many tokens of a cache, from where the answer begins, show the beginning of the answer and nothing else.

    Args:
        tokens: What the cache holds behind the prompt.
        piece: The bytes that a token shows as; empty for control tokens.
        begun: The answer.
        thinking: Whether the prompt ends inside the model's thinking.
    """
    stream = TextStream(reasoning_opened=thinking)
    found = Spelled(0, begun, thinking)
    text = thought = ""
    for n, token in enumerate(tokens, 1):
        shown = piece(token)
        if not shown:
            break
        for segment in stream.push(shown, Origin.TARGET):
            if segment.reasoning:
                thought += segment.text
            else:
                text = (text + segment.text).lstrip()
        if stream.holds:
            continue
        whole = thought.rstrip() == begun.reasoning.rstrip()
        if not (whole or (stream.reasoning and begun.reasoning.startswith(thought))):
            break
        if not begun.text.startswith(text):
            break
        rest = Begun(begun.text[len(text) :], "" if whole else begun.reasoning[len(thought) :])
        found = Spelled(n, rest, stream.reasoning)
    return found
