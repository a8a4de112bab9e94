"""Every command of the worker ends once, in order, however its answer ends."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversations.message import Message, Role
from app.core.errors import DecodeError, Interrupted, ModelLoadError
from app.engine.events import Step
from app.engine.interfaces import Controls
from app.engine.sources import Source
from app.engine.text.stream import LEAST_SHORT_TOKENS
from app.engine.types import AutoDraft, Drafting, DraftParams, FinishReason, Guidance, SamplingParams
from app.worker.engine_worker import Progress
from app.worker.events import Event, Failed, Finished, JobEnded, JobProgressed, Loaded, Notice
from app.worker.jobs import Job
from app.worker.request import AnswerRequest, LoadedPair
from tests.fakes import FakeModel, Rule, always, mixing, script
from tests.hanging import HANGS_S
from tests.pairs import FakePair
from tests.worker.harness import WorkerHarness, answered

ACTIONS = ("load", "load that fails", "load that breaks", "answer", "endless", "job", "go", "go", "cancel", "fail")
ASKED = Message(Role.USER, "abc")


class Gate:
    """A gate at which native calls wait until a move opens it."""

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.fails = False

    def __call__(self) -> None:
        assert self.permits.acquire(timeout=HANGS_S)
        if self.fails:
            self.fails = False
            raise DecodeError("The fake failed.")


class GatedModel(FakeModel):
    """A model that decodes when the gate opens."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(mixing(1), n_ctx=64)
        self._gate = gate

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        self._gate()
        super().decode(tokens, n_outputs)


@dataclass(frozen=True)
class GatedJob(Job):
    """Runs until stopped, a few times at most."""

    gate: Gate

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        for part in range(3):
            if controls.cancelled():
                break
            self.gate()
            yield JobProgressed(number, part)
        yield JobEnded(number, None)


class Life(WorkerHarness):
    """A worker over a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.asked: list[int | None] = []
        self.pairs: list[FakePair] = []
        self.stopped_through = 0

    def do(self, move: str) -> None:
        worker = self.worker
        match move:
            case "load" | "load that fails" | "load that breaks":
                self.asked.append(None)
                worker.load(lambda cancel, progress: self._loaded(move, progress))
            case "answer" | "endless":
                limit = 4 if move == "answer" else None
                self.asked.append(worker.answer(AnswerRequest((ASKED,), SamplingParams(temperature=0), None, limit)))
            case "job":
                self.asked.append(worker.run(GatedJob(self.gate)))
            case "go":
                self.gate.permits.release()
            case "fail":
                self.gate.fails = True
            case "cancel":
                worker.cancel()
                self.stopped_through = max([self.stopped_through, *(number for number in self.asked if number)])

    def _loaded(self, move: str, progress: Progress) -> LoadedPair:
        assert all(pair.closed for pair in self.pairs), "two pairs at once"
        if not progress(0.5):
            raise Interrupted
        self.gate()
        if move == "load that fails":
            raise ModelLoadError("It is gone.")
        if move == "load that breaks":
            raise ZeroDivisionError
        self.pairs.append(FakePair(GatedModel(self.gate)))
        return self.pairs[-1]

    def finish(self) -> list[Event]:
        """Return all events after the last command has ended."""
        self.gate.permits.release(10_000)
        seen: list[Event] = []
        while len(_ends(seen)) < len(self.asked):
            seen.append(self.events.get(timeout=HANGS_S))
        assert self.worker.close(HANGS_S)
        while not self.events.empty():
            seen.append(self.events.get())
        return seen


def _ends(events: Sequence[Event]) -> list[int | None]:
    return [
        None if isinstance(event, Loaded) else event.request
        for event in events
        if isinstance(event, Loaded | Finished | Failed | JobEnded)
    ]


@given(st.lists(st.sampled_from(ACTIONS), max_size=20))
@settings(max_examples=40)
def test_everything_ends_once(moves: list[str]) -> None:
    life = Life()
    for move in moves:
        life.do(move)
    events = life.finish()

    assert _ends(events) == life.asked
    assert all(pair.closed for pair in life.pairs)
    assert all(sampler.closed for pair in life.pairs for sampler in pair.samplers)
    for event in events:
        if isinstance(event, Finished):
            steps = [each for each in events if isinstance(each, Step) and each.request == event.request]
            said = "".join(part.text for step in steps for part in step.segments)
            assert event.text.strip() == said.strip()
            assert event.reason is not FinishReason.CANCELLED or event.request <= life.stopped_through


PROMPT = "hello"
FIXED = DraftParams(n_max=3, n_min=0, p_min=0.0)
FAILS_AT = 60
SAID_AGAIN = [9, 10, 11, 12, 13, 14, 15, 16]


class Failing(FakeModel):
    """A draft model that fails permanently."""

    fails_from = FAILS_AT
    fails_for_ns = 0

    def decode(self, tokens: list[int], n_outputs: int) -> None:  # type: ignore[override]
        if len(self.batches) + 1 >= self.fails_from:
            Ticking.now += self.fails_for_ns
            raise DecodeError("The fake failed.")
        super().decode(tokens, n_outputs)


class Ticking:
    """A clock of which every reading takes a microsecond."""

    now = 0

    def __call__(self) -> int:
        Ticking.now += 1000
        return Ticking.now


def without_draft_model(drafting: Drafting, rule: Rule, draft: Failing, n_tokens: int) -> tuple[list[Step], Finished]:
    pair = FakePair(FakeModel(rule), draft)
    list(pair.measure_costs(lambda: False))
    request = AnswerRequest((Message(Role.USER, PROMPT),), SamplingParams(temperature=0), drafting, n_tokens)
    seen, last = answered(pair, request, clock=Ticking())
    assert [e.text for e in seen if isinstance(e, Notice)] == [
        "The draft model failed, the answer goes on without it: The fake failed."
    ]
    assert last.lost == "The fake failed."
    assert last.text == answered(FakePair(FakeModel(rule)), replace(request, drafting=None))[1].text
    return [e for e in seen if isinstance(e, Step)], last


@pytest.mark.parametrize("fails_from", [1, FAILS_AT])
def test_ngram_drafting_continues_without_the_draft_model(fails_from: int) -> None:
    rule = script(SAID_AGAIN * 20, len(PROMPT))
    draft = Failing(mixing(2))
    draft.fails_from = fails_from

    steps, last = without_draft_model(AutoDraft(), rule, draft, 120)

    assert last.stats.draft_n - last.stats.draft_n_model > 60
    assert last.stats.predicted_n / last.stats.verify_steps > 4
    assert last.stats.drafter == "model+ngram"
    assert Source.MODEL.turned_off(Source.MODEL.failed) in {s.drafting.reason for s in steps if s.drafting}


@pytest.mark.parametrize("drafting", [FIXED, AutoDraft(lookup=False)])
def test_tokens_after_a_draft_failure_count_in_the_speedup(drafting: Drafting) -> None:
    steps, last = without_draft_model(drafting, mixing(1), Failing(mixing(1)), 400)

    drafted = [step.stats for step in steps if step.drafting is not None and step.drafting.source == "model"]
    before = [stats.speedup.ratio for stats in drafted if stats.speedup is not None][-1]
    assert last.drafting is not None
    assert last.stats.speedup is not None
    assert (last.drafting.source, last.drafting.reason) == ("off", Source.MODEL.failed)
    assert abs(before - 1) > 0.05
    assert abs(last.stats.speedup.ratio - 1) < 0.7 * abs(before - 1)


REQUEST = AnswerRequest((Message(Role.USER, "a"),), max_tokens=400, stop_on_repeat=True)


def loop() -> FakePair:
    """Return a pair that repeats "eee"."""
    return FakePair(FakeModel(always(5)), FakeModel(always(5)))


@pytest.mark.parametrize("drafting", [None, AutoDraft()])
def test_a_loop_ends_at_the_same_token_with_and_without_drafts(drafting: Drafting) -> None:
    _, last = answered(loop(), replace(REQUEST, drafting=drafting))
    assert (last.reason, last.repeats) == (FinishReason.REPETITION, LEAST_SHORT_TOKENS)
    assert last.text == "e" * LEAST_SHORT_TOKENS


@pytest.mark.parametrize("guidance", [Guidance(schema={"type": "array"}), Guidance(grammar="root ::= [e]+")])
def test_a_grammar_may_ask_for_repetition(guidance: Guidance) -> None:
    assert answered(loop(), replace(REQUEST, guidance=guidance))[1].reason is FinishReason.LENGTH


def test_a_loop_claims_no_speedup() -> None:
    seen, last = answered(loop(), replace(REQUEST, drafting=AutoDraft()))
    assert any(event.stats.speedup for event in seen if isinstance(event, Step))
    assert last.stats.speedup is None


def test_a_loop_teaches_the_pair_no_gain_and_keeps_its_costs() -> None:
    pair = loop()
    list(pair.measure_costs(lambda: False))
    answered(pair, replace(REQUEST, drafting=AutoDraft()))
    assert pair.memory is not None
    assert pair.memory.gain is None
    assert pair.remembered == 1
    answered(pair, replace(REQUEST, drafting=AutoDraft(), stop_on_repeat=False))
    assert pair.memory.gain is not None
