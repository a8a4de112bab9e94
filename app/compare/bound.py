"""Upper bound of the speedup that the drafts of a pair allow."""

from __future__ import annotations

from collections.abc import Collection

from app.compare.race import Round
from app.compare.replay import Curve, Trace, oracle_cost, plain_cost, teacher_forced
from app.compare.suite import Prompt
from app.core.errors import DecodeError, Interrupted
from app.engine.interfaces import Cancelled
from app.engine.types import MIN_MATCH
from app.worker.request import LoadedPair

DEPTH = 12
"""Drafted tokens that the oracle may look ahead."""
_TRUST = 1.5
"""A curve that is wrong about a plain token by more than this factor is not reckoned with: it was measured while
something else kept the machine busy."""


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
    same cost curve; see `app.compare.replay.oracle_cost`.

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
