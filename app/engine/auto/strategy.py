"""Drafting by what is measured: the most expected tokens for their cost, and never at a loss.

Every round submits the draft that maximises (expected tokens) - rate * (measured cost), where `rate` is the tokens per
nanosecond that this text has been giving lately. That is the criterion whose long-run optimum is the best rate
(renewal reward with Dinkelbach's price); comparing with plain decoding instead would draft too much where drafting
works. How far to draft and how much to submit are two decisions, because a draft that is not submitted still informs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.engine.auto.answer_speed import AnswerSpeed
from app.engine.auto.attempt import Attempt
from app.engine.auto.backlog import Backlog
from app.engine.auto.guard import impossibility
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.proposal import NgramSource
from app.engine.auto.reasons import HELD_UP, LOOKING, Reason, Reasons
from app.engine.auto.rule import Rule
from app.engine.auto.run_length import RunLength
from app.engine.auto.stalls import Stalls
from app.engine.drafters.ngram import NgramIndex
from app.engine.interfaces import AnswerStart, Cancelled, Clock, IsEnd, ModelDrafting, Verdict, never_ends
from app.engine.types import MAX_DRAFT, NO_DRAFT, Draft, DraftingStatus, Source, StepResult, taking_part

_EXPECTED_SHARE = 0.8
"""How much of a round's advantage is taken from what was expected of it; luck averages out sooner that way."""
_SURE = 0.8
"""A look-up that is less likely to be right waits for the draft model's word, which is dear but knows the text."""
_RECONSIDER = 32
"""Rounds between two looks at whether drafting could win at all."""
_GAIN_MEMORY = 0.02


class AutomaticDrafting:
    """Chooses sources and lengths by measurement. One object serves one answer; `memory` outlives it.

    Args:
        memory: What is known about the pair; updated in place.
        drafter: The draft model, or None for look-up alone.
        index: The look-up over everything said so far, or None.
        clock: Monotonic nanoseconds.
    """

    def __init__(
        self,
        memory: PairStatistics,
        drafter: ModelDrafting | None,
        index: NgramIndex | None,
        clock: Clock = time.perf_counter_ns,
    ) -> None:
        self.memory = memory
        self._drafter = self._began_with = drafter
        self._lookup = NgramSource(index, memory.lookup)
        self._backlog = Backlog(memory, drafter, clock)
        self._speed = AnswerSpeed()
        self._stalls = Stalls()
        self._clock = clock
        self._is_end: IsEnd = never_ends
        self._holding = RunLength()
        self._all_foretold = False
        self._attempt = Attempt()
        self._reasons = Reasons(memory, self._holding, self._lookup, self._backlog, drafter is not None)
        self._impossible = ""
        self._told: Reason | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """Those that may draft."""
        return taking_part(model=self._began_with is not None, lookup=self._lookup.is_there)

    @property
    def native_ns(self) -> int:
        return self._began_with.native_ns if self._began_with is not None else 0

    # The answer begins

    def begin(self, start: AnswerStart, cancelled: Cancelled) -> Iterator[int]:
        """Index the text, and let the draft model read the prompt if that is likely to pay."""
        self._speed.went_before(start.plain_so_far_ns)
        started = self._clock()
        n_past = len(start.sequence) - 1
        if self._drafter is not None:
            self._impossible = impossibility(self.memory.costs, n_past, MAX_DRAFT)
        self.memory.begin_answer(idle=bool(self._impossible))
        self._is_end = start.is_end
        self._lookup.follow(start)
        self._backlog.begin(start, patient=self._lookup.is_there)
        try:
            if not self._backlog.is_put_off and self._may_try(n_past):
                yield from self._backlog.read_all(start.sequence, cancelled)
        finally:
            self._speed.get_ready(self._clock() - started)

    # One round

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        """The draft that is worth its cost; empty for a plain step."""
        if limit <= 0:
            # Where one token more is all there is room for, nothing is decided: what was last said stands.
            self._told = self._told or self._reasons.of(self._attempt, self._impossible)
        else:
            self._told = HELD_UP if self._stalls.waiting else None
        self._attempt = attempt = Attempt(last_rows=self._attempt.n_rows)
        limit = min(limit, MAX_DRAFT)
        n_past = len(sequence) - 1
        self._lookup.hear(limit)
        if limit > 0 and self.memory.single_token_check.is_due(n_past):
            self._told = self._told or LOOKING
        if self._told or not self.memory.ledger.allows_any:
            return NO_DRAFT
        rule = Rule(self.memory.costs, n_past, self._rate(n_past), attempt.last_rows)
        looked, curiosity = self._lookup.alone(), self.memory.curiosity
        value, n = rule.best_submission(looked.gains, wealth=self.memory.ledger.wealth)
        # While the model is on it drafts at least one token: its confidence tells what kind of place this is.
        unsure = n == 0 or looked.products[0] < _SURE
        ahead = unsure or rule.best_ahead((), self._holding.survival, limit) > value
        wanted = self._may_try(n_past) and ahead and not looked.foretells_end(_SURE)
        if wanted and self._backlog.unread:
            attempt.proposal = looked
            if n == 0 and self._backlog.is_due:
                started = self._clock()
                self._backlog.read_on(sequence)
                attempt.catch_up_ns = self._clock() - started
        elif wanted:
            self._draft_with_model(sequence, limit, rule)
            value, n = rule.best_submission(attempt.proposal.gains)
            attempt.expected = value - rule.rate * attempt.n_drafted * self.memory.costs.draft_ns(n_past)
            attempt.expected -= 1.0 - rule.rate * self.memory.costs.target_ns(1, n_past)
        else:
            attempt.proposal = looked
            if n == 0 and curiosity.wants_try():
                sure = [product for product in looked.gains if product >= curiosity.SURE]
                _, n = rule.best_submission(sure, hope=curiosity.HOPE)
                curiosity.trying = n > 0
        return attempt.proposal.first(n)

    def _draft_with_model(self, sequence: Sequence[int], limit: int, rule: Rule) -> None:
        """Draft while the next tokens are worth their cost, then let the look-up go on for nothing."""
        assert self._drafter is not None
        attempt, holding = self._attempt, self._holding
        proposal, reach = attempt.proposal, min(limit, holding.stretch)
        attempt.used_model = True
        started = self._clock()
        self._backlog.catch_up(sequence)
        caught_up = self._clock()
        attempt.catch_up_ns = caught_up - started

        def judge(depth: int, confidence: float) -> Verdict:
            probability = self.memory.model.probability(confidence, depth)
            proposal.products.append(proposal.survival * probability)
            proposal.features.append((True, confidence))
            ahead = rule.best_ahead(proposal.products, holding.survival, reach)
            return Verdict.TAKE if ahead > rule.best_submission(proposal.products)[0] else Verdict.LAST

        draft = self._drafter.draft(sequence, reach, judge)
        proposal.tokens = list(draft.tokens)
        proposal.ends = len(draft) > 0 and self._is_end(draft.tokens[-1])
        attempt.n_drafted = len(draft)
        self.memory.costs.observe_draft(len(draft), len(sequence) - 1, self._clock() - caught_up)
        self._lookup.extend(proposal, limit)

    def lose_model(self) -> None:
        """Go on with the look-up alone. What the failure took brought nothing; of drafts that work it says nothing."""
        self._drafter = None
        self._reasons = replace(self._reasons, has_failed=True)
        self._attempt = Attempt(last_rows=self._attempt.last_rows, has_failed=True)

    # Prices

    def _rate(self, n_past: int) -> float:
        return self._speed.rate(self.memory.costs.target_ns(1, n_past))

    def _model_wanted(self, n_past: int) -> bool:
        if self._drafter is None or not self.memory.trial.wants_round() or not self.memory.ledger.allows_model:
            return False
        if not self._backlog.is_worth_reading:
            return False
        n_rounds = self._speed.n_rounds
        if n_rounds and n_rounds % _RECONSIDER == 0:
            # Sixty-four lengths take longer to weigh than a small model's whole overhead, and costs move slowly.
            self._impossible = impossibility(self.memory.costs, n_past, MAX_DRAFT)
        return not self._impossible

    def _may_try(self, n_past: int) -> bool:
        """Whether the draft model takes part, and if it was off, whether trying it again is not too dear.

        It must read what it has missed before it can be tried. That is no loss of the round, which is judged without
        it; but where a draft model reads slowly it would be one of the answer, over and over.
        """
        return self._model_wanted(n_past) and (self.memory.trial.on or self._backlog.may_be_read_again(n_past))

    # What became of it

    def observe(self, result: StepResult) -> None:
        """Learn costs, acceptance and verdicts from a finished round."""
        memory, costs, attempt = self.memory, self.memory.costs, self._attempt
        rows = len(result.draft) + 1
        target_ns = result.total_ns - result.draft_ns
        expected_ns = costs.target_ns(rows, result.n_past) + attempt.n_drafted * costs.draft_ns(result.n_past)
        predicted_ns = costs.target_ns(1, result.n_past)
        memory.observe_batch(rows, result.n_past, target_ns, switched=rows != attempt.last_rows)
        drafted = rows > 1 or attempt.used_model
        besides_ns = result.draft_ns if attempt.has_failed else attempt.catch_up_ns
        took = self._stalls.parts(result.total_ns, besides_ns, expected_ns, drafted=drafted)
        cost = took.counted_ns
        # A single row has told itself what a plain step takes here; what was thought of it before is no loss of drafts.
        plain_ns = min(target_ns, cost) if rows == 1 else costs.target_ns(1, result.n_past)
        rate = self._rate(result.n_past)
        attempt.n_rows = rows
        self._label(result)
        if self._drafter is not None and attempt.used_model:
            self._drafter.accept(result.n_accepted)
        n = len(result.tokens)
        if attempt.used_model:
            saved = max(-1.0, 1.0 - cost / (n * plain_ns))
            memory.observe_gain(saved, min(0.5, _GAIN_MEMORY * n))
            realised = (n - rate * cost) - (1.0 - rate * plain_ns)
            memory.trial.observe_round(_EXPECTED_SHARE * attempt.expected + (1 - _EXPECTED_SHARE) * realised)
        else:
            memory.trial.observe_plain(n)
        self._backlog.observe(result, used_model=attempt.used_model)
        memory.ledger.observe(n, cost - took.doubtful_ns, plain_ns, drafted=drafted)
        memory.curiosity.observe(n, cost, plain_ns, drafted=drafted)
        plain_now = costs.target_ns(1, result.n_past)
        single_ns = target_ns if rows == 1 else None
        self._speed.observe(n, took, plain_now, predicted_ns, drafted=drafted, single_ns=single_ns)
        self._lookup.learn(result)

    def _label(self, result: StepResult) -> None:
        """Turn what the target chose into labels: accepted, rejected, and silence about what came after."""
        proposal = self._attempt.proposal
        labels: list[tuple[float, int, bool]] = []
        # Where all of the round before was foretold, the next token stands behind a right one like any other.
        behind_right, self._all_foretold = self._all_foretold, False
        for depth, (by_model, confidence) in enumerate(proposal.features):
            # Behind the submitted tokens the target's own one still judges the first that was held back.
            if depth >= len(result.tokens):
                break
            accepted = proposal.tokens[depth] == result.tokens[depth]
            if by_model:
                labels.append((confidence, depth, accepted))
                if depth > 0 or behind_right:
                    self._holding.observe_token(accepted=accepted)
            if not accepted:
                break
            self._all_foretold = by_model and depth == len(result.tokens) - 1
        self.memory.model.observe(labels)
        self._holding.observe_draft(self._attempt.n_drafted, [accepted for *_, accepted in labels])

    # What to say about it

    @property
    def status(self) -> DraftingStatus:
        """What is being done, why, and whether it pays, by measured time of this answer."""
        source, reason = self._told or self._reasons.of(self._attempt, self._impossible)
        speed = self._speed
        return DraftingStatus(source, reason, speed.verdict, speed.speedup, speed.holds, speed.measured)
