"""Drafting by what is measured: the most expected tokens for their cost, and never at a loss.

Every round submits the draft that maximises (expected tokens) - rate * (measured cost), where `rate` is the tokens per
nanosecond that this text has been giving lately. That is the criterion whose long-run optimum is the best rate
(renewal reward with Dinkelbach's price); comparing with plain decoding instead would draft too much where drafting
works. How far to draft and how much to submit are two decisions, because a draft that is not submitted still informs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from app.engine.drafters.lookup import LookupIndex
from app.engine.interfaces import Cancelled, Clock, ModelDrafting, Verdict
from app.engine.strategies.backlog import Backlog
from app.engine.strategies.pace import Pace
from app.engine.strategies.proposal import LookupSource, Proposal
from app.engine.tuning.guard import Stalls, impossibility
from app.engine.tuning.memory import Memory
from app.engine.tuning.rule import Rule
from app.engine.types import MAX_DRAFT, MODEL_OFF, NO_DRAFT, Draft, DraftingStatus, Round

_FIRST_STRETCH = 8
"""Tokens that the draft model may run ahead at first. Those of a confident model that has misread the task fall
together, which odds per token do not know; a draft that held to its end lets the next one be twice as long, and one
that did not makes it shorter by a tenth."""
_SHORTER = 0.9
_EXPECTED_SHARE = 0.8
"""How much of a round's advantage is taken from what was expected of it; luck averages out sooner that way."""
_SURE = 0.8
"""A look-up that is less likely to be right waits for the draft model's word, which is dear but knows the text."""
_RECONSIDER = 32
"""Rounds between two looks at whether drafting could win at all."""
_HELD_UP = "the last draft took far longer than it should; one token at a time until the machine is itself again"
_GAIN_MEMORY = 0.02
_SURVIVAL_PRIOR = (0.85, 6.0)
_SURVIVAL_FORGETTING = 0.98


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
        memory: Memory,
        drafter: ModelDrafting | None,
        index: LookupIndex | None,
        clock: Clock = time.perf_counter_ns,
    ) -> None:
        self.memory = memory
        self._drafter = drafter
        self._lookup = LookupSource(index, memory.lookup)
        self._backlog = Backlog(memory, drafter)
        self._pace = Pace()
        self._stalls = Stalls()
        self._clock = clock
        self._survived = _SURVIVAL_PRIOR[0] * _SURVIVAL_PRIOR[1]
        self._judged = _SURVIVAL_PRIOR[1]
        self._proposal = Proposal()
        self._used_model = False
        self._catch_up_ns = 0
        self._n_drafted = 0
        self._stretch = _FIRST_STRETCH
        self._impossible = "" if drafter is None else impossibility(memory.costs, 0, MAX_DRAFT)
        self._expected = 0.0
        self._last_rows = 1
        self._told: tuple[str, str] | None = None

    @property
    def sources(self) -> list[str]:
        """The names of the sources that may draft."""
        return ["model"] * (self._drafter is not None) + ["look-up"] * self._lookup.is_there

    @property
    def native_ns(self) -> int:
        return self._drafter.native_ns if self._drafter is not None else 0

    # The answer begins

    def begin(self, sequence: Sequence[int], expected_tokens: int, cancelled: Cancelled) -> Iterator[int]:
        """Index the text, and let the draft model read the prompt if that is likely to pay."""
        self.memory.idle_answers = self.memory.idle_answers + 1 if self._impossible else 0
        self.memory.trial.begin()
        self.memory.ledger.begin()
        self.memory.curiosity.begin()
        self._lookup.follow(sequence)
        self._backlog.begin(sequence, expected_tokens, patient=self._lookup.is_there)
        if not self._backlog.is_put_off and self._model_wanted(len(sequence)):
            yield from self._backlog.read_all(sequence, cancelled)

    # One round

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        """The draft that is worth its cost; empty for a plain step."""
        self._told = None
        if limit <= 0:
            # Where one token more is all there is room for, nothing is decided.
            self._told = self._source_and_reason()
        elif self._stalls.waiting:
            self._told = "off", _HELD_UP
        self._proposal = proposal = Proposal()
        self._used_model, self._catch_up_ns, self._n_drafted = False, 0, 0
        limit = min(limit, MAX_DRAFT)
        n_past = len(sequence) - 1
        self._lookup.hear(limit)
        if self._told or not self.memory.ledger.allows_any:
            return NO_DRAFT
        rule = Rule(self.memory.costs, n_past, self._rate(n_past), self._last_rows)
        looked, curiosity = self._lookup.alone(), self.memory.curiosity
        value, n = rule.best_submission(looked.products)
        # While the model is on it drafts at least one token: its confidence tells what kind of place this is.
        unsure = n == 0 or looked.products[0] < _SURE
        wanted = self._may_try(n_past) and (unsure or rule.best_ahead((), self._survival, limit) > value)
        if wanted and self._backlog.unread:
            self._proposal = proposal = looked
            if n == 0 and self._backlog.is_due:
                started = self._clock()
                self._backlog.read_on(sequence)
                self._catch_up_ns = self._clock() - started
        elif wanted:
            self._draft_with_model(sequence, limit, rule)
            value, n = rule.best_submission(proposal.products)
            self._expected = value - rule.rate * self._n_drafted * self.memory.costs.draft_ns(n_past)
            self._expected -= 1.0 - rule.rate * self.memory.costs.target_ns(1, n_past)
        else:
            self._proposal = proposal = looked
            if n == 0 and curiosity.wants_try():
                sure = [product for product in looked.products if product >= curiosity.SURE]
                _, n = rule.best_submission(sure, curiosity.HOPE)
                curiosity.trying = n > 0
        n_model = sum(by_model for by_model, _ in proposal.features[:n])
        confidences = tuple(confidence for _, confidence in proposal.features[:n])
        return Draft(tuple(proposal.tokens[:n]), tuple(proposal.products[:n]), n_model, confidences)

    def _draft_with_model(self, sequence: Sequence[int], limit: int, rule: Rule) -> None:
        """Draft while the next tokens are worth their cost, then let the look-up go on for nothing."""
        assert self._drafter is not None
        proposal = self._proposal
        self._used_model = True
        started = self._clock()
        self._backlog.catch_up(sequence)
        caught_up = self._clock()
        self._catch_up_ns = caught_up - started

        def judge(depth: int, confidence: float) -> Verdict:
            probability = self.memory.model.probability(confidence, depth)
            proposal.products.append(proposal.survival * probability)
            proposal.features.append((True, confidence))
            ahead = rule.best_ahead(proposal.products, self._survival, min(limit, self._stretch))
            return Verdict.TAKE if ahead > rule.best_submission(proposal.products)[0] else Verdict.LAST

        draft = self._drafter.draft(sequence, min(limit, self._stretch), judge)
        proposal.tokens = list(draft.tokens)
        self._n_drafted = len(draft)
        self.memory.costs.observe_draft(len(draft), len(sequence) - 1, self._clock() - caught_up)
        self._lookup.extend(proposal, limit)

    # Prices

    @property
    def _survival(self) -> float:
        """Mean probability that a token behind an accepted one is accepted, in this answer."""
        return self._survived / self._judged

    def _rate(self, n_past: int) -> float:
        return self._pace.rate(self.memory.costs.target_ns(1, n_past))

    def _model_wanted(self, n_past: int) -> bool:
        if self._drafter is None or not self._backlog.worth_reading or not self.memory.trial.wants_round():
            return False
        if not self.memory.ledger.allows_model:
            return False
        if self._pace.n_rounds % _RECONSIDER == 0:
            # Sixty-four lengths take longer to weigh than a small model's whole overhead, and costs move slowly.
            self._impossible = impossibility(self.memory.costs, n_past, MAX_DRAFT)
        return not self._impossible

    def _may_try(self, n_past: int) -> bool:
        """Whether the draft model takes part, and if it was off, whether trying it again is not too dear.

        It must read what it has missed before it can be tried. That is no loss of the round, which is judged without
        it; but where a draft model reads slowly it would be one of the answer, over and over.
        """
        return self._model_wanted(n_past) and (self.memory.trial.on or self._backlog.is_within_budget(n_past))

    # What became of it

    def observe(self, round_: Round) -> None:
        """Learn costs, acceptance and verdicts from a finished round."""
        memory, costs = self.memory, self.memory.costs
        rows = len(round_.draft) + 1
        target_ns = round_.total_ns - round_.draft_ns
        expected_ns = costs.target_ns(rows, round_.n_past) + self._n_drafted * costs.draft_ns(round_.n_past)
        costs.observe_target(rows, round_.n_past, target_ns, switched=rows != self._last_rows)
        drafted = rows > 1 or self._used_model
        measured = round_.total_ns - self._catch_up_ns
        cost = self._stalls.without(measured, expected_ns, drafted=drafted)
        # A single row has told itself what a plain step takes here; what was thought of it before is no loss of drafts.
        plain_ns = min(target_ns, cost) if rows == 1 else costs.target_ns(1, round_.n_past)
        rate = self._rate(round_.n_past)
        self._last_rows = rows
        self._label(round_)
        if self._drafter is not None and self._used_model:
            self._drafter.accept(round_.n_accepted)
            held = round_.n_accepted >= self._n_drafted
            longer = min(MAX_DRAFT, max(self._stretch, 2 * self._n_drafted))
            shorter = max(_FIRST_STRETCH, round_.n_accepted, round(_SHORTER * self._stretch))
            self._stretch = longer if held else shorter
        n = len(round_.tokens)
        if self._used_model:
            saved = max(-1.0, 1.0 - cost / (n * plain_ns))
            memory.gain += min(0.5, _GAIN_MEMORY * n) * (saved - memory.gain)
            realised = (n - rate * cost) - (1.0 - rate * plain_ns)
            memory.trial.observe_round(_EXPECTED_SHARE * self._expected + (1 - _EXPECTED_SHARE) * realised)
        else:
            memory.trial.observe_plain(n)
        self._backlog.observe(round_, used_model=self._used_model)
        memory.ledger.observe(n, cost, plain_ns, drafted=drafted)
        memory.curiosity.observe(n, cost, plain_ns, drafted=drafted)
        plain_now = costs.target_ns(1, round_.n_past)
        self._pace.observe(n, cost, measured - cost, self._catch_up_ns, plain_now, drafted=drafted)
        self._lookup.learn(round_)

    def _label(self, round_: Round) -> None:
        """Turn what the target chose into labels: accepted, rejected, and silence about what came after."""
        proposal = self._proposal
        model: list[tuple[float, int, bool]] = []
        for depth, (by_model, confidence) in enumerate(proposal.features):
            # Behind the submitted tokens the target's own one still judges the first that was held back.
            if depth >= len(round_.tokens):
                break
            accepted = proposal.tokens[depth] == round_.tokens[depth]
            if by_model:
                model.append((confidence, depth, accepted))
                if depth > 0:
                    self._survived = _SURVIVAL_FORGETTING * self._survived + accepted
                    self._judged = _SURVIVAL_FORGETTING * self._judged + 1.0
            if not accepted:
                break
        self.memory.model.observe(model)

    # What to say about it

    @property
    def status(self) -> DraftingStatus:
        """What is being done, why, and whether it pays, by measured time of this answer."""
        return DraftingStatus(*(self._told or self._source_and_reason()), self._pace.verdict, self._pace.speedup)

    def _source_and_reason(self) -> tuple[str, str]:
        memory = self.memory
        if self._used_model:
            return "model", self._about_model()
        if self._proposal.tokens and self._last_rows > 1:
            return "look-up", f"the last {self._lookup.match_length} tokens were said before"
        if not memory.ledger.allows_model:
            lost = "drafts cost more than they brought lately"
            return self._model_off(lost) if memory.ledger.allows_any else ("off", lost)
        if self._drafter is None:
            # There may be one that was left out.
            alone = "only look-up drafts, and it finds nothing worth checking"
            return "off", alone if self._lookup.is_there else "there is no draft model, and look-up was left out"
        if not self._backlog.worth_reading:
            dear = "reading what was said so far with the draft model would cost more than it is likely to bring"
            return self._model_off(dear)
        if self._impossible:
            return self._model_off(self._impossible)
        if not memory.trial.on:
            return self._model_off("drafts cost more than they brought; tried again from time to time")
        if self._backlog.unread:
            # Of the prompt, or of an answer that went on without it.
            behind = "the draft model has not read all of the text yet"
            slowly = ", and reads on only where look-up finds nothing" if self._lookup.is_there else ""
            return self._model_off(behind + slowly)
        return "off", "one token at a time is faster here"

    def _about_model(self) -> str:
        """What the draft model's last round was like. Its odds are told when most of them are this answer's own."""
        if self._last_rows == 1:
            return "the draft model was not sure enough for its draft to be worth checking"
        if self._judged < 2 * _SURVIVAL_PRIOR[1]:
            return "the draft model runs ahead"
        return f"once right, the draft model stays right {self._survival:.0%} of the time"

    def _model_off(self, why: str) -> tuple[str, str]:
        """What keeps the draft model from drafting leaves the look-up as it is, if there are both."""
        both = self._drafter is not None and self._lookup.is_there
        return "off", f"{MODEL_OFF}{why}; look-up still runs" if both else why
