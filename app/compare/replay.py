"""Replays: any drafting strategy over a recorded trace and a cost curve, without a model and without a clock.

The strategy that runs here is the one that runs on models; only its draft model and its clock are played. The oracle
is the least time in which the same drafts could have served, their acceptance known in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.engine.auto.curve import MAX_ROWS, CostProfile
from app.engine.auto.interpolation import envelope, expand
from app.engine.cache import TokenCache, common_prefix
from app.engine.drafters.ngram import NgramIndex
from app.engine.fixed import FixedDrafting
from app.engine.interfaces import AnswerStart, Cancelled, Clock, Judge, ModelDrafting, Strategy, Verdict
from app.engine.probability import most_probable
from app.engine.types import MIN_MATCH, Draft, DraftParams, StepResult

_WRONG = -1
GRID_N_MAX = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)
GRID_P_MIN = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


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
        """What a first calibration of the machine would find; a copy, which may be learned into."""
        cells = dict(self.cells)
        return CostProfile(dict(self.rows), self.draft, draft_prompt_ns=self.reading, cells=cells, widest=self.widest)

    def costs(self) -> list[float]:
        """Cost of every width up to `MAX_ROWS`; index 0 is unused."""
        return expand(self.rows, MAX_ROWS)

    def cell_costs(self) -> list[float]:
        """What a cached token adds to every width up to `MAX_ROWS`; index 0 is unused."""
        return expand(self.cells, MAX_ROWS) if self.cells else [0.0] * (MAX_ROWS + 1)


@dataclass(frozen=True, slots=True)
class Replay:
    """How a strategy fared.

    Attributes:
        tokens: Tokens of the answer after the first.
        cost: What they took, in the curve's unit.
        rounds: Every round, in order.
    """

    tokens: int
    cost: float
    rounds: tuple[StepResult, ...]


class PlayedDraft:
    """Answers like a draft model that reads along with the trace; implements `ModelDrafting`.

    Args:
        trace: The answer.
        cost: Of a drafted token.
        advance: Takes what was spent.
        reading: Cost of a token that was not drafted. Nothing: then it has always read everything.
    """

    native_ns = 0

    def __init__(self, trace: Trace, cost: float, advance: Callable[[float], None], reading: float = 0.0) -> None:
        self._trace = trace
        self._cost = cost
        self._advance = advance
        self._reading = reading
        self._n_read = 0
        self._n_before = 0

    def unread(self, tokens: Sequence[int]) -> int:
        return max(0, len(tokens) - 1 - self._n_read) if self._reading else 0

    def read(self, tokens: Sequence[int], limit: int) -> None:
        n = min(limit, self.unread(tokens))
        self._n_read += n
        self._advance(n * self._reading)

    def begin(self, tokens: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        self.read(tokens, len(tokens))
        yield len(tokens)

    def catch_up(self, tokens: Sequence[int]) -> None:
        # The last one or two are evaluated with the first drafted token.
        if self.unread(tokens) > 1:
            self.read(tokens, len(tokens))

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        self.catch_up(tokens)
        trace = self._trace
        place = len(tokens) - len(trace.prompt)
        matches, confidences = trace.matches[place - 1], trace.confidences[place - 1]
        drafted: list[int] = []
        for depth, confidence in enumerate(confidences[:limit]):
            self._advance(self._cost)
            verdict = judge(depth, confidence)
            if verdict is Verdict.DROP:
                break
            drafted.append(trace.text[place + depth] if depth < matches else _WRONG)
            if verdict is Verdict.LAST or trace.is_end(drafted[-1]):
                break
        self._n_before = len(tokens)
        # The last one drafted was not evaluated.
        self._n_read = len(tokens) + max(0, len(drafted) - 1)
        return Draft(tuple(drafted), confidences[: len(drafted)], len(drafted))

    def accept(self, n_accepted: int) -> None:
        self._n_read = min(self._n_read, self._n_before + n_accepted)


StrategyFactory = Callable[[ModelDrafting, Clock], Strategy]


def replay(trace: Trace, curve: Curve, make: StrategyFactory, disturb: Callable[[], float] = lambda: 1.0) -> Replay:
    """Run a strategy over one trace on one machine.

    Args:
        trace: The answer.
        curve: The machine.
        make: Makes the strategy from its draft model and its clock.
        disturb: By how much a cost looks longer than it is, each time one is paid; the strategy's clock sees that, the
            result does not count it.
    """
    now = spent = 0.0

    def advance(cost: float) -> None:
        nonlocal now, spent
        spent += cost
        now += cost * disturb()

    costs, cells = curve.costs(), curve.cell_costs()
    strategy = make(PlayedDraft(trace, curve.draft, advance, curve.reading), lambda: round(now))
    sequence = [*trace.prompt, trace.text[0]]
    end = len(trace.prompt) + len(trace.text)
    for _ in strategy.begin(AnswerStart(sequence, len(trace.text), trace.is_end), lambda: False):
        pass
    rounds = []
    while len(sequence) < end:
        started = now
        # Of an answer that ends by itself no one knows how much is left.
        room = curve.widest - 1 if trace.has_end else min(end - len(sequence) - 1, curve.widest - 1)
        draft = strategy.propose(sequence, room)
        drafted_in = now - started
        advance(costs[len(draft) + 1] + (len(sequence) - 1) * cells[len(draft) + 1])
        ahead = trace.text[len(sequence) - len(trace.prompt) :]
        accepted = common_prefix(draft.tokens, ahead)
        tokens = ahead[: accepted + 1]
        result = StepResult(
            len(sequence) - 1, draft, tokens, min(accepted, len(tokens)), round(now - started), round(drafted_in)
        )
        strategy.observe(result)
        rounds.append(result)
        sequence.extend(tokens)
    return Replay(len(trace.text) - 1, spent, tuple(rounds))


def plain_cost(trace: Trace, curve: Curve) -> float:
    """What the answer takes without drafting."""
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
    looked = _lookup_matches(trace, min_match) if lookup else [0] * (n_text + 1)
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


def _lookup_matches(trace: Trace, min_match: int) -> list[int]:
    """How far n-gram drafting is right at every place of the answer."""
    index = NgramIndex(min_match)
    index.grow(trace.prompt)
    out = [0] * (len(trace.text) + 1)
    for place, token in enumerate(trace.text):
        said = index.continuation((), MAX_ROWS - 1).tokens
        out[place] = common_prefix(said, trace.text[place:])
        index.grow((token,))
    return out


def fixed(params: DraftParams) -> StrategyFactory:
    """Fixed drafting, to be replayed."""
    return lambda drafter, clock: FixedDrafting(drafter, params)


def best_fixed(traces: Sequence[Trace], curve: Curve) -> tuple[DraftParams, float]:
    """The fixed setting with the least cost over some traces, chosen in hindsight, and that cost."""
    settings = [DraftParams(n, 0, p) for n in GRID_N_MAX for p in GRID_P_MIN]
    costs = {params: sum(replay(t, curve, fixed(params)).cost for t in traces) for params in settings}
    best = min(costs, key=lambda params: costs[params])
    return best, costs[best]


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
