"""Is it really lossless? Greedy answers token by token, sampled ones by their distribution.

The sampled test draws many short answers with and without drafts, each with a seed of its own, and asks whether the
two sets of first tokens could come from one distribution; see `app.compare.lossless`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.compare.difference import Difference, explain
from app.compare.race import Contender, RaceBroken, Run, RunEnded, Steps, in_process, race
from app.compare.suite import Prompt
from app.compare.tap import Tap
from app.core.errors import Interrupted
from app.engine.interfaces import Cancelled, Controls
from app.engine.types import Drafting, DraftParams, FinishReason, SamplingParams
from app.worker.events import Finished
from app.worker.request import AnswerRequest, LoadedPair
from app.worker.responder import answer

FIRST_TOKENS = 3
"""The first comes out of the prompt; the others are the ones that a draft can touch."""
SIGNIFICANT = 0.001
"""A test that is run often must not cry wolf once in twenty times."""


EVERYTHING = DraftParams(n_max=7, p_min=0.0)
"""Wrong drafts too: that is where a fault would show."""


@dataclass(frozen=True, slots=True)
class GreedyCheck:
    """One greedy answer against no draft.

    Attributes:
        prompt: Which prompt.
        contender: Which way of drafting.
        compared: Tokens that were compared, up to and with the first difference.
        drafted: Tokens that were submitted as drafts on the way; 0 means that nothing was tested.
        difference: The first difference, or None.
    """

    prompt: str
    contender: str
    compared: int
    drafted: int
    difference: Difference | None

    @property
    def holds(self) -> bool:
        """Return whether it is the same text, or rounding explains why not."""
        return self.difference is None or self.difference.near_tie is not False

    def as_json(self) -> dict[str, Any]:
        return {
            "prompt": self.prompt,
            "contender": self.contender,
            "compared": self.compared,
            "drafted": self.drafted,
            "holds": self.holds,
            "difference": self.difference.as_json() if self.difference is not None else None,
        }


@dataclass(frozen=True, slots=True)
class SampledCheck:
    """The first tokens of sampled answers, with and without drafts.

    Attributes:
        contender: Which way of drafting.
        answers: Answers on each side.
        drafted: Tokens that were submitted as drafts; 0 means that nothing was tested.
        chi_square: The statistic.
        freedom: Its degrees of freedom; 0 means that only one answer ever came.
        p: Probability of a statistic at least as large, were the distributions one.
    """

    contender: str
    answers: int
    drafted: int
    chi_square: float
    freedom: int
    p: float

    @property
    def holds(self) -> bool:
        return self.p >= SIGNIFICANT

    def as_json(self) -> dict[str, Any]:
        return {
            "contender": self.contender,
            "answers": self.answers,
            "drafted": self.drafted,
            "chi_square": self.chi_square,
            "degrees_of_freedom": self.freedom,
            "p": self.p,
            "holds": self.holds,
        }


@dataclass(slots=True)
class Checks:
    """All checks of a pair, as far as they came.

    Attributes:
        greedy: Greedy answers.
        sampled: Sampled ones.
    """

    greedy: list[GreedyCheck] = field(default_factory=list)
    sampled: list[SampledCheck] = field(default_factory=list)

    @property
    def hold(self) -> bool | None:
        """Return whether drafting changed nothing; None where nothing was drafted, and so nothing tested."""
        done: list[GreedyCheck | SampledCheck] = [*self.greedy, *self.sampled]
        return all(check.holds for check in done) if any(check.drafted for check in done) else None


def check(
    pair: LoadedPair,
    checks: Checks,
    prompts: Sequence[Prompt],
    request: AnswerRequest,
    draftings: Sequence[tuple[str, Drafting]],
    samples: int,
    cancelled: Cancelled,
) -> Generator[str, None, None]:
    """Greedy answers to every prompt, then sampled ones to the first.

    Args:
        pair: What to check.
        checks: Filled as they come, so that a stop leaves what was found.
        prompts: What to ask, at least one prompt.
        request: How; a system message stays in front. A temperature of 0 takes llama.cpp's defaults for the draws.
        draftings: Ways of drafting by name; the first one is also sampled with.
        samples: Sampled answers on each side.
        cancelled: Stops in the middle.

    Yields:
        What is going on.

    Raises:
        Interrupted: Cancelled.
    """
    for prompt in prompts:
        yield str(prompt)
        checks.greedy += yield from check_greedy(pair, str(prompt), prompt.put_to(request), draftings, cancelled)
    drawn = request.sampling if request.sampling.temperature > 0 else SamplingParams()
    asked = replace(prompts[0].put_to(request), sampling=drawn)
    checks.sampled.append((yield from check_sampled(pair, asked, *draftings[0], samples, cancelled)))


def check_greedy(
    pair: LoadedPair,
    name: str,
    request: AnswerRequest,
    draftings: Sequence[tuple[str, Drafting]],
    cancelled: Cancelled,
) -> Generator[str, None, list[GreedyCheck]]:
    """Answer one prompt greedily, plainly and with each way of drafting, and compare the tokens.

    Yields:
        The prompt and who has answered it.

    Raises:
        Interrupted: Cancelled.
        AppError: The prompt does not fit, or the target failed.
    """
    request = replace(request, sampling=SamplingParams(temperature=0))
    contenders: list[Contender] = [in_process(pair, "plain", None)]
    contenders += [in_process(pair, label, drafting) for label, drafting in draftings]
    steps = Steps(race(contenders, request, 1, cancelled, warm_up_tokens=0))
    for event in steps:
        if isinstance(event, RaceBroken):
            raise event.error
        if isinstance(event, RunEnded):
            yield f"{name}: {event.run.contender} has answered"
    rounds = steps.result
    if not rounds:
        raise Interrupted
    plain: Run = rounds[0]["plain"]
    return [_compare(pair, name, plain, rounds[0][label], request.sampling, cancelled) for label, _ in draftings]


def _compare(
    pair: LoadedPair, name: str, plain: Run, drafted: Run, sampling: SamplingParams, cancelled: Cancelled
) -> GreedyCheck:
    difference = explain(pair, plain, drafted, sampling, cancelled)
    compared = len(plain.tokens) if difference is None else difference.index + 1
    submitted = sum(step.drafted for step in drafted.steps if step.first < compared)
    return GreedyCheck(name, drafted.contender, compared, submitted, difference)


def check_sampled(
    pair: LoadedPair,
    request: AnswerRequest,
    contender: str,
    drafting: Drafting,
    answers: int,
    cancelled: Cancelled,
) -> Generator[str, None, SampledCheck]:
    """Draw short answers on both sides and compare how often each came.

    The two sides use different seeds: with the same ones they would give the same draws, and there would be no
    distribution to compare.

    Yields:
        How many are done.

    Raises:
        Interrupted: Cancelled.
    """
    counts: list[Counter[Hashable]] = [Counter(), Counter()]
    drafted = 0
    for number in range(answers):
        for side, way in enumerate((None, drafting)):
            sampling = replace(request.sampling, seed=2 * number + side)
            tap = Tap(pair)
            short = replace(request, sampling=sampling, drafting=way, max_tokens=FIRST_TOKENS)
            *_, last = answer(tap, 0, short, Controls(cancelled))
            assert isinstance(last, Finished)
            if last.reason is FinishReason.CANCELLED:
                raise Interrupted
            counts[side][tuple(tap.tokens)] += 1
            drafted += last.stats.draft_n
        yield f"Sampled answers {number + 1:,} of {answers:,}"
    statistic, freedom = homogeneity(*counts)
    return SampledCheck(contender, answers, drafted, statistic, freedom, chi_square_p(statistic, freedom))


def statement(checks: Checks) -> str:
    """Return what was found, plainly."""
    greedy, sampled = checks.greedy, checks.sampled
    if checks.hold is None:
        return "Nothing was drafted, so nothing was tested."
    broken = [check for check in greedy if not check.holds]
    moved = [check for check in sampled if not check.holds]
    if broken or moved:
        parts = [f"{_answers(len(broken))} more than rounding explains"] if broken else []
        parts += ["the sampled tokens have another distribution"] if moved else []
        return f"Not lossless here: {' and '.join(parts)}. Please report this."
    ties = sum(check.difference is not None and check.difference.near_tie is True for check in greedy)
    compared = sum(check.compared for check in greedy)
    text = f"Lossless as far as was tested: {compared:,} greedy tokens compared"
    text += f", {ties} near-tie{'s' if ties != 1 else ''} that rounding decided" if ties else ", still"
    tested = [check for check in sampled if check.drafted]
    if telling := [check.p for check in tested if check.freedom]:
        text += f"; sampled tokens differ no more than chance allows (p = {min(telling):.2g})"
    elif tested:
        text += "; the sampled answers are too few or too much alike for a test"
    return text + "."


def _answers(n: int) -> str:
    return "1 greedy answer differs" if n == 1 else f"{n} greedy answers differ"


_FEWEST = 5.0
"""Expected counts below this make the statistic's distribution a poor fit (Cochran's rule)."""


def homogeneity(one: Counter[Any], other: Counter[Any]) -> tuple[float, int]:
    """Pearson's statistic for two samples, and its degrees of freedom (classes less one).

    Classes that expect fewer than five on either side are taken together.
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
    """Probability that chi-square with whole degrees of freedom is at least `statistic`.

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
