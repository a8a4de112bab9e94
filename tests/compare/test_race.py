"""Races: order, starting state, recorded tokens, stops and failures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from app.compare.race import WARM_UP, Round, RunBegan, RunEnded, Side, race
from app.conversations.message import Message, Role
from app.core.errors import ComputeError
from app.engine.events import PromptProgress, Step
from app.engine.interfaces import Rows
from app.engine.types import AutoDraft, DraftParams, SamplingParams
from app.llama.cancel import CancelFlag
from app.llama.draft_heads import HeadContext
from app.llama.pair import NativePair
from app.worker.events import Event, JobProgressed
from app.worker.request import AnswerRequest
from tests.compare.runs import rounds_of
from tests.fakes import END, FakeModel, mixing, script
from tests.llama.params import pair_params
from tests.llama.tiny_heads import write_eagle3, write_target
from tests.pairs import FakePair

PROMPT = "hello"
GREEDY = AnswerRequest((Message(Role.USER, PROMPT),), SamplingParams(temperature=0), max_tokens=20)
TEXT = list(range(1, 13))


@pytest.fixture
def pair() -> FakePair:
    rule = script(TEXT, len(PROMPT))
    return FakePair(FakeModel(rule), FakeModel(rule))


THREE = [Side("plain", None), Side("fixed", DraftParams(3, 0, 0.0)), Side("automatic", AutoDraft())]


def run_race(
    pair: FakePair,
    sides: Sequence[Side] = THREE,
    request: AnswerRequest = GREEDY,
    repeat: int = 2,
) -> tuple[list[object], tuple[Round, ...]]:
    """Return the events, progress by subject, and the rounds."""
    events = list(race(pair, sides, request, range(WARM_UP, repeat + 1), lambda: False))
    return [getattr(event, "what", event) for event in events], tuple(rounds_of(events))


@pytest.mark.parametrize(("asked", "warm", "whole"), [(100, 16, 100), (5, 5, 5), (None, 16, 123)])
def test_the_warm_up_is_no_longer_than_the_answers(asked: int | None, warm: int, whole: int) -> None:
    endless = FakePair(FakeModel(mixing(3), n_ctx=len(PROMPT) + 122))
    events, rounds = run_race(endless, [Side("plain", None)], replace(GREEDY, max_tokens=asked), 1)

    runs = [e.run for e in events if isinstance(e, RunEnded) and e.round == WARM_UP]
    assert [run.stats.predicted_n for run in runs] == [warm]
    assert rounds[0]["plain"].stats.predicted_n == whole


def test_a_run_records_every_token_and_the_step_that_gave_it(pair: FakePair) -> None:
    events, (round_, _) = run_race(pair)

    plain, fixed = round_["plain"], round_["fixed"]
    assert plain.tokens == fixed.tokens == (*TEXT, END)
    assert [(s.first, s.tokens) for s in plain.steps] == [(i, 1) for i in range(1, 13)]
    assert [(s.first, s.tokens, s.drafted) for s in fixed.steps] == [(n, 4, 3) for n in (1, 5, 9)]
    first = events[events.index(RunBegan("plain", 1)) : events.index(RunBegan("fixed", 1))]
    assert "".join(s.text for e in first if isinstance(e, Step) for s in e.segments) == plain.text


def test_a_run_records_the_time_of_other_programs(pair: FakePair, monkeypatch: pytest.MonkeyPatch) -> None:
    others = iter([0.0, 0.0, 100.0, 106.0])
    monkeypatch.setattr("app.compare.race.others_seconds", others.__next__)
    _, (round_,) = run_race(pair, [Side("plain", None)], repeat=1)
    assert round_["plain"].others_s == 6.0
    assert round_["plain"].wall_s > 0


def test_every_run_adapts_its_threads_as_a_chat_does(pair: FakePair, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_a_thread() -> None:
        pair.threads.n_yields += 1
        pair.threads.n_threads = 2 if pair.threads.n_yields < 4 else 1

    monkeypatch.setattr(pair.threads, "yield_cpu", lose_a_thread)
    _, rounds = run_race(pair, [Side(name, None) for name in ("one", "other")], replace(GREEDY, max_tokens=2), 1)

    # The warm-up is long enough for a stable state.
    assert [run.threads for run in rounds[0].values()] == [(1,), (1,)]
    pair.threads.n_yields = 1
    events, _ = run_race(pair, [Side("plain", None)], repeat=1)
    assert [event.run.threads for event in events if isinstance(event, RunEnded)] == [(1, 2), (1,)]


def test_fixed_drafting_that_drafted_nothing_names_the_setting(pair: FakePair) -> None:
    sides = {"plain": None, "never": DraftParams(0), "fixed": DraftParams(3, 0, 0.0)}
    _, rounds = run_race(pair, [Side(name, way) for name, way in sides.items()], GREEDY, 1)

    assert {name: run.why for name, run in rounds[0].items()} == {"plain": None, "never": "n_max is 0", "fixed": None}


def test_a_failed_draft_model_is_named() -> None:
    draft = FakeModel(mixing(1))
    draft.fail_at = 1
    pair, sides = FakePair(FakeModel(mixing(1)), draft), [Side("fixed", DraftParams(3, 0, 0.5))]
    news = [e.what for e in race(pair, sides, GREEDY, [1], lambda: False) if isinstance(e, JobProgressed)]

    assert [what.run.why for what in news if isinstance(what, RunEnded)] == ["the draft model failed"]


def test_no_side_seems_to_read_with_the_draft_model_before_it_begins() -> None:
    rule = script(TEXT, len(PROMPT))
    pair, sides = FakePair(FakeModel(rule), FakeModel(rule)), [Side("plain", None)]
    events = race(pair, sides, GREEDY, [1], lambda: False, prefix=[*PROMPT.encode()][:3])
    assert {event.drafting for event in events if isinstance(event, PromptProgress)} == {False}


def test_a_draft_model_that_keeps_failing_ends_the_race_and_keeps_the_rounds_before() -> None:
    rule = script(TEXT, len(PROMPT))
    draft = FakeModel(rule)
    pair = FakePair(FakeModel(rule), draft)
    sides = [Side("plain", None), Side("fixed", DraftParams(3, 0, 0.0))]
    events: list[Event] = []

    def break_later(event: Event) -> None:
        events.append(event)
        ended = event.what if isinstance(event, JobProgressed) else None
        if isinstance(ended, RunEnded) and ended.round == 1 and ended.run.contender == "fixed":
            draft.fail_at, draft.fail_with = len(draft.batches) + 2, ComputeError("It failed.")

    with pytest.raises(ComputeError, match=r"^The draft model failed: It failed\.$"):
        list(map(break_later, race(pair, sides, GREEDY, range(4), lambda: False)))
    assert len(rounds_of(events)) == 1


@pytest.mark.native
def test_the_side_without_drafts_takes_no_hidden_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = pair_params(write_target(tmp_path / "target.gguf"), write_eagle3(tmp_path / "eagle.gguf"), n_threads=1)
    pair = NativePair(params, CancelFlag(), lambda *_: True)
    taken: list[str] = []
    take, side = HeadContext.hidden_rows, ""

    def rows(head: HeadContext, n: int) -> Rows:
        taken.append(side)
        return take(head, n)

    monkeypatch.setattr(HeadContext, "hidden_rows", rows)
    request = AnswerRequest((Message(Role.USER, "hi"),), SamplingParams(temperature=0), None, max_tokens=8)
    sides = Side("plain", None), Side("fixed", DraftParams(3, 0, 0.0))
    for event in race(pair, sides, request, [1, 2], lambda: False):
        if isinstance(event, JobProgressed) and isinstance(event.what, RunBegan):
            side = event.what.side
    pair.close()

    assert set(taken) == {"fixed"}
