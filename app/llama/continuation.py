"""The tokens of an answer that goes on: those of the cache as far as they spell it, and new ones for the rest.

A text can be spelled with other tokens than the model chose, and a model goes on best from its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.conversations.message import Begun
from app.engine.text.reasoning import Place, ReasoningMarkup
from app.engine.text.stream import TextStream
from app.engine.types import Origin


@dataclass(frozen=True, slots=True)
class Spelled:
    """How much of an answer some tokens are.

    Attributes:
        n_tokens: How many of them belong to it.
        rest: What they leave of it.
        place: Where in the answer they end.
        marked: Whether the last mark in front of that begins the answer.
    """

    n_tokens: int
    rest: Begun
    place: Place
    marked: bool = False


def spelled(
    tokens: Sequence[int],
    piece: Callable[[int], bytes],
    begun: Begun,
    *,
    markup: ReasoningMarkup,
    place: Place,
    marked: bool = False,
) -> Spelled:
    """How many tokens of a cache, from where the answer begins, show the beginning of the answer and nothing else.

    Args:
        tokens: What the cache holds behind the prompt.
        piece: The bytes that a token shows as; empty for control tokens.
        begun: The answer.
        markup: What the model writes around its thinking.
        place: Where the prompt ends.
        marked: Whether the last mark in it begins the answer.
    """
    stream = TextStream(markup=markup, place=place, marked=marked)
    found = Spelled(0, begun, place, marked)
    text = thought = ""
    for n, token in enumerate(tokens, 1):
        shown = piece(token)
        if not shown and token not in markup.marks:
            break
        for segment in stream.push(shown, Origin.TARGET, token):
            if segment.reasoning:
                thought += segment.text
            else:
                text = (text + segment.text).lstrip()
        if stream.holds:
            continue
        whole = thought.rstrip() == begun.reasoning.rstrip()
        if not (whole or (stream.place is Place.THINKING and begun.reasoning.startswith(thought))):
            break
        if not begun.text.startswith(text):
            break
        rest = Begun(begun.text[len(text) :], "" if whole else begun.reasoning[len(thought) :])
        found = Spelled(n, rest, stream.place, stream.marked)
    return found
