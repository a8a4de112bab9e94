"""Upper bound of the speedup that drafts allow, with acceptance known in advance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.auto.cost_profile import MAX_BATCH, CostProfile, expand
from app.engine.cache import TokenCache, common_prefix
from app.engine.ngram import NgramIndex
from app.engine.probability import most_probable
from app.engine.types import MIN_MATCH


def cost_without_drafts(n_prompt: int, n_text: int, profile: CostProfile) -> float:
    """Return the time of an answer with no draft, in the profile's unit."""
    n, context = n_text - 1, context_costs(profile)
    return n * profile.batch_ns[1] + context[1] * sum(range(n_prompt, n_prompt + n))


def least_cost(n_prompt: int, matches: Sequence[int], looked_up: Sequence[int] | None, profile: CostProfile) -> float:
    """Return the least time of an answer with these drafts.

    F(end) = 0 and F(t) = min over m <= k(t) and n <= m + l(t + m) of m * draft + T~(n + 1) + F(t + n + 1), where k(t)
    is how far the draft model matches, l(t) how far n-gram drafting does, and T~ the cheapest batch at least as large.

    Args:
        n_prompt: Tokens of the prompt.
        matches: Per token of the answer but the first: correct tokens of the draft model in a row.
        looked_up: The same of n-gram drafting, for every token and the end; None without it.
        profile: Costs of the machine.
    """
    costs, context = expand(profile.batch_ns, MAX_BATCH), context_costs(profile)
    n_text = len(matches) + 1
    ngrams = looked_up if looked_up is not None else [0] * (n_text + 1)
    best = [0.0] * (n_text + 1)
    for t in range(n_text - 1, 0, -1):
        room = min(n_text - t - 1, profile.max_batch - 1)
        n_past = n_prompt + t - 1
        line = [cost + n_past * added for cost, added in zip(costs, context, strict=True)]
        # A batch can be padded to a larger, cheaper size.
        line = line[: profile.max_batch + 1]
        padded = [min(line[size:]) for size in range(len(line))]
        best[t] = min(
            m * profile.draft_ns + padded[n + 1] + best[t + n + 1]
            for m in range(min(matches[t - 1], room) + 1)
            for n in range(m, min(m + ngrams[t + m], room) + 1)
        )
    return best[1]


def context_costs(profile: CostProfile) -> list[float]:
    """Return the time that a cached token adds to a batch, by batch size."""
    return expand(profile.context_ns, MAX_BATCH) if profile.context_ns else [0.0] * (MAX_BATCH + 1)


def ngram_matches(prompt: Sequence[int], text: Sequence[int], min_match: int = MIN_MATCH) -> list[int]:
    """Return the correct tokens of an n-gram draft at every position of an answer and at its end."""
    index = NgramIndex(min_match)
    index.grow(prompt)
    out = [0] * (len(text) + 1)
    for position, token in enumerate(text):
        draft = index.continuation((), MAX_BATCH - 1).tokens
        out[position] = common_prefix(draft, text[position:])
        index.grow((token,))
    return out


def teacher_forced(
    draft: TokenCache, n_vocab: int, prompt: Sequence[int], text: Sequence[int], depth: int
) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Yield for every position of an answer but the first how many drafted tokens match, and their probabilities."""
    sequence = [*prompt, *text]
    draft.reuse(sequence)
    for place in range(len(prompt) + 1, len(sequence)):
        # The tokens drafted at the position before are not the text.
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
