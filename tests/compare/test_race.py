"""Races: who runs when, from which state, what counts, and what the figures allow to say."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

import pytest

from app.compare.measure import Spread, in_figures, measure, outcome, spread, verdict
from app.compare.race import (
    WARM_UP,
    Contender,
    RaceBroken,
    RaceEvent,
    RaceProgress,
    Round,
    Run,
    RunEnded,
    Steps,
    in_process,
    race,
)
from app.compare.report import crowded, run_json
from app.conversations.message import Message, Role
from app.core.errors import ComputeError
from app.engine.stats import GenerationStats
from app.engine.types import AutoDraft, DraftParams, FinishReason, SamplingParams
from app.worker.events import Step
from app.worker.request import AnswerRequest
from tests.fakes import END, FakeModel, mixing, script
from tests.pairs import FakePair

PROMPT = "hello"
GREEDY = AnswerRequest((Message(Role.USER, PROMPT),), SamplingParams(temperature=0), max_tokens=20)
TEXT = list(range(1, 13))


@pytest.fixture
def pair() -> FakePair:
    rule = script(TEXT, len(PROMPT))
    return FakePair(FakeModel(rule), FakeModel(rule))


def three(pair: FakePair) -> list[Contender]:
    ways = {"plain": None, "fixed": DraftParams(3, 0, 0.0), "automatic": AutoDraft()}
    return [in_process(pair, name, way) for name, way in ways.items()]


def run_race(
    contenders: Sequence[Contender],
    request: AnswerRequest = GREEDY,
    repeat: int = 2,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[list[RaceProgress], list[Round]]:
    events: list[RaceProgress] = []
    work = race(contenders, request, repeat, cancelled)
    while True:
        try:
            events.append(next(work))
        except StopIteration as ended:
            return events, ended.value


def made(name: str, ns: int, n: int = 11, *, draft_prompt_ns: int = 0, drafted: int = 0, accepted: int = 0) -> Run:
    stats = GenerationStats(predicted_n=n, predicted_ns=ns, draft_prompt_ns=draft_prompt_ns, verify_steps=5)
    stats.draft_n, stats.draft_n_accepted = drafted, accepted
    return Run(name, (1,), (1,), "", FinishReason.STOP, stats)


def test_what_other_programs_did_meanwhile_is_in_the_run(pair: FakePair) -> None:
    clock, others = iter([10.0, 14.0]), iter([100.0, 106.0])
    run = Steps(
        in_process(pair, "plain", None, clock=clock.__next__, others=others.__next__).answer(GREEDY, lambda: False)
    )
    list(run)
    assert (run.result.wall_s, run.result.others_s) == (4.0, 6.0)


@pytest.mark.parametrize(
    ("wall_s", "others_s", "told"),
    [(10.0, 5.9, None), (10.0, 12.5, "used 1.2 of 2 cores"), (10.0, 25.0, "used 2.0 of 2"), (0.1, 1.0, None)],
)
def test_figures_from_beside_other_programs_are_not_given_without_a_word(
    wall_s: float, others_s: float, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.compare.report.usable_processors", lambda: frozenset({0, 1}))
    half = replace(made("plain", 10), wall_s=wall_s / 2, others_s=others_s / 2)
    said = crowded([{"plain": half}, {"plain": half}])
    assert said is None if told is None else said is not None and told in said


def test_every_run_adapts_its_threads_as_a_chat_does_and_notes_them(
    pair: FakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_a_thread() -> None:
        pair.n_yields += 1
        pair.n_threads = 2 if pair.n_yields < 4 else 1

    monkeypatch.setattr(pair, "yield_cpu", lose_a_thread)
    _, rounds = run_race([in_process(pair, name, None) for name in ("one", "other")], replace(GREEDY, max_tokens=2), 1)

    # The warm-up is long enough to settle; a run is not measured under another count than is noted.
    assert [run.threads for run in rounds[0].values()] == [(1,), (1,)]
    pair.n_yields = 1
    work = Steps(in_process(pair, "plain", None).answer(GREEDY, lambda: False))
    list(work)
    assert work.result.threads == (1, 2)


def test_a_thread_count_that_changed_is_reported() -> None:
    before, after = replace(made("plain", 10), threads=(2,)), replace(made("automatic", 10), threads=(1,))
    assert crowded([{"plain": before}]) is None
    said = crowded([{"plain": before, "automatic": after}])
    assert said is not None
    assert "CPU threads varied from 1 to 2" in said


def test_the_time_of_the_prompt_is_both_models_as_everywhere() -> None:
    stats = GenerationStats(prompt_ns=20_000_000, draft_prompt_ns=5_000_000)
    told = run_json(replace(made("automatic", 10), stats=stats), 1, steps=False)
    assert (told["prompt_ms"], told["draft_prompt_ms"]) == (25.0, 5.0)


def test_the_order_turns_and_the_warm_up_comes_first(pair: FakePair) -> None:
    events, rounds = run_race(three(pair), repeat=3)

    order = [(e.round, e.run.contender) for e in events if isinstance(e, RunEnded)]
    forwards = ["plain", "fixed", "automatic"]
    assert [name for number, name in order if number == 1] == forwards
    assert [name for number, name in order if number == 2] == forwards[::-1]
    assert [name for number, name in order if number == 3] == forwards
    assert [number for number, _ in order[:3]] == [WARM_UP] * 3
    assert len(rounds) == 3


@pytest.mark.parametrize(("asked", "warm", "whole"), [(100, 16, 100), (5, 5, 5), (None, 16, 123)])
def test_the_warm_up_is_short_and_no_longer_than_the_answers(asked: int | None, warm: int, whole: int) -> None:
    endless = FakePair(FakeModel(mixing(3), n_ctx=len(PROMPT) + 122))
    events, rounds = run_race([in_process(endless, "plain", None)], replace(GREEDY, max_tokens=asked), 1)

    runs = [e.run for e in events if isinstance(e, RunEnded) and e.round == WARM_UP]
    assert [run.stats.predicted_n for run in runs] == [warm]
    assert rounds[0]["plain"].stats.predicted_n == whole


def test_every_run_starts_from_empty_caches(pair: FakePair) -> None:
    events, _ = run_race(three(pair))

    runs = [e.run for e in events if isinstance(e, RunEnded)]
    assert {run.stats.cache_n for run in runs} == {0}
    assert {run.stats.prompt_n for run in runs} == {len(PROMPT)}
    draft = pair.drafter.cache._model if pair.drafter is not None else None
    assert isinstance(draft, FakeModel)
    read = [batch for batch in draft.batches if batch == runs[0].prompt]
    # Automatic drafting may leave it out, by what these fakes' costs were measured to be.
    fixed, drafted = (sum(run.contender in names for run in runs) for names in (("fixed",), ("fixed", "automatic")))
    assert fixed <= len(read) <= drafted, "the draft must read the prompt in every run"


def test_a_run_knows_every_token_and_which_round_gave_it(pair: FakePair) -> None:
    _, (round_, _) = run_race(three(pair))

    plain, fixed = round_["plain"], round_["fixed"]
    assert plain.tokens == fixed.tokens == (*TEXT, END)
    assert [(s.first, s.tokens) for s in plain.steps] == [(i, 1) for i in range(1, 13)]
    assert [(s.first, s.tokens, s.drafted, s.accepted) for s in fixed.steps] == [
        (1, 4, 3, 3),
        (5, 4, 3, 3),
        (9, 4, 3, 3),
    ]
    assert sum(s.ns for s in fixed.steps) == fixed.stats.predicted_ns


def test_a_screen_can_tell_whose_text_it_is(pair: FakePair) -> None:
    events, rounds = run_race(three(pair), repeat=1)

    shown: dict[str, str] = {}
    for e in events:
        if isinstance(e, RaceEvent) and e.round == 1 and isinstance(e.event, Step):
            text = "".join(s.text for s in e.event.segments)
            shown[e.contender] = shown.get(e.contender, "") + text
    assert shown == {name: rounds[0][name].text for name in ("plain", "fixed", "automatic")}


def test_a_stop_keeps_whole_rounds_only(pair: FakePair) -> None:
    ended = 0

    def cancelled() -> bool:
        return ended >= 8  # the warm-up's three, the first round's three, two of the second

    rounds: list[Round] = []
    work = race(three(pair), GREEDY, 5, cancelled)
    while True:
        try:
            ended += isinstance(next(work), RunEnded)
        except StopIteration as done:
            rounds = done.value
            break
    assert len(rounds) == 1
    assert set(rounds[0]) == {"plain", "fixed", "automatic"}


def test_fixed_drafting_that_drafted_nothing_says_which_setting_did_it(pair: FakePair) -> None:
    sides = {"plain": None, "never": DraftParams(0), "fixed": DraftParams(3, 0, 0.0)}
    _, rounds = run_race([in_process(pair, name, way) for name, way in sides.items()], GREEDY, 1)

    assert {name: run.why for name, run in rounds[0].items()} == {"plain": "", "never": "n_max is 0", "fixed": ""}


def test_a_side_whose_draft_model_fails_at_once_says_that() -> None:
    draft = FakeModel(mixing(1))
    draft.fail_at = 1
    pair = FakePair(FakeModel(mixing(1)), draft)
    contenders = [in_process(pair, "fixed", DraftParams(3, 0, 0.5))]
    ended = [e for e in race(contenders, GREEDY, 1, lambda: False, warm_up_tokens=0) if isinstance(e, RunEnded)]

    assert [one.run.why for one in ended] == ["the draft model failed"]


def test_a_draft_that_can_draft_no_more_ends_the_race_with_the_rounds_before() -> None:
    rule = script(TEXT, len(PROMPT))
    draft = FakeModel(rule)
    pair = FakePair(FakeModel(rule), draft)
    sides = [in_process(pair, "plain", None), in_process(pair, "fixed", DraftParams(3, 0, 0.0))]
    steps = Steps(race(sides, GREEDY, 3, lambda: False))
    events: list[RaceProgress] = []
    for event in steps:
        events.append(event)
        if isinstance(event, RunEnded) and event.round == 1 and event.run.contender == "fixed":
            draft.fail_at, draft.fail_with = len(draft.batches) + 2, ComputeError("It failed.")

    assert isinstance(events[-1], RaceBroken)
    assert events[-1].error.message == "The draft model failed: It failed."
    assert len(steps.result) == 1


def test_a_cancelled_run_does_not_count() -> None:
    pair = FakePair(FakeModel(mixing(1)))
    seen = 0

    def cancelled() -> bool:
        nonlocal seen
        seen += 1
        return seen > 40

    _, rounds = run_race([in_process(pair, "plain", None)], replace(GREEDY, max_tokens=400), 2, cancelled)
    assert rounds == []


def test_the_drafts_reading_counts_against_it() -> None:
    rounds = [{"plain": made("plain", 1000), "draft": made("draft", 500, draft_prompt_ns=500)}]

    ratio = measure([rounds], "draft", "plain").ratio
    assert ratio is not None
    assert ratio.median == 1.0


def test_ratios_are_taken_within_a_round_so_that_drift_cancels() -> None:
    drift = (1.0, 1.5, 3.0)
    rounds = [{"plain": made("plain", round(1000 * d)), "draft": made("draft", round(500 * d))} for d in drift]

    m = measure([rounds], "draft", "plain")
    assert m.ratio is not None
    assert m.tokens_per_second is not None
    assert m.ratio.width == pytest.approx(0.0)
    assert m.ratio.median == pytest.approx(2.0)
    assert m.tokens_per_second.width > 0


def test_several_prompts_weigh_by_equal_tokens() -> None:
    slow = [{"plain": made("plain", 3000), "draft": made("draft", 1000)}]
    fast = [{"plain": made("plain", 1000), "draft": made("draft", 1000)}]
    one_token = [{"plain": made("plain", 0, n=1), "draft": made("draft", 900)}]

    ratio = measure([slow, fast, one_token], "draft", "plain").ratio
    assert ratio == Spread(2.0, 2.0, 2.0, 1)


def test_prompts_on_which_nothing_was_drafted_make_the_whole_neither_faster_nor_slower() -> None:
    drafted = [{"plain": made("plain", 1500), "draft": made("draft", 1000, drafted=4)}]
    undrafted = [{"plain": made("plain", 9000), "draft": made("draft", 3000)}]

    ratio = measure([drafted, undrafted], "draft", "plain").ratio
    assert ratio is not None
    assert ratio.median == pytest.approx((1500 + 6000) / (1000 + 6000)), "as if both had taken the mean of both"
    speed = measure([drafted, undrafted], "draft", "plain").tokens_per_second
    assert speed is not None
    assert speed.median == pytest.approx(1e9 / ((100 + 300) / 2)), "as it was measured"


def test_what_another_program_did_is_no_work_alike() -> None:
    def server(ns: int) -> Run:
        return replace(made("server", ns), tokens=())

    drafted = [{"server": server(1000), "draft": made("draft", 1000, drafted=4)}]
    undrafted = [{"server": server(1000), "draft": made("draft", 3000)}]

    ratio = measure([drafted, undrafted], "draft", "server").ratio
    assert ratio == Spread(0.5, 0.5, 0.5, 1)


def test_acceptance_is_over_all_rounds() -> None:
    rounds = [
        {"draft": made("draft", 900, drafted=10, accepted=10)},
        {"draft": made("draft", 900, drafted=30, accepted=10)},
    ]
    m = measure([rounds], "draft", "draft")
    assert m.acceptance == 0.5
    assert m.tokens_per_verify == 2.0
    assert m.ratio is None


@pytest.mark.parametrize(
    ("ratios", "expected", "words"),
    [
        ((2.0, 2.1, 2.2), "faster", "2.1× faster (3 runs each, alternating: 2.0 to 2.2)"),
        ((0.5, 0.52, 0.55), "slower", "slower, 0.5× the speed (3 runs each, alternating: 0.50 to 0.55)"),
        ((1.02,), "unclear", "no speedup, too few runs to tell (1 run each; more: --repeat 3)"),
        ((3.1,), "unclear", "3.1× faster, too few runs to tell (1 run each; more: --repeat 3)"),
        ((0.5, 0.52), "slower", "slower, 0.5× the speed (2 runs each, alternating: 0.50 to 0.52)"),
        (
            (1.2, 1.3),
            "unclear",
            "1.2× faster, too few runs to tell (2 runs each, alternating: 1.20 to 1.30; more: --repeat 3)",
        ),
        (
            (1.0, 1.05, 1.1),
            "unclear",
            "1.1× faster, too few runs to tell (3 runs each, alternating: 1.00 to 1.10; more: --repeat 10)",
        ),
        (
            (0.81, 0.9, 0.99),
            "unclear",
            "slower, 0.9× the speed, too few runs to tell (3 runs each, alternating: 0.81 to 0.99; more: --repeat 10)",
        ),
        (
            (0.81, 0.88, 0.9, 0.9, 0.92, 0.99),
            "slower",
            "slower, 0.9× the speed (6 runs each, alternating: 0.81 to 0.99)",
        ),
        ((0.99, 1.0, 1.01), "tie", "no speedup (3 runs each, alternating: 0.99 to 1.01)"),
        ((0.98, 0.981, 0.982), "tie", "no speedup (3 runs each, alternating: 0.98 to 0.98)"),
        (
            (0.95, 1.0, 1.0),
            "unclear",
            "no speedup, too few runs to tell (3 runs each, alternating: 0.95 to 1.00; more: --repeat 10)",
        ),
    ],
)
def test_the_verdict_says_no_more_than_the_spread_allows(ratios: tuple[float, ...], expected: str, words: str) -> None:
    assert outcome(spread(ratios)) == expected
    assert verdict(spread(ratios)) == words


@pytest.mark.parametrize("ns", [670, 1500])
def test_what_drafted_and_read_nothing_is_plain_decoding_whatever_the_clock_says(ns: int) -> None:
    rounds = [{"plain": made("plain", 1000), "automatic": made("automatic", ns)}]

    m = measure([rounds], "automatic", "plain")
    assert m.as_json()["verdict"] == "same"
    assert m.ratio is not None
    assert verdict(m.ratio, "r", work=m.work) == "no speedup: nothing was drafted (1 run each)"
    assert in_figures(m.ratio, work=m.work) == "no draft"


def test_a_prompt_that_was_read_for_nothing_makes_slower_and_never_faster() -> None:
    def told(ns: int) -> str:
        rounds = [{"plain": made("plain", 1000), "automatic": made("automatic", ns, draft_prompt_ns=500)}] * 2
        m = measure([rounds], "automatic", "plain")
        return verdict(m.ratio, work=m.work)

    assert told(1000).startswith("slower, 0.7× the speed")
    assert told(100).startswith("no speedup: nothing was drafted (2 runs each, ")
    assert told(500) == "no speedup (2 runs each, alternating: 1.00 to 1.00)", "nothing to explain"


def test_one_drafted_token_or_an_answer_from_elsewhere_is_work_of_its_own() -> None:
    plain = made("plain", 1000)
    drafting = [{"plain": plain, "side": made("side", 1500)}, {"plain": plain, "side": made("side", 1500, drafted=1)}]
    server = [{"plain": plain, "side": replace(made("side", 1500), tokens=())}]
    for rounds in (drafting, server):
        m = measure([rounds * 2], "side", "plain")
        assert outcome(m.ratio, work=m.work) == "slower"


def test_a_table_says_a_tie_too_and_what_is_not_clear() -> None:
    def told(*ratios: float) -> str:
        measured = spread(ratios)
        assert measured is not None
        return in_figures(measured)

    assert told(3.0, 3.1, 3.2) == "3.1× (3.0 to 3.2)"
    assert told(0.995, 1.0, 1.004) == "1.00× (0.99 to 1.00), a tie"
    assert told(1.02) == "1.02×?"
    assert told(0.81, 0.9, 0.99) == "0.90×? (0.81 to 0.99)"


@pytest.mark.parametrize(
    ("n_runs", "sd"), [(2, 0.05), (3, 0.01), (3, 0.1), (5, 0.05), (6, 0.05), (12, 0.05), (30, 0.1)]
)
def test_two_sides_alike_are_seldom_called_different_whatever_the_noise(n_runs: int, sd: float) -> None:
    rng = random.Random(1)
    said = [outcome(spread(math.exp(rng.gauss(0, sd)) for _ in range(n_runs))) for _ in range(2000)]

    assert sum(one in ("faster", "slower") for one in said) < 0.06 * len(said)


def test_more_runs_tell_what_few_cannot() -> None:
    rng = random.Random(1)
    few = [outcome(spread(0.9 * math.exp(rng.gauss(0, 0.05)) for _ in range(3))) for _ in range(200)]
    many = [outcome(spread(0.9 * math.exp(rng.gauss(0, 0.05)) for _ in range(12))) for _ in range(200)]

    assert set(few) == {"slower", "unclear"}
    assert many.count("slower") > 0.95 * len(many) > few.count("slower")


def test_each_number_of_runs_that_is_advised_tells_more_than_the_one_before() -> None:
    rng = random.Random(1)
    told = []
    for n_runs in (3, 10, 30, 100):
        said = [outcome(spread(1.05 * math.exp(rng.gauss(0, 0.04)) for _ in range(n_runs))) for _ in range(300)]
        told.append(said.count("faster") / len(said))

    assert told == sorted(told)
    assert told[1] > 0.7
    assert told[2] > 0.95


def test_runs_in_which_the_machine_stood_still_hide_nothing_among_many() -> None:
    rng = random.Random(1)
    ratios = [1.05 * math.exp(rng.gauss(0, 0.01)) for _ in range(30)]

    assert outcome(spread([*ratios[2:], 0.2, 5.0])) == "faster"


def test_of_eleven_runs_the_interval_is_the_sign_tests() -> None:
    measured = spread(range(1, 12))
    assert measured is not None
    # Between the 2nd and the 3rd smallest, which hold in 98.8 and 93.5 of 100 cases.
    assert measured.likely == pytest.approx((2.918, 9.082), abs=0.001)


def test_nothing_measured_is_said_so() -> None:
    assert outcome(None) == "unknown"
    assert verdict(None) == "not measured: the answers are too short"


def work(done: list[str]) -> Generator[int, None, str]:
    try:
        yield 1
        yield 2
    finally:
        done.append("closed")
    return "three"


def test_the_result_comes_after_the_last_step() -> None:
    steps = Steps(work([]))

    assert list(steps) == [1, 2]
    assert steps.result == "three"


def test_a_loop_that_is_left_ends_the_work() -> None:
    done: list[str] = []
    steps = Steps(work(done))
    for _ in steps:
        break
    with pytest.raises(AttributeError):
        _ = steps.result
    del steps

    assert done == ["closed"]
