"""What is said of an answer's speed while it is written."""

from __future__ import annotations

from app.engine.strategies.pace import Pace
from app.engine.tuning.stalls import Took


def plain(pace: Pace) -> None:
    pace.observe(1, Took(1e6), 1e6, drafted=False)


def drafted(pace: Pace, tokens: int, took: float) -> None:
    pace.observe(tokens, Took(took * 1e6), 1e6, drafted=True)


def test_one_lucky_draft_among_few_rounds_makes_no_verdict_that_holds() -> None:
    pace = Pace()
    drafted(pace, 5, 1.3)
    for _ in range(7):
        plain(pace)
    assert pace.verdict == "winning"
    assert not pace.holds


def test_many_rounds_that_bring_about_the_same_do() -> None:
    pace = Pace()
    for _ in range(50):
        drafted(pace, 5, 1.3)
        plain(pace)
    assert pace.verdict == "winning"
    assert pace.holds


def test_drafts_that_lose_in_every_round_are_known_by_few() -> None:
    pace = Pace()
    for _ in range(8):
        drafted(pace, 1, 1.5)
    assert pace.verdict == "losing"
    assert pace.holds


def test_what_the_reading_of_the_prompt_took_makes_nothing_lose_for_good() -> None:
    pace = Pace()
    pace.get_ready(5_000_000)
    for _ in range(20):
        drafted(pace, 1, 1.0)
    assert pace.verdict == "losing"
    assert not pace.holds


def test_plain_decoding_breaks_even_for_certain_and_nothing_holds_before_there_is_a_verdict() -> None:
    pace = Pace()
    assert not pace.holds
    for _ in range(8):
        plain(pace)
    assert pace.verdict == "break-even"
    assert pace.holds
