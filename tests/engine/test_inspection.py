"""What the models thought in a round: computed for who looks, and for no one else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from app.conversations.message import Message, Role
from app.engine import generator as module
from app.engine import types as engine
from app.engine.cache import TokenCache
from app.engine.draft_model import ModelDrafter
from app.engine.fixed import FixedDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import Controls, Logits
from app.engine.probability import most_probable, probability_of
from app.engine.types import DraftParams, FinishReason, Origin
from app.worker.engine_worker import EngineWorker
from app.worker.events import Event, Step
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.fakes import END, FakeModel, FakeSampler, Rule
from tests.pairs import FakePair

PROMPT = (5, 6, 7)
ASKED = AnswerRequest((Message(Role.USER, "abc"),), drafting=DraftParams(4, 0, 0.0), max_tokens=15, with_details=True)


def counting(sequence: Sequence[int]) -> dict[int, float]:
    """The target counts on, and has doubts."""
    return {sequence[-1] + 1: 0.75, 40: 0.25}


def mistaken(sequence: Sequence[int]) -> dict[int, float]:
    """The draft counts too, and says 40 after every third token."""
    return {40 if len(sequence) % 3 == 0 else sequence[-1] + 1: 0.5, 41: 0.25, 42: 0.25}


class Ticks:
    """A clock that passes a microsecond with every look at it."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        self.ns += 1000
        return self.ns


def run(
    inspected: Callable[[], bool], target: Rule = counting, draft: Rule = mistaken, stop_at: int | None = None
) -> list[engine.Step]:
    model, small = FakeModel(target), FakeModel(draft)
    drafter = ModelDrafter(TokenCache(small), small.n_vocab, lambda token: token == END)
    strategy = FixedDrafting(drafter, DraftParams(4, 0, 0.0))
    generator = Generator(TokenCache(model), strategy, FakeSampler(model), Ticks())

    def observe(token: int, _: Origin) -> FinishReason | None:
        return FinishReason.STOP if token == stop_at else None

    request = Request(PROMPT, lambda token: token == END, 20, observe, Controls(inspected=inspected))
    return [event for event in generator.run(request) if isinstance(event, engine.Step)]


def test_the_probability_of_a_token_is_that_of_the_whole_vocabulary() -> None:
    row = np.log(np.array([0.1, 0.6, 0.3], dtype=np.float32))
    assert [probability_of(row, token) for token in range(3)] == pytest.approx([0.1, 0.6, 0.3], rel=1e-5)
    assert probability_of(row, 1) == pytest.approx(most_probable(row)[1])
    assert probability_of(np.array([0.0, -np.inf], dtype=np.float32), 1) == 0.0


def test_nothing_is_computed_while_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(row: Logits, token: int) -> float:
        calls.append(token)
        return 0.5

    monkeypatch.setattr(module, "probability_of", counted)
    assert all(step.inspection is None for step in run(lambda: False))
    assert calls == []
    run(lambda: True)
    assert calls


def test_looking_changes_neither_the_answer_nor_its_times() -> None:
    without, looked = run(lambda: False), run(lambda: True)
    assert [step.tokens for step in looked] == [step.tokens for step in without]
    # Every look costs two ticks of this clock, and one of them ends the measurement of the look itself.
    spent = looked[-1].stats.predicted_ns - without[-1].stats.predicted_ns
    assert spent == 1000 * (len(looked) - 1)


def test_a_round_tells_what_both_models_thought() -> None:
    first, *rounds = run(lambda: True)
    assert first.inspection is None
    for step in rounds:
        seen = step.inspection
        assert seen is not None
        assert len(seen.chosen) == len(step.tokens)
        assert seen.chosen == pytest.approx([0.75] * len(step.tokens), rel=1e-4)
        assert step.draft.by_model == pytest.approx([0.5] * len(step.draft), rel=1e-4)
        assert step.total_ns > 0
        mismatch = step.n_accepted < len(step.draft) and step.n_accepted < len(step.tokens)
        assert (seen.declined is not None) == mismatch
        if mismatch:
            assert seen.declined == pytest.approx(0.25, rel=1e-4)
    assert any(step.inspection is not None and step.inspection.declined is not None for step in rounds)


def test_an_answer_that_ends_in_its_draft_declines_nothing() -> None:
    *_, last = run(lambda: True, draft=counting, stop_at=10)
    assert last.inspection is not None
    assert (last.n_accepted, len(last.tokens), len(last.draft)) == (2, 2, 4)
    assert last.inspection.declined is None


def test_rounds_are_told_to_whoever_comes_later_without_what_nobody_looked_at() -> None:
    pair = FakePair(FakeModel(counting), FakeModel(mistaken))
    events = [e for e in answer(pair, 1, ASKED) if isinstance(e, Step)]
    assert events[0].details is None, "the first token comes from the prompt"
    rounds = [e.details for e in events if e.details is not None]
    assert [details.number for details in rounds] == list(range(1, rounds[-1].number + 1))
    for details in rounds:
        assert details.confidences == pytest.approx([0.5] * len(details.drafted), rel=1e-4)
        assert (details.chosen, details.declined) == ((), None)
        assert details.total_ns > 0


@pytest.mark.parametrize("told", [True, False])
def test_the_worker_looks_into_rounds_only_when_told_to(*, told: bool) -> None:
    events: list[Event] = []
    worker = EngineWorker(events.append)
    worker.load(lambda cancel, progress: FakePair(FakeModel(counting), FakeModel(mistaken)))
    worker.inspect(told)
    assert worker.answer(ASKED)
    assert _until_closed(worker)
    seen = [event.details for event in events if isinstance(event, Step) and event.details is not None]
    assert seen
    assert all(bool(details.chosen) is told for details in seen)


def _until_closed(worker: EngineWorker) -> bool:
    worker._commands.put(None)
    worker._thread.join(20)
    return not worker._thread.is_alive()
