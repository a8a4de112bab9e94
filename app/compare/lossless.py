"""Check that drafts change nothing: greedy answers token by token, sampled ones by their distribution.

The sampled test draws many short answers with and without drafts, each with its own seed, and tests by chi-square
whether both come from one distribution.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Hashable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.compare.difference import Difference, explain
from app.compare.race import RunEnded, Steps, in_process, race
from app.compare.recorder import Recorder
from app.compare.sides import PLAIN, Side
from app.compare.suite import Prompt
from app.core.errors import Interrupted
from app.core.printable import printable
from app.engine.interfaces import Cancelled, Controls
from app.engine.types import Drafting, DraftParams, FinishReason, SamplingParams
from app.worker.events import Finished
from app.worker.request import AnswerRequest, LoadedPair
from app.worker.responder import answer

EVERYTHING = DraftParams(n_max=7, p_min=0.0)
"""Parameters that also submit wrong drafts, where a fault would show."""
_FIRST_TOKENS = 3
"""Tokens of a sampled answer; the first comes out of the prompt."""
_SIGNIFICANT = 0.001
"""A test that is run often must not fail by chance once in twenty times."""
_FEWEST = 5.0
"""Expected counts below this make chi-square a poor fit (Cochran's rule)."""


@dataclass(frozen=True, slots=True)
class GreedyCheck:
    """One greedy answer against the one without drafts.

    Attributes:
        compared: Compared tokens, up to and with the first difference.
        drafted: Submitted draft tokens among them; 0 means that nothing was tested.
        difference: The first difference, or None.
    """

    prompt: str
    contender: str
    compared: int
    drafted: int
    difference: Difference | None

    @property
    def holds(self) -> bool:
        """Return whether the text is the same, or rounding explains the difference."""
        return self.difference is None or self.difference.near_tie is not False

    def as_json(self) -> dict[str, Any]:
        difference = self.difference.as_json() if self.difference is not None else None
        return {**asdict(self), "holds": self.holds, "difference": difference}


@dataclass(frozen=True, slots=True)
class SampledCheck:
    """The first tokens of sampled answers, with and without drafts.

    Attributes:
        answers: Answers of each side.
        drafted: Submitted draft tokens; 0 means that nothing was tested.
        degrees_of_freedom: 0 if all answers were the same.
        p: Probability of a statistic at least as large if both distributions are the same.
    """

    contender: str
    answers: int
    drafted: int
    chi_square: float
    degrees_of_freedom: int
    p: float

    @property
    def holds(self) -> bool:
        return self.p >= _SIGNIFICANT

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


@dataclass(slots=True)
class Checks:
    """All checks of a pair that were completed."""

    greedy: list[GreedyCheck] = field(default_factory=list)
    sampled: list[SampledCheck] = field(default_factory=list)

    @property
    def hold(self) -> bool | None:
        """Return whether drafting changed nothing; None if nothing was drafted."""
        done: list[GreedyCheck | SampledCheck] = [*self.greedy, *self.sampled]
        return all(check.holds for check in done) if any(check.drafted for check in done) else None

    @property
    def statement(self) -> str:
        """The result in one sentence."""
        if self.hold is None:
            return "Nothing was drafted, so nothing was tested."
        broken = sum(not check.holds for check in self.greedy)
        if not self.hold:
            answers = "1 greedy answer differs" if broken == 1 else f"{broken} greedy answers differ"
            parts = [f"{answers} more than rounding explains"] if broken else []
            if not all(check.holds for check in self.sampled):
                parts.append("the sampled tokens have another distribution")
            return f"Not lossless here: {' and '.join(parts)}. Please report this."
        ties = sum(check.difference is not None and check.difference.near_tie is True for check in self.greedy)
        text = f"Lossless as far as was tested: {sum(check.compared for check in self.greedy):,} greedy tokens compared"
        text += f", {ties} near-tie{'s' if ties != 1 else ''} that rounding decided" if ties else ", all identical"
        tested = [check for check in self.sampled if check.drafted]
        if known := [check.p for check in tested if check.degrees_of_freedom]:
            text += f"; sampled tokens differ no more than chance allows (p = {min(known):.2g})"
        elif tested:
            text += "; the sampled answers are too few or too much alike for a test"
        return text + "."

    @property
    def lines(self) -> list[str]:
        """Every check in a few lines."""
        lines = []
        for check in self.greedy:
            result = "identical" if check.difference is None else "a difference"
            lines.append(
                f"{check.prompt}, {check.contender}: {check.compared} tokens, {check.drafted} drafted, {result}"
            )
            if check.difference is not None:
                lines += [f"  {line}" for line in check.difference.lines]
        for test in self.sampled:
            lines.append(
                f"{test.answers} sampled answers each, {test.contender}: chi-square {test.chi_square:.1f}, "
                f"{test.degrees_of_freedom} degrees of freedom, p = {test.p:.2g}, {test.drafted} tokens drafted"
            )
        return [printable(line) for line in lines]

    def as_json(self) -> dict[str, Any]:
        return {
            "greedy": [check.as_json() for check in self.greedy],
            "sampled": [test.as_json() for test in self.sampled],
            "lossless": self.hold,
            "statement": self.statement,
        }


def check(
    pair: LoadedPair,
    checks: Checks,
    prompts: Sequence[Prompt],
    request: AnswerRequest,
    sides: Sequence[Side],
    samples: int,
    cancelled: Cancelled,
) -> Generator[str, None, None]:
    """Compare greedy answers to every prompt, then sampled ones to the first; yields the current activity.

    Args:
        pair: The pair to check.
        checks: Filled step by step, so that a stop leaves what was found.
        prompts: At least one.
        request: How to answer; a temperature of 0 takes llama.cpp's defaults for sampling.
        sides: Ways of drafting; the first one is also sampled with.
        samples: Sampled answers of each side.
        cancelled: Stops in the middle.

    Raises:
        Interrupted: Cancelled.
        AppError: The target failed.
    """
    for prompt in prompts:
        checks.greedy += yield from check_greedy(pair, str(prompt), prompt.put_to(request), sides, cancelled)
    drawn = request.sampling if request.sampling.temperature > 0 else SamplingParams()
    first, asked = sides[0], replace(prompts[0].put_to(request), sampling=drawn)
    checks.sampled.append((yield from check_sampled(pair, asked, first.name, first.drafting, samples, cancelled)))


def check_greedy(
    pair: LoadedPair, name: str, request: AnswerRequest, sides: Sequence[Side], cancelled: Cancelled
) -> Generator[str, None, list[GreedyCheck]]:
    """Answer one prompt greedily, without drafts and with each side, and compare the tokens; see `check`."""
    request = replace(request, sampling=SamplingParams(temperature=0))
    contenders = [in_process(pair, side.name, side.drafting) for side in (Side(PLAIN, None), *sides)]
    steps = Steps(race(contenders, request, 1, cancelled, warm_up=False))
    for event in steps:
        if isinstance(event, RunEnded):
            yield f"{name}: {event.run.contender} has answered"
    if steps.result.broken is not None:
        raise steps.result.broken
    if not steps.result.rounds:
        raise Interrupted
    plain, *others = steps.result.rounds[0].values()
    found = []
    for run in others:
        difference = explain(pair, plain, run, request.sampling, cancelled)
        compared = len(plain.tokens) if difference is None else difference.index + 1
        drafted = sum(step.drafted for step in run.steps if step.first < compared)
        found.append(GreedyCheck(name, run.contender, compared, drafted, difference))
    return found


def check_sampled(
    pair: LoadedPair,
    request: AnswerRequest,
    contender: str,
    drafting: Drafting,
    answers: int,
    cancelled: Cancelled,
) -> Generator[str, None, SampledCheck]:
    """Draw short answers with and without drafts and compare how often each came; see `check`.

    Both sides use different seeds; with the same ones they would give the same draws.
    """
    counts: list[Counter[Hashable]] = [Counter(), Counter()]
    drafted = 0
    for number in range(answers):
        for side, way in enumerate((None, drafting)):
            sampling = replace(request.sampling, seed=2 * number + side)
            recorder = Recorder(pair)
            short = replace(request, sampling=sampling, drafting=way, max_tokens=_FIRST_TOKENS)
            *_, last = answer(recorder.as_pair, 0, short, Controls(cancelled))
            assert isinstance(last, Finished)
            if last.reason is FinishReason.CANCELLED:
                raise Interrupted
            counts[side][tuple(recorder.tokens)] += 1
            drafted += last.stats.draft_n
        yield f"Sampled answers {number + 1:,} of {answers:,}"
    statistic, freedom = homogeneity(*counts)
    return SampledCheck(contender, answers, drafted, statistic, freedom, chi_square_p(statistic, freedom))


def homogeneity(one: Counter[Any], other: Counter[Any]) -> tuple[float, int]:
    """Return Pearson's statistic for two samples, and its degrees of freedom.

    Classes with an expected count below `_FEWEST` are merged.
    """
    totals = one.total(), other.total()
    whole = sum(totals)
    classes: list[tuple[int, int]] = []
    rare = [0, 0]
    for key in one.keys() | other.keys():
        seen = one[key], other[key]
        if min(totals) * sum(seen) / whole < _FEWEST:
            rare = [rare[0] + seen[0], rare[1] + seen[1]]
        else:
            classes.append(seen)
    if sum(rare):
        classes.append((rare[0], rare[1]))
    statistic = 0.0
    for seen in classes:
        for observed, total in zip(seen, totals, strict=True):
            expected = total * sum(seen) / whole
            statistic += (observed - expected) ** 2 / expected
    return statistic, max(0, len(classes) - 1)


def chi_square_p(statistic: float, freedom: int) -> float:
    """Return the probability that chi-square with so many degrees of freedom is at least `statistic`.

    Abramowitz and Stegun, 26.4.4 and 26.4.5: with h = statistic / 2, for even freedom
    exp(-h) * sum(h^i / i!, i < freedom / 2), for odd erfc(sqrt(h)) + exp(-h) * sum(h^(i - 1/2) / gamma(i + 1/2)).
    """
    if freedom <= 0 or statistic <= 0:
        return 1.0
    half = statistic / 2
    if freedom % 2 == 0:
        terms = [i * math.log(half) - math.lgamma(i + 1) for i in range(freedom // 2)]
        rest = 0.0
    else:
        terms = [(i - 0.5) * math.log(half) - math.lgamma(i + 0.5) for i in range(1, freedom // 2 + 1)]
        rest = math.erfc(math.sqrt(half))
    return min(1.0, rest + sum(math.exp(term - half) for term in terms))
