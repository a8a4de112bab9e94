"""The reasons of automatic drafting match its decisions."""

from typing import Any

import pytest

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.interfaces import StepResult
from app.engine.ngram import NgramIndex
from app.engine.sources import RETRIED, Source
from app.engine.types import NO_DRAFT, Draft
from tests.engine.generating import ConstantDraft, begun
from tests.replay import chain

CHEAP = {1: 1000.0, 2: 1010.0, 64: 1600.0}
PROMPT = list(range(1, 200))
ROOM = 32


def statistics_of(batch_ns: dict[int, float] = CHEAP, draft_ns: float = 10.0) -> PairStatistics:
    return PairStatistics(CostModel(CostProfile(dict(batch_ns), draft_ns=draft_ns, draft_prompt_ns=100.0)))


def automatic(known: PairStatistics, drafter: ConstantDraft | None, index: NgramIndex | None) -> AutomaticDrafting:
    """Return a strategy whose drafts take no time."""
    return AutomaticDrafting(known, chain(drafter, index), lambda: 0)


def n_model(draft: Draft) -> int:
    return draft.sources.count(Source.MODEL)


def run_step(strategy: AutomaticDrafting, text: list[int], *, accepted: bool) -> None:
    """Run a step in which the target accepts the whole draft or nothing."""
    draft = strategy.propose(text, ROOM)
    tokens = (*draft.tokens, 5000 + len(text)) if accepted else (5000 + len(text),)
    strategy.observe(StepResult(len(text) - 1, draft, tokens, len(tokens) - 1, 1000, 10 * n_model(draft)))
    text.extend(tokens)


EXPENSIVE = {1: 1000.0, 64: 64_000.0}


@pytest.mark.parametrize(
    ("batch_ns", "n_unread", "changes", "prompt", "reason"),
    [
        pytest.param(EXPENSIVE, None, {}, PROMPT, "no n-gram match", id="new text"),
        pytest.param(EXPENSIVE, None, {}, PROMPT[:90] * 2, "no n-gram match", id="repeating text"),
        pytest.param(
            CHEAP, None, {"blocked": True}, PROMPT, "recent drafts cost more than they gained", id="n-grams alone"
        ),
        pytest.param(
            CHEAP,
            198,
            {"gain": 0.0},
            PROMPT,
            "draft model off: reading this text would cost more than drafts gain",
            id="a prompt that is not worth reading",
        ),
        pytest.param(
            CHEAP, 0, {}, PROMPT, "draft model off: it is still reading the text", id="an unread part of the answer"
        ),
        pytest.param(
            CHEAP, 0, {"on": False}, PROMPT, f"draft model off: {RETRIED}", id="a model that lost is not reading"
        ),
    ],
)
def test_the_reason_of_a_step_without_a_draft(
    batch_ns: dict[int, float], n_unread: int | None, changes: dict[str, Any], prompt: list[int], reason: str
) -> None:
    known = statistics_of(batch_ns)
    known.gain = changes.get("gain")
    drafter = ConstantDraft(unread=n_unread) if n_unread is not None else None
    strategy = begun(automatic(known, drafter, NgramIndex()), prompt)
    known.ledger.blocked, known.trial.on = changes.get("blocked", False), changes.get("on", True)
    if n_unread is None:
        assert strategy.propose(prompt, ROOM) == NO_DRAFT
    elif not n_unread:
        strategy.observe(StepResult(len(PROMPT) - 1, NO_DRAFT, tuple(range(3000, 3070)), 0, 1000, 0))

    assert strategy.status.reason == reason


def test_the_reason_without_any_source() -> None:
    strategy = begun(automatic(statistics_of(), None, None), PROMPT)
    assert strategy.propose(PROMPT, ROOM) == NO_DRAFT

    assert strategy.status.reason == "no draft model, and n-gram is off"


def test_the_acceptance_is_shown_after_enough_steps() -> None:
    strategy, text = begun(automatic(statistics_of(), ConstantDraft(), None), PROMPT), [*PROMPT]
    run_step(strategy, text, accepted=True)
    first = strategy.status
    for _ in range(8):
        run_step(strategy, text, accepted=True)

    assert (first.source, first.reason) == ("model", "the draft model proposes tokens")
    assert strategy.status.reason == "100% of drafted tokens accepted"


def test_the_single_token_after_a_stall_shows_that_the_system_is_busy() -> None:
    strategy, text = begun(automatic(statistics_of(), ConstantDraft(), None), PROMPT), [*PROMPT]
    draft = strategy.propose(text, ROOM)
    strategy.observe(StepResult(len(text) - 1, draft, (*draft.tokens, 5000), len(draft), 90_000, 10 * n_model(draft)))
    text += [*draft.tokens, 5000]
    run_step(strategy, text, accepted=True)
    paused = strategy.status
    run_step(strategy, text, accepted=True)

    assert (paused.source, paused.reason) == ("off", "paused: system is busy")
    assert strategy.status.source == "model"


def test_a_draft_that_is_not_submitted_shows_so() -> None:
    unsure = statistics_of({1: 1000.0, 2: 1650.0, 64: 1700.0}, draft_ns=1.0)
    for _ in range(200):
        unsure.model.observe([(0.01, 0, False)])
    strategy = begun(automatic(unsure, ConstantDraft(confidence=0.01), None), PROMPT)
    draft = strategy.propose(PROMPT, ROOM)
    strategy.observe(StepResult(len(PROMPT) - 1, draft, (7,), 0, 1000, 1))

    assert draft == NO_DRAFT
    assert (strategy.status.source, strategy.status.reason) == ("model", "the draft was too unsure")


def test_a_step_too_short_for_a_draft_keeps_the_reason() -> None:
    strategy, text = begun(automatic(statistics_of(), ConstantDraft(), None), PROMPT), [*PROMPT]
    for _ in range(8):
        run_step(strategy, text, accepted=True)
    before = strategy.status.reason
    assert strategy.propose(text, 0) == NO_DRAFT
    strategy.observe(StepResult(len(text) - 1, NO_DRAFT, (1,), 0, 1000, 0))

    assert strategy.status.reason == before != ""


@pytest.mark.parametrize(("confidence", "n_steps"), [(0.99, 3), (0.05, 8)], ids=["long drafts", "short drafts"])
def test_a_speedup_is_shown_after_eight_steps_or_three_long_ones(confidence: float, n_steps: int) -> None:
    strategy, text = begun(automatic(statistics_of(), ConstantDraft(confidence=confidence), None), PROMPT), [*PROMPT]
    for _ in range(n_steps - 1):
        run_step(strategy, text, accepted=confidence > 0.5)
    before = strategy.speedup
    run_step(strategy, text, accepted=confidence > 0.5)

    assert before is None
    assert strategy.speedup is not None


def test_impossible_drafting_is_the_first_reason() -> None:
    known = statistics_of({1: 1000.0, 64: 64_000.0}, draft_ns=900.0)
    known.costs.profile.draft_prompt_ns = 500.0
    strategy = begun(automatic(known, ConstantDraft(unread=len(PROMPT)), None), PROMPT)
    strategy.propose(PROMPT, ROOM)

    assert (strategy.status.reason or "").endswith("so drafting cannot help")
