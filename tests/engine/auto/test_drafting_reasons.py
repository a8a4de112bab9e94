"""What automatic drafting says of itself must be what it does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.interfaces import AnswerStart, Judge, StepResult, Verdict
from app.engine.ngram import NgramIndex
from app.engine.types import NO_DRAFT, Draft
from tests.recordings import Trace
from tests.replay import RecordedDraft

CHEAP = {1: 1000.0, 2: 1010.0, 64: 1600.0}
PROMPT = list(range(1, 200))
ROOM = 32
NO_TRACE = Trace("none", "none", (), (), (), ())


class Ahead(RecordedDraft):
    """A draft model that follows no trace, and is always of one opinion.

    Args:
        confidence: What it makes of each of its tokens.
        unread: Tokens that it has yet to read.
    """

    def __init__(self, confidence: float = 0.99, unread: int = 0) -> None:
        super().__init__(NO_TRACE, 0.0, lambda cost: None)
        self._confidence = confidence
        self._unread = unread

    def unread(self, tokens: Sequence[int]) -> int:
        return self._unread

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        drafted: list[int] = []
        while len(drafted) < limit:
            verdict = judge(len(drafted), self._confidence)
            drafted.append(1000 + len(drafted))
            if verdict is not Verdict.TAKE:
                break
        return Draft(tuple(drafted), (self._confidence,) * len(drafted), len(drafted))


def memory(rows: dict[int, float] = CHEAP, draft_ns: float = 10.0) -> PairStatistics:
    return PairStatistics(CostModel(CostProfile(dict(rows), draft_ns=draft_ns, draft_prompt_ns=100.0)))


def automatic(known: PairStatistics, drafter: Ahead | None, index: NgramIndex | None) -> AutomaticDrafting:
    """Its drafts take no time, however busy the machine is."""
    return AutomaticDrafting(known, drafter, index, lambda: 0)


def begun(strategy: AutomaticDrafting, prompt: Sequence[int] = PROMPT) -> AutomaticDrafting:
    for _ in strategy.begin(AnswerStart([*prompt], 256), lambda: False):
        pass
    return strategy


def round_of(strategy: AutomaticDrafting, text: list[int], *, accepted: bool) -> None:
    """One round, in which the target takes the whole draft or none of it."""
    draft = strategy.propose(text, ROOM)
    tokens = (*draft.tokens, 5000 + len(text)) if accepted else (5000 + len(text),)
    strategy.observe(StepResult(len(text) - 1, draft, tokens, len(tokens) - 1, 1000, 10 * draft.n_model))
    text.extend(tokens)


@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:90] * 2], ids=["new", "repeating"])
def test_a_draft_model_that_was_left_out_is_not_said_to_be_missing(prompt: list[int]) -> None:
    strategy = begun(automatic(memory({1: 1000.0, 64: 64_000.0}), None, NgramIndex()), prompt)
    assert strategy.propose(prompt, ROOM) == NO_DRAFT

    assert strategy.status.reason == "no n-gram match"


def test_where_nobody_can_draft_it_says_so() -> None:
    strategy = begun(automatic(memory(), None, None))
    assert strategy.propose(PROMPT, ROOM) == NO_DRAFT

    assert strategy.status.reason == "no draft model, and n-gram is off"


def test_a_long_prompt_that_the_draft_model_has_not_read() -> None:
    known = memory()
    known.gain = 0.0
    strategy = begun(automatic(known, Ahead(unread=198), NgramIndex()))

    assert strategy.status.reason == "draft model off: reading this text would cost more than drafts gain"


def test_an_answer_that_went_on_undrafted_the_draft_model_is_not_called_a_prompt() -> None:
    strategy = begun(automatic(memory(), Ahead(), NgramIndex()))
    strategy.observe(StepResult(len(PROMPT) - 1, NO_DRAFT, tuple(range(3000, 3070)), 0, 1000, 0))

    assert "still reading the text" in strategy.status.reason


def test_what_is_behind_because_it_lost_is_said_to_have_lost() -> None:
    known = memory()
    strategy = begun(automatic(known, Ahead(), NgramIndex()))
    known.trial.on = False
    strategy.observe(StepResult(len(PROMPT) - 1, NO_DRAFT, tuple(range(3000, 3070)), 0, 1000, 0))

    assert "no recent speedup; Tandem retries occasionally" in strategy.status.reason


def test_the_odds_of_the_draft_model_are_told_when_they_were_seen_here() -> None:
    strategy, text = begun(automatic(memory(), Ahead(), None)), [*PROMPT]
    round_of(strategy, text, accepted=True)
    first = strategy.status
    for _ in range(8):
        round_of(strategy, text, accepted=True)

    assert (first.source, first.reason) == ("model", "the draft model proposes tokens")
    assert strategy.status.reason == "100% of drafted tokens accepted"


def test_a_plain_step_after_a_round_that_was_held_up_says_why_it_is_plain() -> None:
    strategy, text = begun(automatic(memory(), Ahead(), None)), [*PROMPT]
    draft = strategy.propose(text, ROOM)
    strategy.observe(StepResult(len(text) - 1, draft, (*draft.tokens, 5000), len(draft), 90_000, 10 * draft.n_model))
    text += [*draft.tokens, 5000]
    round_of(strategy, text, accepted=True)
    plain = strategy.status
    round_of(strategy, text, accepted=True)

    assert (plain.source, plain.reason) == ("off", "paused: system is busy")
    assert strategy.status.source == "model"


def test_a_draft_that_was_not_submitted_is_no_success() -> None:
    unsure = memory({1: 1000.0, 2: 1650.0, 64: 1700.0}, draft_ns=1.0)
    for _ in range(200):
        unsure.model.observe([(0.01, 0, False)])
    strategy = begun(automatic(unsure, Ahead(confidence=0.01), None))
    draft = strategy.propose(PROMPT, ROOM)
    strategy.observe(StepResult(len(PROMPT) - 1, draft, (7,), 0, 1000, 1))

    assert draft == NO_DRAFT
    assert (strategy.status.source, strategy.status.reason) == ("model", "not confident enough")


def test_look_up_alone_speaks_of_no_draft_model() -> None:
    known = memory()
    strategy = begun(automatic(known, None, NgramIndex()))
    known.ledger.blocked = True

    assert strategy.status.reason == "recent drafts cost more than they gained"


def test_the_last_token_that_there_is_room_for_says_nothing_of_drafting() -> None:
    strategy, text = begun(automatic(memory(), Ahead(), None)), [*PROMPT]
    for _ in range(8):
        round_of(strategy, text, accepted=True)
    before = strategy.status.reason
    assert strategy.propose(text, 0) == NO_DRAFT
    strategy.observe(StepResult(len(text) - 1, NO_DRAFT, (1,), 0, 1000, 0))

    assert strategy.status.reason == before != ""


@pytest.mark.parametrize(("confidence", "n_rounds"), [(0.99, 3), (0.05, 8)], ids=["long drafts", "short drafts"])
def test_whether_it_pays_is_said_after_eight_rounds_or_after_three_that_brought_much(
    confidence: float, n_rounds: int
) -> None:
    strategy, text = begun(automatic(memory(), Ahead(confidence), None)), [*PROMPT]
    for _ in range(n_rounds - 1):
        round_of(strategy, text, accepted=confidence > 0.5)
    before = strategy.status
    round_of(strategy, text, accepted=confidence > 0.5)

    assert before.verdict == ""
    assert before.speedup is None
    assert strategy.status.speedup is not None


def test_what_can_never_pay_is_named_before_what_does_not_now() -> None:
    known = memory({1: 1000.0, 64: 64_000.0}, draft_ns=900.0)
    known.costs.profile.draft_prompt_ns = 500.0
    strategy = begun(automatic(known, Ahead(unread=len(PROMPT)), None))
    strategy.propose(PROMPT, ROOM)

    assert strategy.status.reason.endswith("so drafting cannot help")
