"""Compare draft models of one target on text written by the target: acceptance, KL divergence and expected speedup.

The target answers greedily once and its logits are saved. Every draft then predicts the same answers, so all drafts
are judged on the same tokens.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.compare.difference import softmax
from app.conversations.message import Message, Role
from app.core.errors import Interrupted, UsageError
from app.engine.auto.curve import CostModel
from app.engine.auto.rule import best_length, impossibility
from app.engine.cache import TokenCache
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Cancelled, Logits, Verdict
from app.engine.types import MAX_DRAFT
from app.worker.request import LoadedPair

MIN_GAIN = 1.02
"""Speedups up to this value may be noise."""
_MIN_PROBABILITY = 1e-12
"""Lower bound of a draft model's probabilities; a zero would make the divergence infinite."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A greedy answer of the target, with its logits before each token."""

    prompt: Sequence[int]
    answer: Sequence[int]
    logits: Sequence[Logits]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a draft with the target on the samples.

    Attributes:
        acceptance: Share of the target's tokens that the draft ranks first.
        divergence: Mean KL divergence of the draft from the target in nats, at temperature 1; None if the draft scores
            only a few candidates.
    """

    acceptance: float
    divergence: float | None


def write_samples(
    pair: LoadedPair, texts: Sequence[str], n_tokens: int, cancelled: Cancelled
) -> Generator[float, None, list[Sample]]:
    """Let the target answer every prompt with up to `n_tokens` tokens; yield the completed share.

    Raises:
        Interrupted: Canceled.
        UsageError: No prompt fits the context.
    """
    samples = []
    for done, text in enumerate(texts):
        prompt = pair.prompts.build((Message(Role.USER, text),)).tokens
        room = min(n_tokens, pair.target.n_ctx - len(prompt))
        if room <= 0:
            continue
        pair.target.rollback(0)
        for _ in pair.target.process(prompt, cancelled):
            yield done / len(texts)
        answer: list[int] = []
        rows: list[Logits] = []
        while True:
            rows.append(np.array(pair.target.logits(0)))
            answer.append(int(rows[-1].argmax()))
            if len(answer) == room or pair.model.is_end(answer[-1]):
                break
            if cancelled():
                raise Interrupted
            pair.target.evaluate(answer[-1:], n_outputs=1)
            yield (done + len(answer) / room) / len(texts)
        samples.append(Sample(prompt, answer, rows))
    if not samples:
        raise UsageError("The context is too short for the sample prompts.", "Use a longer one (⟨model.ctx⟩).")
    return samples


def agreement(
    drafter: DraftSource, target: TokenCache, samples: Sequence[Sample], cancelled: Cancelled
) -> Generator[float, None, Agreement]:
    """Let a draft predict every token of the samples; yield the completed share. Raises Interrupted.

    Draft layers need the target's hidden rows, so the target evaluates the samples again.
    """
    follows = drafter.cache is None
    n_agreed = n_done = 0
    rows: list[Logits] = []

    def keep_row(depth: int, probability: float) -> Verdict:
        if (own := drafter.logits) is not None:
            rows.append(np.array(own))
        return Verdict.LAST

    n_tokens, divergences = sum(len(sample.answer) for sample in samples), list[float]()
    for sample in samples:
        tokens = list(sample.prompt)
        if follows:
            target.rollback(0)
            for _ in target.process(tokens[:-1], cancelled):
                yield n_done / n_tokens
        for _ in drafter.begin(tokens, cancelled):
            yield n_done / n_tokens
        for token, row in zip(sample.answer, sample.logits, strict=True):
            rows.clear()
            n_agreed += drafter.draft(tokens, 1, keep_row).tokens == (token,)
            for own in rows:
                n_shared = min(len(row), len(own))
                divergences.append(divergence(row[:n_shared], own[:n_shared]))
            drafter.accept((token,), 0)
            if follows:
                target.evaluate(tokens[-1:], n_outputs=1)
            tokens.append(token)
            n_done += 1
            if cancelled():
                raise Interrupted
            yield n_done / n_tokens
    return Agreement(n_agreed / n_tokens, sum(divergences) / len(divergences) if divergences else None)


def divergence(target: Logits, draft: Logits) -> float:
    """Return the KL divergence of the draft's distribution from the target's, in nats."""
    p, q = softmax(target), np.maximum(softmax(draft), _MIN_PROBABILITY)
    likely = p > 0
    return float((p[likely] * np.log(p[likely] / q[likely])).sum())


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected gain of automatic drafting with a draft.

    Attributes:
        speedup: 1 if automatic drafting would not draft.
        length: Best constant draft length; 0 if automatic drafting would not draft.
    """

    draft_ns: float
    speedup: float
    length: int


def expected(target: CostModel, measured: CostModel, acceptance: float, longest: int = MAX_DRAFT) -> Expected:
    """Return the gain of the best draft length at this acceptance.

    Args:
        target: A single cost curve for all drafts, so that its noise does not choose the winner.
        measured: Measurement with this draft; only its costs relative to a single target token are used.
    """
    profile, own = target.profile, measured.profile
    ratio = profile.batch_ns[1] / own.batch_ns[1]
    draft_ns, start_ns = ratio * own.draft_ns, ratio * own.draft_start_ns
    costs = CostModel(replace(profile, draft_ns=draft_ns, draft_start_ns=start_ns))
    n_max = min(longest, profile.max_batch - 1)
    speedup, length, _ = best_length(costs, 0, n_max, draft_ns, acceptance)
    if speedup <= 1 or impossibility(costs, 0, n_max):
        return Expected(draft_ns + start_ns, 1.0, 0)
    return Expected(draft_ns + start_ns, speedup, length)
