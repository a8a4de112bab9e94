"""Find the first different token of two answers, and whether rounding explains it.

A batch of several tokens is computed in another order than a single token, so its logits differ a little, in each
engine that verifies drafts in batches. If the two best tokens are closer than that, either may win. To tell this from a
fault, both sides are computed again with the tokens given: one by one, and in the batches of the drafted side. The
rejected tokens of those batches are unknown, but earlier positions cannot see them, so any token replaces them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.compare.race import Run, VerifyStep
from app.compare.tap import hold
from app.core.errors import Interrupted
from app.engine.cache import common_prefix
from app.engine.interfaces import Cancelled, Logits
from app.engine.types import SamplingParams
from app.worker.request import LoadedPair, SeededSampler

ROUNDING = 1.0
"""Logits. Coarse quantizations have been seen to move one by 0.2 between widths; a wrong cell in a cache moves the
largest mover by several."""
_DECIDED = {
    True: "the same random draw fell on the other token",
    False: "the penalties decided",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token at which two answers differ.

    Attributes:
        index: Which token of the answer, from 0.
        plain: The token of the first answer; None if that one had ended.
        drafted: The token of the second; None the same.
        plain_text: What it shows as.
        drafted_text: What that shows as.
        width: Rows of the batch in which the second answer's token was chosen; 0 where it cannot be told.
        alone: Logits of both tokens from single rows, first answer's token first; None if not computed.
        batched: The same from the batch.
        moved: The largest change of any logit of the row between the two; None if not computed.
        near_tie: Whether rounding explains it; None if not computed.
        why: One sentence for people.
        p_alone: What the model gives both tokens by single rows, before any sampler; None if not computed.
        p_batched: The same from the batch.
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
    def gap(self) -> float | None:
        """Return how far apart both tokens are by single rows, in logits."""
        return abs(self.alone[0] - self.alone[1]) if self.alone is not None else None

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
            "gap": self.gap,
            "moved": self.moved,
            "near_tie": self.near_tie,
            "explanation": self.why,
        }


def first_difference(plain: Run, drafted: Run) -> int | None:
    """Index of the first token at which two answers differ; None if they are the same."""
    same = common_prefix(plain.tokens, drafted.tokens)
    return None if same == len(plain.tokens) == len(drafted.tokens) else same


def explain(
    pair: LoadedPair, plain: Run, drafted: Run, sampling: SamplingParams, cancelled: Cancelled
) -> Difference | None:
    """Find and explain the first difference; None if there is none. Uses both caches.

    Args:
        pair: The pair that gave both answers.
        plain: The answer without drafts.
        drafted: The answer with.
        sampling: The sampler chain of both, with its seed.
        cancelled: Stops in the middle.

    Raises:
        Interrupted: Cancelled.
    """
    index = first_difference(plain, drafted)
    if index is None:
        return None
    tokens = (_at(plain.tokens, index), _at(drafted.tokens, index))
    texts = [pair.piece(t).decode("utf-8", errors="replace") if t is not None else "" for t in tokens]
    step = next((s for s in drafted.steps if s.first <= index < s.first + s.tokens), None)
    width = step.drafted + 1 if step is not None else 0
    if tokens[0] is None or tokens[1] is None:
        why = "one answer was stopped earlier; up to there they are the same"
        return Difference(index, *tokens, texts[0], texts[1], width, None, None, None, None, why)
    singly = [VerifyStep(i, 1, 0, 0, 0) for i in range(1, index + 1)]
    alone, first = _replay(pair, plain, singly, index, sampling, cancelled)
    batched, second = _replay(pair, drafted, drafted.steps, index, sampling, cancelled)
    moved = float(np.abs(alone - batched).max())
    pair_alone = (float(alone[tokens[0]]), float(alone[tokens[1]]))
    pair_batched = (float(batched[tokens[0]]), float(batched[tokens[1]]))
    near, why = _judge(sampling, pair_alone, moved, width, reproduced=(first, second) == tokens)
    return Difference(
        index,
        *tokens,
        texts[0],
        texts[1],
        width,
        pair_alone,
        pair_batched,
        moved,
        near,
        why,
        _probabilities(alone, pair_alone),
        _probabilities(batched, pair_batched),
    )


def _at(tokens: Sequence[int], index: int) -> int | None:
    return tokens[index] if index < len(tokens) else None


def _probabilities(row: Logits, of: tuple[float, float]) -> tuple[float, float]:
    """The softmax of a row at two of its logits."""
    highest = float(row.max())
    total = float(np.exp(row - highest, dtype=np.float64).sum())
    return float(np.exp(of[0] - highest)) / total, float(np.exp(of[1] - highest)) / total


def _judge(
    sampling: SamplingParams, alone: tuple[float, float], moved: float, width: int, *, reproduced: bool
) -> tuple[bool, str]:
    """Return whether rounding explains a difference, in a sentence."""
    gap = abs(alone[0] - alone[1])
    rounding = f"rounding depends on the batch size ({_at_once(width)})"
    if moved > ROUNDING:
        return False, (f"a real difference: the batch moved a logit by {_number(moved)}, far more than rounding does")
    if not sampling.is_greedy:
        if reproduced:
            return True, f"rounding difference: {rounding}, and {_DECIDED[sampling.temperature > 0]}"
        return False, "a real difference: computed again, the sampler gives other tokens"
    # Each of the two may have moved by that much, towards the other.
    if gap <= 2 * moved:
        return True, f"rounding difference: the two tokens were nearly equally likely, and {rounding}"
    return False, (
        f"a real difference: the two are {_number(gap)} logits apart, and the batch moved a logit by at most "
        f"{_number(moved)}"
    )


def _at_once(width: int) -> str:
    """Return the batch size at the different token, with and without drafts."""
    if width == 1:
        return "1 after larger ones, always 1 without drafts"
    return f"here {width}, without drafts 1"


def _replay(
    pair: LoadedPair,
    run: Run,
    steps: Sequence[VerifyStep],
    index: int,
    sampling: SamplingParams,
    cancelled: Cancelled,
) -> tuple[Logits, int]:
    """Compute an answer again up to one token, in given batches; the row that chose the token, and the choice now."""
    # What the run found in the cache was computed in batches that no one knows any more, so it stays where it is.
    found = run.stats.cache_n
    for _ in hold(pair.target, run.prompt[:found], cancelled):
        pass
    sampler = pair.new_sampler(sampling)
    try:
        sampler.begin(run.prompt)
        for _ in pair.target.process(run.prompt[found:], cancelled):
            pass
        # The first token comes out of the prompt, not out of a verify round.
        if index == 0:
            return np.array(pair.target.logits(0)), sampler.sample(0)
        sampler.sample(0)
        for step in steps:
            if cancelled():
                raise Interrupted
            row = _again(pair, run, step)
            if index < step.first + step.tokens:
                return _choose(pair, sampler, index - step.first)
            for emitted in range(step.tokens):
                sampler.sample(emitted)
            pair.target.rollback(row + step.tokens)
        raise AssertionError("the token was in none of the rounds")
    finally:
        sampler.close()


def _again(pair: LoadedPair, run: Run, step: VerifyStep) -> int:
    """Evaluate a round's batch: the last token, what was accepted, and stand-ins; the cells held before."""
    held = len(run.prompt) + step.first - 1
    *behind, last = [*run.prompt, *run.tokens[: step.first]][len(pair.target) :]
    for _ in pair.target.process(behind, lambda: False):
        pass
    known = run.tokens[step.first : step.first + step.tokens][: step.drafted]
    drafts = [*known, *[last] * (step.drafted - len(known))]
    pair.target.evaluate((last, *drafts), n_outputs=1 + step.drafted)
    return held


def _choose(pair: LoadedPair, sampler: SeededSampler, row: int) -> tuple[Logits, int]:
    for before in range(row):
        sampler.sample(before)
    # A copy, because the row is the library's own memory.
    return np.array(pair.target.logits(row)), sampler.sample(row)


def _number(value: float) -> str:
    return f"{value:.3g}"


_MOST_DECIMALS = 4
_SPACE = "·"


def difference_lines(difference: Difference | None, run: Run) -> list[str]:
    """Return whether an answer is that of decoding without drafts, and if not, where and why.

    Args:
        difference: What `app.compare.difference.explain` found.
        run: The answer with drafts.
    """
    if difference is not None:
        return parting_lines(difference)
    n = len(run.tokens)
    return [f"identical output, {n} token{'s' if n != 1 else ''}"]


def parting_lines(difference: Difference) -> list[str]:
    """Which token each side chose, how probable the model found it against the other one, and why they differ."""
    d = difference
    plain, drafted = _token(d.plain_text, d.plain), _token(d.drafted_text, d.drafted)
    alone = batched = ""
    if d.p_alone is not None and d.p_batched is not None:
        decimals = max(_decimals(d.p_alone), _decimals(d.p_batched))
        alone = f" ({d.p_alone[0]:.{decimals}%} against {d.p_alone[1]:.{decimals}%})"
        batched = f" ({d.p_batched[1]:.{decimals}%} against {d.p_batched[0]:.{decimals}%})"
    return [f"differs at token {d.index + 1}: {plain} without drafts{alone}, {drafted} with{batched}", d.why]


def _decimals(both: tuple[float, float]) -> int:
    """So many that tell two probabilities apart, if a few do."""
    few = (n for n in range(1, _MOST_DECIMALS) if f"{both[0]:.{n}%}" != f"{both[1]:.{n}%}")
    return next(few, _MOST_DECIMALS)


def _token(text: str, token: int | None) -> str:
    if token is None:
        return "the end"
    # The space that most tokens begin with is seen, and no line is broken there.
    return json.dumps(text, ensure_ascii=False).replace(" ", _SPACE) if text else f"control token {token}"
