"""Automatic drafting: submit the most expected tokens for their measured cost, and never draft at a loss.

Each step submits the draft that maximizes (expected tokens) - rate * (measured cost), where `rate` is the recent speed
of this text in tokens per nanosecond; see `app.engine.auto.rule`. How far to draft and how much to submit are separate
decisions: a draft that is not submitted still shows what kind of text this is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

from app.engine.auto.acceptance import RunLength
from app.engine.auto.answer_speed import AnswerSpeed
from app.engine.auto.attempt import Attempt, PendingDraft
from app.engine.auto.backlog import Backlog
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.rule import Rule, impossibility
from app.engine.draft_source import DraftSource
from app.engine.drafting_report import Speedup
from app.engine.interfaces import AnswerStart, Cancelled, Clock, IsEnd, StepResult, Strategy, Verdict
from app.engine.sources import RETRIED, Source
from app.engine.types import MAX_DRAFT, NO_DRAFT, Draft, DraftingStatus

_EXPECTED_SHARE = 0.8
"""Weight of the expected advantage of a step, beside the measured advantage, when the draft model is judged: a stall in
a few steps must not turn it off."""
_STEPS_BETWEEN_CHECKS = 32
"""Steps between two checks whether drafting can gain at all."""
_GAIN_FORGETTING = 0.02

Reason = tuple[Source | Literal["off"], str]
"""Source of a step's draft, or "off", and why."""
_BUSY_REASON: Reason = ("off", "paused: system is busy")
_BASELINE_REASON: Reason = ("off", "one token without a draft, to measure the speedup")


def _take(depth: int, confidence: float) -> Verdict:
    return Verdict.TAKE


def _judged(draft: Draft, tokens: Sequence[int]) -> list[tuple[float, int, bool]]:
    """Return confidence, depth and acceptance of each token, up to the first token that the target did not choose."""
    labels: list[tuple[float, int, bool]] = []
    for depth, (proposed, confidence, token) in enumerate(zip(draft.tokens, draft.confidences, tokens, strict=False)):
        labels.append((confidence, depth, proposed == token))
        if proposed != token:
            break
    return labels


class AutomaticDrafting(Strategy):
    """Chooses sources and draft lengths by measurement. An object serves one answer.

    It updates the statistics of the pair. At most one source is not free; here it is called the draft model.
    """

    def __init__(
        self,
        statistics: PairStatistics,
        sources: Sequence[DraftSource],
        clock: Clock = time.perf_counter_ns,
    ) -> None:
        self.statistics = statistics
        self._free = [source for source in sources if source.kind.is_free]
        drafter = next((source for source in sources if not source.kind.is_free), None)
        self._drafter = self._first_drafter = drafter
        self._backlog = Backlog(statistics, drafter, clock)
        self._speed = AnswerSpeed()
        self._clock = clock
        self._is_end: IsEnd = lambda token: False
        self._run_length = RunLength()
        self._all_predicted = False
        self._attempt = Attempt()
        self._impossible: str | None = None
        self._reason: Reason | None = None

    def begin(self, start: AnswerStart, cancelled: Cancelled) -> Iterator[int]:
        """Index the text, and let the draft model read the prompt if that is likely to pay."""
        self._speed.add_undrafted(start.undrafted_ns)
        started = self._clock()
        n_past = len(start.sequence) - 1
        if self._drafter is not None:
            self._impossible = impossibility(self.statistics.costs, n_past, self._drafter.longest)
            if self._impossible:
                self._drafter.pause()
        self.statistics.begin_answer(idle=bool(self._impossible))
        self._is_end = start.is_end
        for source in self._free:
            for _ in source.begin(start.sequence, cancelled):
                pass
        self._backlog.begin(start)
        try:
            if self._may_use_model(n_past):
                yield from self._backlog.read_all(start.sequence, cancelled)
        finally:
            self._speed.add_preparation(self._clock() - started)

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        """Return the draft that is worth its cost; empty for a single-token step."""
        if limit <= 0:
            # With room for a single token there is nothing to decide, so the last reason stays.
            self._reason = self._reason or self._explain()
        else:
            self._reason = _BUSY_REASON if self._speed.is_stalled else None
        limit = min(limit, MAX_DRAFT)
        n_past = len(sequence) - 1
        found = [source.draft(sequence, limit, _take) for source in self._free]
        self._attempt = attempt = Attempt(found=found)
        if limit > 0 and self.statistics.is_check_due:
            self._reason = self._reason or _BASELINE_REASON
        if self._reason or not self.statistics.ledger.allows_any:
            return NO_DRAFT
        rule = Rule(self.statistics.costs, n_past, self._rate(n_past))
        value, n = self._weigh_found(rule)
        # Without an n-gram draft, the model drafts at least one token: its confidence shows what kind of text this is.
        is_better = n == 0 or rule.best_lookahead((), self._run_length.survival, limit) > value
        use_model = is_better and self._may_use_model(n_past)
        if use_model and self._backlog.unread:
            if n == 0:
                started = self._clock()
                self._backlog.read_piece(sequence)
                attempt.catch_up_ns = self._clock() - started
        elif use_model:
            attempt.proposal, attempt.source = PendingDraft(), self._drafter
            self._draft_with_model(sequence, limit, rule)
            value, n = rule.best_submission(attempt.proposal.gains)
            attempt.expected = value - rule.rate * self._drafting_ns(n_past)
            attempt.expected -= 1.0 - rule.rate * self.statistics.costs.target_ns(1, n_past)
        return attempt.proposal.draft.first(n)

    def _weigh_found(self, rule: Rule) -> tuple[float, int]:
        """Take the most valuable draft of a free source; return its value and the length to submit."""
        attempt, statistics = self._attempt, self.statistics
        best: tuple[float, int] | None = None
        for source, draft in zip(self._free, attempt.found, strict=True):
            if draft:
                proposal = PendingDraft()
                proposal.extend(draft, statistics.table(source.kind), self._is_end)
                weighed = rule.best_submission(proposal.gains, wealth=statistics.ledger.wealth)
                if best is None or weighed[0] > best[0]:
                    best, attempt.proposal, attempt.source = weighed, proposal, source
        return best or rule.best_submission(())

    def _draft_with_model(self, sequence: Sequence[int], limit: int, rule: Rule) -> None:
        """Draft while further tokens are worth their cost, then append the draft of a free source."""
        assert self._drafter is not None
        attempt, run_length, kind = self._attempt, self._run_length, self._drafter.kind
        proposal, most = attempt.proposal, min(limit, run_length.limit, self._drafter.longest)
        table, attempt.used_model = self.statistics.table(kind), True
        started = self._clock()
        self._backlog.catch_up(sequence)
        caught_up = self._clock()
        attempt.catch_up_ns = caught_up - started

        def judge(depth: int, confidence: float) -> Verdict:
            probability = table.probability(confidence, depth)
            proposal.products.append(proposal.survival * probability)
            further = rule.best_lookahead(proposal.products, run_length.survival, most)
            return Verdict.TAKE if further > rule.best_submission(proposal.products)[0] else Verdict.LAST

        proposal.draft = draft = self._drafter.draft(sequence, most, judge)
        proposal.ends = len(draft) > 0 and self._is_end(draft.tokens[-1])
        attempt.n_drafted = len(draft)
        self.statistics.costs.observe_draft(len(draft), len(sequence) - 1, self._clock() - caught_up)
        for source in self._free:
            if len(proposal.draft) < limit and not proposal.ends:
                further = source.draft([*sequence, *proposal.draft.tokens], limit - len(proposal.draft), _take)
                proposal.extend(further, self.statistics.table(source.kind), self._is_end)

    def _drafting_ns(self, n_past: int) -> float:
        costs, attempt = self.statistics.costs, self._attempt
        return attempt.n_drafted * costs.draft_ns(n_past) + attempt.used_model * costs.draft_start_ns(n_past)

    def lose_model(self) -> None:
        self._drafter = None
        self._attempt = Attempt(found=self._attempt.found, has_failed=True)

    def _rate(self, n_past: int) -> float:
        return self._speed.rate(self.statistics.costs.target_ns(1, n_past))

    def _may_use_model(self, n_past: int) -> bool:
        statistics = self.statistics
        if self._drafter is None or not statistics.trial.allows_step() or statistics.ledger.blocked:
            return False
        if not self._backlog.is_worth_reading:
            return False
        n_steps = self._speed.n_steps
        if n_steps and n_steps % _STEPS_BETWEEN_CHECKS == 0:
            # Costs change slowly, and comparing all lengths takes long.
            self._impossible = impossibility(statistics.costs, n_past, self._drafter.longest)
        return not self._impossible

    def observe(self, result: StepResult) -> None:
        """Learn costs and acceptance from a step, and judge its draft."""
        statistics, costs, attempt = self.statistics, self.statistics.costs, self._attempt
        batch_size = len(result.draft) + 1
        target_ns = result.work_ns - result.draft_ns
        expected_ns = costs.target_ns(batch_size, result.n_past) + self._drafting_ns(result.n_past)
        predicted_ns = costs.target_ns(1, result.n_past)
        statistics.observe_batch(batch_size, result.n_past, target_ns)
        drafted = batch_size > 1 or attempt.used_model
        reading_ns = result.draft_ns if attempt.has_failed else attempt.catch_up_ns
        rate, price_ns = self._rate(result.n_past), costs.target_ns(1, result.n_past)
        cost = self._speed.observe(result, reading_ns, expected_ns, price_ns, predicted_ns, drafted=drafted)
        # A single-token step has just measured its own cost.
        single_ns = min(target_ns, cost) if batch_size == 1 else price_ns
        attempt.batch_size = batch_size
        self._learn_acceptance(result)
        if self._drafter is not None:
            self._drafter.accept(result.tokens, result.n_accepted)
        n = len(result.tokens)
        if attempt.used_model:
            saved = max(-1.0, 1.0 - cost / (n * single_ns))
            statistics.observe_gain(saved, min(0.5, _GAIN_FORGETTING * n))
            realized = (n - rate * cost) - (1.0 - rate * single_ns)
            statistics.trial.observe_step(_EXPECTED_SHARE * attempt.expected + (1 - _EXPECTED_SHARE) * realized)
        else:
            statistics.trial.observe_undrafted(n)
        self._backlog.observe(result, used_model=attempt.used_model)
        statistics.ledger.observe(n, cost, single_ns, drafted=drafted)
        for source, draft in zip(self._free, attempt.found, strict=False):
            statistics.table(source.kind).observe(_judged(draft, result.tokens))
        for source in self._free:
            source.accept(result.tokens, result.n_accepted)

    def _learn_acceptance(self, result: StepResult) -> None:
        # The target's own token also judges the first drafted token that was not submitted.
        proposal = self._attempt.proposal.draft
        judged = _judged(proposal, result.tokens)
        labels = [label for label, source in zip(judged, proposal.sources, strict=False) if not source.is_free]
        # If a step predicted all tokens, the next token follows an accepted token.
        follows_accepted = self._all_predicted
        n = len(judged)
        self._all_predicted = n == len(result.tokens) and judged[-1][-1] and not proposal.sources[n - 1].is_free
        for _, depth, accepted in labels:
            if depth > 0 or follows_accepted:
                self._run_length.observe_token(accepted=accepted)
        self.statistics.model.observe(labels)
        self._run_length.observe_draft(self._attempt.n_drafted, [accepted for *_, accepted in labels])

    @property
    def status(self) -> DraftingStatus:
        return DraftingStatus(*(self._reason or self._explain()))

    @property
    def speedup(self) -> Speedup | None:
        return self._speed.speedup

    @property
    def _kind(self) -> Source:
        return self._first_drafter.kind if self._first_drafter is not None else Source.MODEL

    def _explain(self) -> Reason:
        attempt, ledger = self._attempt, self.statistics.ledger
        has_model = self._first_drafter is not None
        if attempt.source is not None and (attempt.used_model or attempt.batch_size > 1):
            why = attempt.source.reason
            if attempt.batch_size == 1:
                why = "the draft was too unsure"
            elif attempt.used_model and self._run_length.is_known:
                why = f"{self._run_length.survival:.0%} of drafted tokens accepted"
            return attempt.source.kind, why
        if has_model and self._drafter is None:
            why = self._kind.failed
        elif ledger.blocked:
            why = "recent drafts cost more than they gained"
            if not ledger.allows_any:
                return "off", why
        elif not has_model:
            return "off", "no n-gram match" if self._free else "no draft model, and n-gram is off"
        elif self._impossible:
            why = self._impossible
        elif not self._backlog.is_worth_reading:
            why = "reading this text would cost more than drafts gain"
        elif not self.statistics.trial.on:
            why = RETRIED
        elif self._backlog.unread:
            why = "it is still reading the text"
        else:
            return "off", "single tokens are faster"
        # With n-gram drafting, the reason is only about the drafter.
        return "off", self._kind.turned_off(why) if has_model and self._free else why
