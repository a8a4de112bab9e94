"""Automatic drafting: submit the most expected tokens for their measured cost, and never draft at a loss.

Each step submits the draft that maximizes (expected tokens) - rate * (measured cost), where `rate` is the recent speed
of this text in tokens per nanosecond; see `app.engine.auto.rule`. How far to draft and how much to submit are two
decisions, because a draft that is not submitted still informs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.engine.auto.acceptance import RunLength
from app.engine.auto.answer_speed import AnswerSpeed
from app.engine.auto.backlog import Backlog
from app.engine.auto.guard import impossibility
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.proposal import NgramSource, Proposal
from app.engine.auto.reasons import CHECKING, STALLED, Attempt, Reason, Reasons
from app.engine.auto.rule import Rule
from app.engine.auto.stalls import Stalls
from app.engine.drafters.ngram import NgramIndex
from app.engine.interfaces import AnswerStart, Cancelled, Clock, IsEnd, ModelDrafting, Verdict, never_ends
from app.engine.types import MAX_DRAFT, NO_DRAFT, Draft, DraftingStatus, Source, StepResult, taking_part

_EXPECTED_SHARE = 0.8
"""Share of the expected advantage in a step's verdict: a stall in a few steps must not turn the draft model off."""
_SURE_OF_END = 0.8
_RECONSIDER = 32
"""Steps between two checks whether drafting could gain at all."""
_GAIN_MEMORY = 0.02


class AutomaticDrafting:
    """Choose sources and draft lengths by measurement. One object serves one answer.

    Args:
        statistics: What is known about the pair; updated in place.
        drafter: The draft model; None for n-gram drafting alone.
        index: Everything said so far, for n-gram drafting; None for none.
        clock: Monotonic nanoseconds.
    """

    def __init__(
        self,
        statistics: PairStatistics,
        drafter: ModelDrafting | None,
        index: NgramIndex | None,
        clock: Clock = time.perf_counter_ns,
    ) -> None:
        self.statistics = statistics
        self._drafter = self._began_with = drafter
        self._ngram = NgramSource(index, statistics.lookup)
        self._backlog = Backlog(statistics, drafter, clock)
        self._speed = AnswerSpeed()
        self._stalls = Stalls()
        self._clock = clock
        self._is_end: IsEnd = never_ends
        self._run_length = RunLength()
        self._all_predicted = False
        self._attempt = Attempt(Proposal())
        self._reasons = Reasons(statistics, self._run_length, self._ngram, self._backlog, drafter is not None)
        self._impossible = ""
        self._reason: Reason | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that may draft."""
        return taking_part(model=self._began_with is not None, ngram=self._ngram.is_there)

    @property
    def native_ns(self) -> int:
        return self._began_with.native_ns if self._began_with is not None else 0

    def begin(self, start: AnswerStart, cancelled: Cancelled) -> Iterator[int]:
        """Index the text, and let the draft model read the prompt if that is likely to pay."""
        self._speed.went_before(start.single_so_far_ns)
        started = self._clock()
        n_past = len(start.sequence) - 1
        if self._drafter is not None:
            self._impossible = impossibility(self.statistics.costs, n_past, MAX_DRAFT)
        self.statistics.begin_answer(idle=bool(self._impossible))
        self._is_end = start.is_end
        self._ngram.follow(start)
        self._backlog.begin(start)
        try:
            if self._may_use_model(n_past):
                yield from self._backlog.read_all(start.sequence, cancelled)
        finally:
            self._speed.get_ready(self._clock() - started)

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        """Return the draft that is worth its cost; empty for a single-token step."""
        if limit <= 0:
            # With room for one token there is no decision, so the last reason stays.
            self._reason = self._reason or self._reasons.of(self._attempt, self._impossible)
        else:
            self._reason = STALLED if self._stalls.waiting else None
        self._attempt = attempt = Attempt(Proposal())
        limit = min(limit, MAX_DRAFT)
        n_past = len(sequence) - 1
        self._ngram.find(limit)
        if limit > 0 and self.statistics.single_token_check.is_due:
            self._reason = self._reason or CHECKING
        if self._reason or not self.statistics.ledger.allows_any:
            return NO_DRAFT
        rule = Rule(self.statistics.costs, n_past, self._rate(n_past))
        attempt.proposal = self._ngram.alone()
        value, n = rule.best_submission(attempt.proposal.gains, wealth=self.statistics.ledger.wealth)
        # While the model is on it drafts at least one token: its confidence tells what kind of text this is.
        ahead = n == 0 or rule.best_ahead((), self._run_length.survival, limit) > value
        wants_model = ahead and self._may_use_model(n_past) and not attempt.proposal.predicts_end(_SURE_OF_END)
        if wants_model and self._backlog.unread:
            if n == 0:
                started = self._clock()
                self._backlog.read_on(sequence)
                attempt.catch_up_ns = self._clock() - started
        elif wants_model:
            attempt.proposal = Proposal()
            self._draft_with_model(sequence, limit, rule)
            value, n = rule.best_submission(attempt.proposal.gains)
            attempt.expected = value - rule.rate * attempt.n_drafted * self.statistics.costs.draft_ns(n_past)
            attempt.expected -= 1.0 - rule.rate * self.statistics.costs.target_ns(1, n_past)
        return attempt.proposal.first(n)

    def _draft_with_model(self, sequence: Sequence[int], limit: int, rule: Rule) -> None:
        """Draft while further tokens are worth their cost, then append an n-gram draft."""
        assert self._drafter is not None
        attempt, run_length = self._attempt, self._run_length
        proposal, most = attempt.proposal, min(limit, run_length.limit)
        attempt.used_model = True
        started = self._clock()
        self._backlog.catch_up(sequence)
        caught_up = self._clock()
        attempt.catch_up_ns = caught_up - started

        def judge(depth: int, confidence: float) -> Verdict:
            probability = self.statistics.model.probability(confidence, depth)
            proposal.products.append(proposal.survival * probability)
            proposal.features.append((True, confidence))
            ahead = rule.best_ahead(proposal.products, run_length.survival, most)
            return Verdict.TAKE if ahead > rule.best_submission(proposal.products)[0] else Verdict.LAST

        draft = self._drafter.draft(sequence, most, judge)
        proposal.tokens = list(draft.tokens)
        proposal.ends = len(draft) > 0 and self._is_end(draft.tokens[-1])
        attempt.n_drafted = len(draft)
        self.statistics.costs.observe_draft(len(draft), len(sequence) - 1, self._clock() - caught_up)
        self._ngram.extend(proposal, limit)

    def lose_model(self) -> None:
        """Go on with n-gram drafting alone."""
        self._drafter = None
        self._reasons = replace(self._reasons, has_failed=True)
        self._attempt = Attempt(Proposal(), has_failed=True)

    def _rate(self, n_past: int) -> float:
        return self._speed.rate(self.statistics.costs.target_ns(1, n_past))

    def _may_use_model(self, n_past: int) -> bool:
        statistics = self.statistics
        if self._drafter is None or not statistics.trial.wants_step() or not statistics.ledger.allows_model:
            return False
        if not self._backlog.is_worth_reading:
            return False
        n_steps = self._speed.n_steps
        if n_steps and n_steps % _RECONSIDER == 0:
            # Costs change slowly, and comparing all lengths takes long.
            self._impossible = impossibility(statistics.costs, n_past, MAX_DRAFT)
        return not self._impossible

    def observe(self, result: StepResult) -> None:
        """Learn costs, acceptance and verdicts from a step."""
        statistics, costs, attempt = self.statistics, self.statistics.costs, self._attempt
        rows = len(result.draft) + 1
        target_ns = result.total_ns - result.draft_ns
        expected_ns = costs.target_ns(rows, result.n_past) + attempt.n_drafted * costs.draft_ns(result.n_past)
        predicted_ns = costs.target_ns(1, result.n_past)
        statistics.observe_batch(rows, result.n_past, target_ns)
        drafted = rows > 1 or attempt.used_model
        reading_ns = result.draft_ns if attempt.has_failed else attempt.catch_up_ns
        took = self._stalls.split(result.total_ns, reading_ns, expected_ns, drafted=drafted)
        cost = took.counted_ns
        # A single-token step has just measured its own cost.
        single_ns = min(target_ns, cost) if rows == 1 else costs.target_ns(1, result.n_past)
        rate = self._rate(result.n_past)
        attempt.n_rows = rows
        self._label(result)
        if self._drafter is not None and attempt.used_model:
            self._drafter.accept(result.n_accepted)
        n = len(result.tokens)
        if attempt.used_model:
            saved = max(-1.0, 1.0 - cost / (n * single_ns))
            statistics.observe_gain(saved, min(0.5, _GAIN_MEMORY * n))
            realized = (n - rate * cost) - (1.0 - rate * single_ns)
            statistics.trial.observe_step(_EXPECTED_SHARE * attempt.expected + (1 - _EXPECTED_SHARE) * realized)
        else:
            statistics.trial.observe_without(n)
        self._backlog.observe(result, used_model=attempt.used_model)
        statistics.ledger.observe(n, cost, single_ns, drafted=drafted)
        self._speed.observe(
            n,
            took,
            costs.target_ns(1, result.n_past),
            predicted_ns,
            drafted=drafted,
            single_ns=target_ns if rows == 1 else None,
            stretch=result.stretch,
        )
        self._ngram.learn(result)

    def _label(self, result: StepResult) -> None:
        """Learn acceptance from what the target chose, up to the first token it did not."""
        proposal = self._attempt.proposal
        labels: list[tuple[float, int, bool]] = []
        # After a step whose tokens were all predicted, the next token follows a right one.
        after_right, self._all_predicted = self._all_predicted, False
        for depth, (by_model, confidence) in enumerate(proposal.features):
            # The target's own token judges the first drafted one that was not submitted.
            if depth >= len(result.tokens):
                break
            accepted = proposal.tokens[depth] == result.tokens[depth]
            if by_model:
                labels.append((confidence, depth, accepted))
                if depth > 0 or after_right:
                    self._run_length.observe_token(accepted=accepted)
            if not accepted:
                break
            self._all_predicted = by_model and depth == len(result.tokens) - 1
        self.statistics.model.observe(labels)
        self._run_length.observe_draft(self._attempt.n_drafted, [accepted for *_, accepted in labels])

    @property
    def status(self) -> DraftingStatus:
        """Source, reason and measured speedup of this answer."""
        source, reason = self._reason or self._reasons.of(self._attempt, self._impossible)
        speed = self._speed
        return DraftingStatus(source, reason, speed.verdict, speed.speedup, speed.measured)
