"""Replay a drafting strategy over a recorded answer and a cost curve, without a model and without a real clock.

The strategy is real; its draft model reads the recording, and its clock adds up the curve's costs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.engine.auto.cost_profile import MAX_BATCH, CostProfile, expand
from app.engine.cache import common_prefix
from app.engine.draft_source import DraftSource, judged_draft
from app.engine.fixed import FixedDrafting
from app.engine.interfaces import AnswerStart, Cancelled, Clock, Judge, StepResult, Strategy
from app.engine.ngram import NgramIndex
from app.engine.sources import Source
from app.engine.types import Draft, DraftParams
from tests.bench.upper_bound import context_costs
from tests.recordings import Trace

_WRONG_TOKEN = -1
GRID_N_MAX = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)
GRID_P_MIN = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Replay:
    """Result of a replay."""

    cost: float
    steps: tuple[StepResult, ...]
    strategy: Strategy


class RecordedDraft(DraftSource):
    """A draft model that proposes the recorded drafts.

    Args:
        trace: The answer.
        cost: Cost of a drafted token.
        advance: Called with every cost.
        reading: Cost of a token that the model reads; 0 for one that has read everything.
        start: Cost of a draft besides that of its tokens.
    """

    follows = False

    def __init__(
        self, trace: Trace, cost: float, advance: Callable[[float], None], reading: float = 0.0, start: float = 0.0
    ) -> None:
        super().__init__(Source.MODEL)
        self._trace = trace
        self._start = start
        self._cost = cost
        self._advance = advance
        self._reading = reading
        self._n_read = 0
        self._n_before: int | None = None

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
        # The last one or two tokens are evaluated with the first drafted token.
        if self.unread(tokens) > 1:
            self.read(tokens, len(tokens))

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        self.catch_up(tokens)
        trace = self._trace
        position = len(tokens) - len(trace.prompt)
        matches, confidences = trace.matches[position - 1], trace.confidences[position - 1]
        self._advance(self._start)

        def proposals() -> Iterator[tuple[int, float]]:
            for depth, confidence in enumerate(confidences[:limit]):
                self._advance(self._cost)
                yield trace.text[position + depth] if depth < matches else _WRONG_TOKEN, confidence

        draft = judged_draft(self.kind, proposals(), limit, judge, trace.is_end)
        self._n_before = len(tokens)
        # The last drafted token was not evaluated.
        self._n_read = len(tokens) + max(0, len(draft) - 1)
        return draft

    def accept(self, tokens: Sequence[int], n_accepted: int) -> None:
        if self._n_before is not None:
            self._n_read = min(self._n_read, self._n_before + n_accepted)
            self._n_before = None


def chain(drafter: DraftSource | None, index: NgramIndex | None) -> list[DraftSource]:
    """Return the sources of a strategy; None for a source that is off."""
    return [source for source in (drafter, index) if source is not None]


StrategyFactory = Callable[[DraftSource, Clock], Strategy]


def replay(
    trace: Trace, costs: CostProfile, make: StrategyFactory, disturb: Callable[[], float] = lambda: 1.0
) -> Replay:
    """Run a strategy over an answer on a machine."""
    now = spent = 0.0

    def advance(cost: float) -> None:
        nonlocal now, spent
        spent += cost
        now += cost * disturb()

    batch_ns, context_ns = expand(costs.batch_ns, MAX_BATCH), context_costs(costs)
    drafter = RecordedDraft(trace, costs.draft_ns, advance, costs.draft_prompt_ns, costs.draft_start_ns)
    strategy = make(drafter, lambda: round(now))
    sequence = [*trace.prompt, trace.text[0]]
    end = len(trace.prompt) + len(trace.text)
    list(strategy.begin(AnswerStart(sequence, len(trace.text), trace.is_end), lambda: False))
    steps = []
    while len(sequence) < end:
        started = now
        # The rest of an answer that ends with an end token is unknown to the strategy.
        room = costs.max_batch - 1 if trace.has_end else min(end - len(sequence) - 1, costs.max_batch - 1)
        draft = strategy.propose(sequence, room)
        draft_cost = now - started
        advance(batch_ns[len(draft) + 1] + (len(sequence) - 1) * context_ns[len(draft) + 1])
        remaining = trace.text[len(sequence) - len(trace.prompt) :]
        accepted = common_prefix(draft.tokens, remaining)
        tokens = remaining[: accepted + 1]
        result = StepResult(
            len(sequence) - 1, draft, tokens, min(accepted, len(tokens)), round(now - started), round(draft_cost)
        )
        strategy.observe(result)
        steps.append(result)
        sequence.extend(tokens)
    return Replay(spent, tuple(steps), strategy)


def fixed(params: DraftParams) -> StrategyFactory:
    """Return a factory of fixed drafting."""
    return lambda drafter, clock: FixedDrafting(drafter, params)


def best_fixed(traces: Sequence[Trace], machine: CostProfile) -> tuple[DraftParams, float]:
    """Return the fixed setting with the lowest cost over these answers, and that cost."""
    settings = [DraftParams(n, 0, p) for n in GRID_N_MAX for p in GRID_P_MIN]
    costs = {params: sum(replay(t, machine, fixed(params)).cost for t in traces) for params in settings}
    best = min(costs, key=lambda params: costs[params])
    return best, costs[best]
