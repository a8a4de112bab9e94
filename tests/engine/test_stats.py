"""Numbers of an answer: counted, timed, and read back from the store."""

from dataclasses import replace

import pytest

from app.engine.drafting_report import Speedup
from app.engine.sources import Source
from app.engine.stats import FEWEST_READ, GenerationStats
from app.engine.step_timer import StepTimer

STATS = GenerationStats(
    prompt_n=100,
    predicted_n=101,
    draft_n=40,
    draft_n_accepted=18,
    draft_n_model=40,
    drafted_steps=10,
    verify_steps=80,
    prompt_ns=1_000_000_000,
    first_token_ns=210_000_000,
    predicted_ns=2_000_000_000,
)
WON = replace(STATS, drafter="mtp+ngram", mode="auto", speedup=Speedup(2.0, measured=True, verdict="winning"))


def test_numbers_are_read_back_from_the_store() -> None:
    assert GenerationStats.read(WON.document) == WON
    assert str(WON) == "101 tokens, 50 tok/s, 2.0×, MTP layer, 45% accepted, 1.2 tokens per step"


def test_the_store_has_the_names_of_every_version() -> None:
    assert WON.document == {
        "prompt_n": 100,
        "cache_n": 0,
        "predicted_n": 101,
        "predicted_per_second": 50.0,
        "tokens_per_second": 50.0,
        "reading_per_second": 100.0,
        "draft_n": 40,
        "draft_n_accepted": 18,
        "mean_accepted_length": 1.25,
        "first_token_ms": 210.0,
        "predicted_ms": 2000.0,
        "acceptance": 0.45,
        "draft_length": 4.0,
        "drafter": "mtp+ngram",
        "mode": "auto",
        "model_share": 1.0,
        "speedup": 2.0,
        "speedup_measured": True,
        "verdict": "winning",
    }


def test_an_answer_of_an_earlier_version_has_an_estimate_and_its_measuring_time() -> None:
    old = {"predicted_n": 412, "predicted_per_second": 106.7, "draft_n": 9, "acceptance": 0.78, "speedup": 3.14}
    numbers = GenerationStats.read({**old, "first_token_ms": 210, "measuring_ms": 90})

    assert (numbers.speedup, numbers.first_token_ms) == (Speedup(3.14, measured=False), 300)
    assert str(numbers) == "412 tokens, 107 tok/s, 3.1× (estimate), 7 of 9 accepted"


@pytest.mark.parametrize("value", ["fast", None, True, float("nan"), float("inf"), 10**400, -1, [], {}])
def test_stored_values_that_are_no_numbers_are_left_out(value: object) -> None:
    names = ("predicted_n", "predicted_per_second", "speedup", "acceptance", "first_token_ms", "draft_n")
    numbers = GenerationStats.read(dict.fromkeys(names, value) | {"verdict": 7})

    assert numbers == GenerationStats()
    assert str(numbers) == "No numbers were stored."


def test_a_stored_rate_too_small_for_any_count_was_not_measured() -> None:
    rates = dict.fromkeys(("predicted_per_second", "tokens_per_second", "mean_accepted_length", "draft_length"), 1e-310)
    numbers = GenerationStats.read({"predicted_n": 10, "draft_n": 4, **rates})

    assert numbers == GenerationStats(predicted_n=10, draft_n=4)


def test_the_speed_of_a_single_token_was_not_measured() -> None:
    numbers = replace(STATS, predicted_n=1, predicted_ns=0)

    assert numbers.pace == "1 token"
    assert not {"predicted_per_second", "tokens_per_second"} & numbers.document.keys()


def test_the_speed_without_drafts_is_known_only_if_measured() -> None:
    assert WON.undrafted_speed == 25.0
    assert replace(WON, speedup=Speedup(2.0)).undrafted_speed is None


def test_rates_are_tokens_per_second_and_the_first_token_is_prompt_time() -> None:
    stats = GenerationStats(prompt_n=32, prompt_ns=500_000_000, draft_prompt_ns=1_500_000_000)
    stats.predicted_n, stats.predicted_ns, stats.verify_steps, stats.native_ns = 11, 500_000_000, 5, 499_999_999

    assert stats.reading_per_second == 64.0
    assert stats.prompt_per_second == 16.0
    assert stats.predicted_per_second == 20.0
    assert stats.tokens_per_second == 5.0
    assert stats.mean_accepted_length == 2.0
    assert stats.overhead_ns == 1
    assert stats.acceptance is None
    stats.native_ns = 500_000_002
    assert stats.overhead_ns == 0, "two clocks may differ"


@pytest.mark.parametrize(("n", "ns", "rate"), [(1, 1, 1e9), (0, 1, None), (1, 0, None)])
def test_a_rate_needs_tokens_and_time(n: int, ns: int, rate: float | None) -> None:
    stats = GenerationStats(prompt_n=n, prompt_ns=ns, predicted_n=n + 1, predicted_ns=ns)

    assert (stats.prompt_per_second, stats.predicted_per_second, stats.tokens_per_second) == (rate, rate, rate)


@pytest.mark.parametrize(("n", "rate"), [(FEWEST_READ - 1, None), (FEWEST_READ, FEWEST_READ * 1e9)])
def test_a_few_prompt_tokens_give_no_prefill_speed(n: int, rate: float | None) -> None:
    assert GenerationStats(prompt_n=n, prompt_ns=1).reading_per_second == rate


def test_steps_are_counted_and_accepted_tokens_by_position() -> None:
    stats = GenerationStats()
    model, ngram = Source.MODEL, Source.NGRAM
    for drafted, n_accepted in (((), 0), ((model, model, ngram), 1), ((ngram,) * 4, 3)):
        stats.observe_step(drafted, n_accepted)
    before = stats.snapshot()
    stats.observe_step((model,), 1)

    assert (before.verify_steps, before.drafted_steps) == (3, 2)
    assert (before.draft_n, before.draft_n_model, before.draft_n_accepted) == (7, 2, 4)
    assert before.acceptance == 4 / 7
    assert before.accepted_by_position == (2, 1, 1)


class Machine:
    """A wall clock, a work clock at half its speed, and a count of native time."""

    def __init__(self) -> None:
        self.now = self.native = 0
        self.timer = StepTimer(lambda: self.now, lambda: self.now // 2, lambda: self.native)

    def spend(self, ns: int, *, native: int = 0) -> None:
        self.now += ns
        self.native += native

    @property
    def counted(self) -> GenerationStats:
        stats = GenerationStats()
        self.timer.count(stats)
        return stats


def test_a_step_and_its_draft_are_timed_by_both_clocks() -> None:
    machine = Machine()
    machine.spend(100)
    machine.timer.begin_draft()
    machine.spend(40, native=30)
    machine.timer.end_draft()
    machine.spend(60, native=50)
    machine.timer.end_step()
    timer, stats = machine.timer, machine.counted

    assert (timer.wall_ns, timer.work_ns, timer.draft_work_ns, timer.stretch) == (200, 100, 20, 2.0)
    assert (stats.draft_ns, stats.predicted_ns, stats.native_ns, stats.overhead_ns) == (40, 200, 80, 120)


@pytest.mark.parametrize(("left_out_ns", "predicted_ns"), [(None, 300), (1000, 2300), (3000, 300)])
def test_a_pause_is_not_part_of_a_step(left_out_ns: int | None, predicted_ns: int) -> None:
    machine = Machine()
    machine.spend(100)
    machine.timer.pause()
    machine.spend(3000, native=2000)
    machine.timer.resume(left_out_ns)
    machine.spend(200)
    machine.timer.end_step()

    assert (machine.timer.wall_ns, machine.timer.work_ns) == (300, 150)
    assert (machine.counted.predicted_ns, machine.counted.native_ns) == (predicted_ns, 0)


def test_a_continued_answer_is_counted_as_a_whole() -> None:
    before = replace(STATS, predicted_n=100, draft_n=10, draft_n_accepted=0, predicted_ns=4_000_000_000)
    whole = STATS.after(before)

    assert (whole.predicted_n, whole.predicted_ms, whole.accepted) == (201, 6000.0, "36% accepted")
    assert whole.tokens_per_second == pytest.approx(200 / 6)
    assert (whole.first_token_ms, whole.draft_length) == (210.0, 50 / (40 / 4 + 10 / 1))


def test_a_beginning_without_numbers_leaves_those_of_the_rest() -> None:
    assert WON.after(GenerationStats()) == WON
