"""Drafting turned off and on during an answer: from the next step, and the text stays the same."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from app.conversations.message import Message, Role
from app.engine.events import PromptProgress, Step
from app.engine.interfaces import Controls
from app.engine.ngram import NgramIndex
from app.engine.types import AutoDraft, Drafting, DraftParams, SamplingParams
from app.worker.events import Event, Finished, Measuring
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair
from tests.worker.harness import answered, finished, ticking

FIXED = DraftParams(n_max=3, n_min=0, p_min=0.0)
PROMPT = "hello"


def request(drafting: Drafting) -> AnswerRequest:
    return AnswerRequest((Message(Role.USER, PROMPT),), SamplingParams(temperature=0), drafting, max_tokens=24)


def pair() -> FakePair:
    return FakePair(FakeModel(mixing(5)), FakeModel(mixing(5)))


def steps(seen: list[Event]) -> list[Step]:
    return [event for event in seen if isinstance(event, Step)]


def drafted(seen: list[Event]) -> list[int]:
    """Return the drafted tokens so far, after each step."""
    return [step.stats.draft_n for step in steps(seen)]


def switched(drafting: Drafting, drafts: Callable[[int], bool]) -> tuple[FakePair, list[Event], Finished]:
    """Answer on a measured pair, and turn drafting on or off by the number of steps so far."""
    riders, seen = pair(), list[Event]()
    # An unmeasured pair would learn its costs first.
    list(riders.measure_costs(lambda: False))
    controls = Controls(drafts=lambda: drafts(len(steps(seen))))
    for event in answer(riders, 1, request(drafting), controls, ticking()):
        seen.append(event)
    return riders, seen, finished(seen[-1])


PLAIN = answered(pair(), request(None))[1].text


@pytest.mark.parametrize("drafting", [FIXED, AutoDraft()])
def test_off_from_the_beginning_drafts_nothing(drafting: Drafting) -> None:
    riders = pair()
    seen, last = answered(riders, request(drafting), Controls(drafts=lambda: False))

    assert last.text == PLAIN
    assert (last.stats.mode, last.stats.draft_n, last.drafting) == ("off", 0, None)
    assert not any(isinstance(event, Measuring) for event in seen)
    assert not any(isinstance(event, PromptProgress) and event.drafting for event in seen)
    assert riders.remembered == 0


@pytest.mark.parametrize("drafting", [FIXED, AutoDraft()])
def test_off_in_the_middle_drafts_nothing_more(drafting: Drafting) -> None:
    _, seen, last = switched(drafting, lambda n: n < 3)

    assert last.text == PLAIN
    counts = drafted(seen)
    assert counts[2] > 0
    assert set(counts[2:]) == {counts[2]}
    after = [step.drafting for step in steps(seen)[3:]]
    assert {(status.source, status.reason) for status in after if status} == {("off", "you switched it off")}
    # The speed of the answer is still reported and includes the later steps.
    assert last.drafting == after[-1]
    gain = last.stats.speedup
    assert gain is not None
    assert gain.measured
    assert 0.5 < gain.ratio < 2.0
    assert last.stats.mode == ("auto" if isinstance(drafting, AutoDraft) else "fixed")


@pytest.mark.parametrize("drafting", [FIXED, AutoDraft()])
def test_on_in_the_middle_reads_the_text_so_far_and_drafts(drafting: Drafting) -> None:
    riders, seen, last = switched(drafting, lambda n: n >= 4)

    assert last.text == PLAIN
    assert drafted(seen)[3] == 0
    assert drafted(seen)[-1] > 0
    read = [event.total for event in seen if isinstance(event, PromptProgress) and event.drafting]
    assert set(read) == {len(PROMPT) + 4}
    assert last.stats.mode != "off"
    assert riders.remembered == isinstance(drafting, AutoDraft)


@pytest.mark.parametrize("drafting", [FIXED, AutoDraft()])
def test_the_speedup_includes_the_prefill_of_the_draft(drafting: Drafting) -> None:
    riders, now, spent = pair(), ticking(), [0]
    list(riders.measure_costs(lambda: False))
    assert riders.drafter is not None
    begin = riders.drafter.begin

    def slowly(tokens: Sequence[int], cancelled: Callable[[], bool]) -> Iterator[int]:
        spent[0] = 10_000_000
        yield from begin(tokens, cancelled)

    riders.drafter.begin = slowly  # type: ignore[method-assign]
    long = replace(request(drafting), max_tokens=60)
    stats = answered(riders, long, clock=lambda: now() + spent[0])[1].stats

    assert stats.draft_prompt_ns > 10_000_000
    assert stats.speedup is not None
    assert stats.speedup.ratio < 0.5
    assert stats.tokens_per_second is not None
    assert stats.predicted_per_second is not None
    assert stats.tokens_per_second < 0.1 * stats.predicted_per_second


class Slow(NgramIndex):
    """An index that takes a second for every thousand new tokens of a text."""

    spent = 0

    def follow(self, tokens: Sequence[int]) -> None:
        known = len(self)
        super().follow(tokens)
        self.spent += 1_000_000 * (len(tokens) - known)


def indexing(riders: FakePair, prompt: str, n_tokens: int) -> Finished:
    (index,), ticks = riders.free_sources, ticking()
    assert isinstance(index, Slow)
    asked = replace(request(AutoDraft(model=False)), messages=(Message(Role.USER, prompt),), max_tokens=n_tokens)
    return answered(riders, asked, clock=lambda: ticks() + index.spent)[1]


def test_indexing_the_conversation_takes_answer_time_but_no_step_time() -> None:
    riders = pair()
    list(riders.measure_costs(lambda: False))
    riders.free_sources = (Slow(),)
    before = riders.memory.costs.target_ns(1, 0) if riders.memory is not None else 0
    first = indexing(riders, PROMPT * 20, 9)

    # 100 tokens of the prompt, and the first written token
    assert 101_000_000 < first.stats.predicted_ns < 102_000_000
    assert first.stats.draft_prompt_ns == 0
    assert riders.memory is not None
    assert riders.memory.costs.target_ns(1, 0) < 10 * before


def test_earlier_answers_give_drafts_and_change_no_text() -> None:
    riders = FakePair(FakeModel(mixing(5, n_vocab=27)))
    list(riders.measure_costs(lambda: False))
    asked = replace(request(AutoDraft()), max_tokens=100)

    def given(*beside: str) -> Finished:
        return answered(riders, replace(asked, beside=beside))[1]

    first = given()
    again, without = given("not this", first.text), given()

    assert first.text == again.text == without.text
    assert again.stats.draft_n_accepted > 60
    assert first.stats.draft_n_accepted < 20
    assert without.stats.draft_n_accepted < 20
