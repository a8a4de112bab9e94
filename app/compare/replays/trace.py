"""Traces: an answer together with what the draft model would have said at every place of it.

A trace holds all that a drafting policy can learn or gain from a text, so any policy can be tried on it without a
model; `app.compare.replays.replay` does. Confidences are those of `app.engine.probability`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.engine.cache import TokenCache, common_prefix
from app.engine.probability import most_probable

FORMAT = 1
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Trace:
    """One answer of a target model, and a draft model's view of it.

    Attributes:
        name: What was asked for, in a word or two.
        kind: Kind of text: code, edit, prose, chat, extraction, reasoning.
        prompt: Token ids before the answer.
        text: Token ids of the answer.
        matches: Per place of the answer: how many greedy draft tokens in a row equal the answer from there.
        confidences: Per place: the draft's probability of each of its tokens, matching or not.
        has_end: Whether its last token is one that ends an answer, so that nobody knew before how long it would be.
    """

    name: str
    kind: str
    prompt: tuple[int, ...]
    text: tuple[int, ...]
    matches: tuple[int, ...]
    confidences: tuple[tuple[float, ...], ...]
    has_end: bool = False

    def is_end(self, token: int) -> bool:
        """Whether a token ends the answer, as far as it tells."""
        return self.has_end and token == self.text[-1]

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "kind": self.kind,
            "prompt": self.prompt,
            "text": self.text,
            "matches": self.matches,
            "confidences": [[round(q, _DIGITS) for q in row] for row in self.confidences],
            "has_end": self.has_end,
        }


def teacher_forced(
    draft: TokenCache, n_vocab: int, prompt: Sequence[int], text: Sequence[int], depth: int
) -> Iterator[tuple[int, tuple[float, ...]]]:
    """What a draft model says at every place of an answer that is already known.

    Args:
        draft: The draft model's cache.
        n_vocab: Ids that draft and target share.
        prompt: Token ids before the answer.
        text: The answer.
        depth: How far to draft at each place; less where the draft model's context ends before.

    Yields:
        Per place of `text` but the first: how many drafted tokens equal the answer, and each one's probability.
    """
    sequence = [*prompt, *text]
    draft.reuse(sequence)
    for place in range(len(prompt) + 1, len(sequence)):
        # What was drafted at the place before is not the text; its own last token is evaluated for its logits.
        draft.rollback(min(len(draft), place - 1))
        for _ in draft.process(sequence[len(draft) : place], cancelled=lambda: False):
            pass
        # The last drafted token is never evaluated, so it needs no cell.
        reach = min(depth, draft.n_ctx - place + 1)
        drafted: list[int] = []
        confidences: list[float] = []
        while True:
            token, probability = most_probable(draft.logits(0)[:n_vocab])
            drafted.append(token)
            confidences.append(probability)
            if len(drafted) == reach:
                break
            draft.evaluate((token,), n_outputs=1)
        yield common_prefix(drafted, sequence[place : place + depth]), tuple(confidences)
