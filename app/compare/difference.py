"""Find the first different token of two answers, and check whether rounding explains it.

A batch of several tokens is computed in another order than a single token, so its logits differ slightly, in every
engine that verifies drafts in batches. If the two best tokens are closer than that, either may win. To distinguish this
from a fault, both sides are computed again with the tokens given: one by one, and in the batches of the drafted side.
The rejected tokens of those batches are unknown, but earlier positions cannot see them, so any token replaces them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.compare.race import Run, VerifyStep, hold
from app.core.errors import Interrupted
from app.engine.cache import common_prefix
from app.engine.interfaces import Cancelled, Logits
from app.engine.types import SamplingParams
from app.worker.request import AnswerRequest, LoadedPair, prompt_of

ROUNDING = 1.0
"""Largest logit difference that rounding explains: coarse quantizations change a logit by 0.2 between batch sizes; a
wrong cell in a cache changes some logit by several."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token at which two answers differ.

    Attributes:
        plain: The token without drafts; None if that answer had ended.
        drafted: The token with drafts; None if that answer had ended.
        width: Batch size in which `drafted` was chosen; 0 if unknown.
        alone: Logits of both tokens in single-token batches, if computed.
        batched: Logits of both tokens in the batches of the drafted answer.
        moved: Largest change of any logit between the two, if computed.
        p_alone: Probabilities of both tokens in single-token batches, before any sampler.
        p_batched: The same probabilities in the batches of the drafted answer.
    """

    index: int
    plain: int | None
    drafted: int | None
    plain_text: str
    drafted_text: str
    width: int
    alone: tuple[float, float] | None
    batched: tuple[float, float] | None
    moved: float | None
    near_tie: bool | None
    why: str
    p_alone: tuple[float, float] | None = None
    p_batched: tuple[float, float] | None = None

    @property
    def lines(self) -> list[str]:
        """Return the token that each side chose, the probabilities of both, and the explanation."""
        alone = batched = ""
        if self.p_alone is not None and self.p_batched is not None:
            alone = f" ({self.p_alone[0]:.2%} against {self.p_alone[1]:.2%})"
            batched = f" ({self.p_batched[1]:.2%} against {self.p_batched[0]:.2%})"
        plain, drafted = _shown(self.plain_text, self.plain), _shown(self.drafted_text, self.drafted)
        return [f"differs at token {self.index + 1}: {plain} without drafts{alone}, {drafted} with{batched}", self.why]

    def as_json(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "plain": {"token": self.plain, "text": self.plain_text},
            "drafted": {"token": self.drafted, "text": self.drafted_text},
            "batch_rows": self.width,
            "logits_alone": self.alone,
            "logits_batched": self.batched,
            "probabilities_alone": self.p_alone,
            "probabilities_batched": self.p_batched,
            "gap": abs(self.alone[0] - self.alone[1]) if self.alone is not None else None,
            "moved": self.moved,
            "near_tie": self.near_tie,
            "explanation": self.why,
        }


def _shown(text: str, token: int | None) -> str:
    if token is None:
        return "the end"
    return json.dumps(text, ensure_ascii=False).replace(" ", "·") if text else f"control token {token}"


def first_difference(plain: Run, drafted: Run) -> int | None:
    """Return the index of the first different token, if any."""
    same = common_prefix(plain.tokens, drafted.tokens)
    return None if same == len(plain.tokens) == len(drafted.tokens) else same


def explain(
    pair: LoadedPair, request: AnswerRequest, plain: Run, drafted: Run, cancelled: Cancelled
) -> Difference | None:
    """Find and explain the first difference of two answers to a request, if any.

    Both answers have the same sampler chain and seed. Uses the target's cache. Raises Interrupted.
    """
    index = first_difference(plain, drafted)
    if index is None:
        return None
    token, other = (run.tokens[index] if index < len(run.tokens) else None for run in (plain, drafted))
    texts = [pair.model.piece(t).decode("utf-8", errors="replace") if t is not None else "" for t in (token, other)]
    step = next((s for s in drafted.steps if s.first <= index < s.first + s.tokens), None)
    width = step.drafted + 1 if step is not None else 0
    if token is None or other is None:
        why = "one answer was stopped earlier; until then they are the same"
        return Difference(index, token, other, texts[0], texts[1], width, None, None, None, None, why)
    prompt = prompt_of(pair, request).tokens
    singly = replace(plain, steps=tuple(VerifyStep(i, 1, 0) for i in range(1, index + 1)))
    rows = [_replay(pair, prompt, run, index, cancelled) for run in (singly, drafted)]
    moved = float(np.abs(rows[0] - rows[1]).max())
    alone, batched = ((float(row[token]), float(row[other])) for row in rows)
    near, why = _judge(request.sampling, alone, moved, width)
    chances = [softmax(row) for row in rows]
    p_alone, p_batched = ((float(row[token]), float(row[other])) for row in chances)
    return Difference(
        index, token, other, texts[0], texts[1], width, alone, batched, moved, near, why, p_alone, p_batched
    )


def softmax(logits: Logits) -> Logits:
    """Return the probabilities of all tokens, before any sampler."""
    exponentials = np.exp(logits - logits.max(), dtype=np.float64)
    return exponentials / exponentials.sum()  # type: ignore[no-any-return]


def _judge(sampling: SamplingParams, alone: tuple[float, float], moved: float, width: int) -> tuple[bool, str]:
    """Return whether rounding explains a difference, and a sentence."""
    gap = abs(alone[0] - alone[1])
    sizes = "1 after larger batches, always 1 without drafts" if width == 1 else f"here {width}, without drafts 1"
    rounding = f"rounding depends on the batch size ({sizes})"
    if moved == 0 or moved > ROUNDING:
        return False, f"a real difference: the batch moved a logit by {moved:.3g}, more than rounding explains"
    if not sampling.is_greedy:
        cause = "the same random draw selected the other token" if sampling.temperature > 0 else "the penalties decided"
        return True, f"rounding difference: {rounding}, and {cause}"
    # Each logit may have moved by that much, towards the other.
    if gap <= 2 * moved:
        return True, f"rounding difference: the two tokens were nearly equally likely, and {rounding}"
    return False, (
        f"a real difference: the two are {gap:.3g} logits apart, and the batch moved a logit by at most {moved:.3g}"
    )


def _replay(pair: LoadedPair, prompt: Sequence[int], run: Run, index: int, cancelled: Cancelled) -> Logits:
    """Compute an answer again up to one token, in its batches; return a copy of the logits there."""
    # The batches of the cached prefix are unknown, so it stays in the cache.
    n_cached = run.stats.cache_n
    for _ in hold(pair.target, prompt[:n_cached], cancelled):
        pass
    for _ in pair.target.process(prompt[n_cached:], cancelled):
        pass
    # The first token follows from the prompt, without a verify step.
    if index == 0:
        return np.array(pair.target.logits(0))
    for step in run.steps:
        if cancelled():
            raise Interrupted
        n_before = _evaluate(pair, prompt, run, step)
        if index < step.first + step.tokens:
            return np.array(pair.target.logits(index - step.first))
        pair.target.rollback(n_before + step.tokens)
    raise AssertionError("the token was in none of the steps")


def _evaluate(pair: LoadedPair, prompt: Sequence[int], run: Run, step: VerifyStep) -> int:
    """Evaluate a step's batch: the last token, the accepted tokens, and replacements; return the cells before it."""
    *behind, last = [*prompt, *run.tokens[: step.first]][len(pair.target) :]
    for _ in pair.target.process(behind, lambda: False):
        pass
    known = run.tokens[step.first : step.first + step.tokens][: step.drafted]
    drafts = [*known, *[last] * (step.drafted - len(known))]
    pair.target.evaluate((last, *drafts), n_outputs=1 + step.drafted)
    return len(prompt) + step.first - 1
