"""Upper bound of the speedup that the drafts of a pair allow, acceptance known in advance.

A `Trace` is an answer with what the draft model proposes at each place of it; a `Curve` is a machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.compare.race import Round
from app.compare.suite import Prompt
from app.core.errors import DecodeError, Interrupted
from app.engine.auto.curve import MAX_ROWS, CostProfile
from app.engine.auto.interpolation import envelope, expand
from app.engine.cache import TokenCache, common_prefix
from app.engine.drafters.ngram import NgramIndex
from app.engine.interfaces import Cancelled
from app.engine.probability import most_probable
from app.engine.types import MIN_MATCH
from app.worker.request import LoadedPair

FORMAT = 1
_DIGITS = 3
DEPTH = 12
"""Drafted tokens that the oracle may look ahead."""
_TRUST = 1.5
"""A curve that is wrong about a plain token by more than this factor is not estimated with: it was measured while
something else kept the machine busy."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A machine as a replay sees it.

    Attributes:
        name: Machine and models.
        rows: Cost of a target batch by width, any unit.
        draft: Cost of one drafted token.
        cells: Cost that a token in the cache adds to a batch, at every one of `CONTEXT_WIDTHS`; none if empty.
        reading: Cost of a prompt token for the draft model; 0 for one that has read the prompt.
        widest: Rows of the widest batch that may be run; see `CostProfile`.
    """

    name: str
    rows: dict[int, float]
    draft: float
    cells: dict[int, float] = field(default_factory=dict)
    reading: float = 0.0
    widest: int = MAX_ROWS

    @classmethod
    def of(cls, profile: CostProfile) -> Curve:
        """The machine as it was measured."""
        return cls("measured", dict(profile.rows), profile.draft_ns, cells=dict(profile.cells), widest=profile.widest)

    def profile(self) -> CostProfile:
        """Return what a first calibration of the machine would find; a copy, which may be learned into."""
        cells = dict(self.cells)
        return CostProfile(dict(self.rows), self.draft, draft_prompt_ns=self.reading, cells=cells, widest=self.widest)

    def costs(self) -> list[float]:
        """Cost of every width up to `MAX_ROWS`; index 0 is unused."""
        return expand(self.rows, MAX_ROWS)

    def cell_costs(self) -> list[float]:
        """Return what a cached token adds to every width up to `MAX_ROWS`; index 0 is unused."""
        return expand(self.cells, MAX_ROWS) if self.cells else [0.0] * (MAX_ROWS + 1)


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
        has_end: Whether its last token is one that ends an answer, so that no one knew before how long it would be.
    """

    name: str
    kind: str
    prompt: tuple[int, ...]
    text: tuple[int, ...]
    matches: tuple[int, ...]
    confidences: tuple[tuple[float, ...], ...]
    has_end: bool = False

    def is_end(self, token: int) -> bool:
        """Return whether a token ends the answer, as far as it tells."""
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


def upper_bound(
    pair: LoadedPair,
    prompt: Prompt,
    round_: Round,
    cancelled: Cancelled,
    sources: Collection[str],
    min_match: int = MIN_MATCH,
) -> float | None:
    """Return the speedup of an answer if the acceptance of these drafts were known in advance.

    The draft model follows the first contender's answer. The times with the best drafts and without any come from the
    same cost curve; see `oracle_cost`.

    Args:
        pair: The pair with its costs and draft model.
        prompt: The prompt.
        round_: The answers.
        cancelled: Ends it.
        sources: Sources of drafts.
        min_match: Shortest n-gram match, in tokens.

    Returns:
        None for an answer of one token, for unknown or wrong costs, and after a cancel.
    """
    plain = next(iter(round_.values()))
    if pair.memory is None or plain.ns_per_token is None or not plain.tokens:
        return None
    told = pair.memory.costs.target_ns(1, len(plain.prompt)) / plain.ns_per_token
    if not 1 / _TRUST <= told <= _TRUST:
        return None
    matches: tuple[int, ...] = (0,) * (len(plain.tokens) - 1)
    confidences: tuple[tuple[float, ...], ...] = ((),) * (len(plain.tokens) - 1)
    if "model" in sources and pair.drafter is not None and pair.info.draft is not None:
        n_vocab = min(pair.info.target.n_vocab, pair.info.draft.n_vocab)
        views = []
        try:
            for view in teacher_forced(pair.drafter.cache, n_vocab, plain.prompt, plain.tokens, DEPTH):
                if cancelled():
                    return None
                views.append(view)
        except (Interrupted, DecodeError):
            # A failing draft model must not end the race.
            return None
        matches, confidences = tuple(m for m, _ in views), tuple(q for _, q in views)
    trace = Trace(prompt.name, prompt.kind, plain.prompt, plain.tokens, matches, confidences)
    curve = Curve.of(pair.memory.costs.snapshot())
    lookup = "ngram" in sources
    return plain_cost(trace, curve) / oracle_cost(trace, curve, lookup=lookup, min_match=min_match)


def plain_cost(trace: Trace, curve: Curve) -> float:
    """Return what the answer takes without drafting."""
    n, single = len(trace.text) - 1, curve.costs()[1]
    return n * single + curve.cell_costs()[1] * sum(range(len(trace.prompt), len(trace.prompt) + n))


def oracle_cost(trace: Trace, curve: Curve, *, lookup: bool = False, min_match: int = MIN_MATCH) -> float:
    """The least cost of the answer with these draft sources, acceptance known in advance.

    F(end) = 0 and F(t) = min over m <= k(t) and n <= m + l(t + m) of m * draft + T~(n + 1) + F(t + n + 1),
    where k(t) is how far the draft model matches, l(t) how far n-gram drafting does, and T~ the cheapest batch at least
    as large. It bounds no other draft model, no tree and no overlap of drafting with verifying.

    Args:
        trace: The answer.
        curve: The machine.
        lookup: Let n-gram drafting, which costs nothing, take part.
        min_match: Tokens that must agree for it.
    """
    costs, cells = curve.costs(), curve.cell_costs()
    n_text = len(trace.text)
    looked = _ngram_matches(trace, min_match) if lookup else [0] * (n_text + 1)
    best = [0.0] * (n_text + 1)
    for t in range(n_text - 1, 0, -1):
        room = min(n_text - t - 1, curve.widest - 1)
        n_past = len(trace.prompt) + t - 1
        line = [cost + n_past * cell for cost, cell in zip(costs, cells, strict=True)]
        padded = envelope(line[: curve.widest + 1])
        best[t] = min(
            m * curve.draft + padded[n + 1] + best[t + n + 1]
            for m in range(min(trace.matches[t - 1], room) + 1)
            for n in range(m, min(m + looked[t + m], room) + 1)
        )
    return best[1]


def _ngram_matches(trace: Trace, min_match: int) -> list[int]:
    """Return how far n-gram drafting is right at every place of the answer."""
    index = NgramIndex(min_match)
    index.grow(trace.prompt)
    out = [0] * (len(trace.text) + 1)
    for place, token in enumerate(trace.text):
        said = index.continuation((), MAX_ROWS - 1).tokens
        out[place] = common_prefix(said, trace.text[place:])
        index.grow((token,))
    return out


def teacher_forced(
    draft: TokenCache, n_vocab: int, prompt: Sequence[int], text: Sequence[int], depth: int
) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Return what a draft model says at every place of an answer that is already known.

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
