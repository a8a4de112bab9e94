"""What silence is too long, by what the same work took before."""

from __future__ import annotations

import pytest

from app.engine.stats import GenerationStats
from app.worker.events import Event, JobProgressed, LoadProgress, Measuring, PromptProgress, Step
from app.worker.isolated.timeouts import CHUNK, AdaptiveTimeout, Limits

LIMITS = Limits(least=30, loading=300, unknown=600, stopped=10, noticed=20, factor=8)
STEP = Step(1, (), GenerationStats())


def after(*heard: tuple[Event, float], loading: bool = False) -> AdaptiveTimeout:
    """The timeout after events, each with the seconds of silence before it."""
    timeout = AdaptiveTimeout(LIMITS)
    timeout.begin(loading=loading)
    for event, silence in heard:
        timeout.heard(event, silence)
    return timeout


def prompt(done: int, *, drafting: bool = False) -> Event:
    return PromptProgress(1, drafting, done, 4000)


def test_what_nothing_is_known_of_gets_the_most() -> None:
    assert after().limit_s == 600
    assert after((prompt(0), 1)).limit_s == 600
    assert after((Measuring(1, 0.5), 1)).limit_s == 600
    assert after((STEP, 1), (JobProgressed(1, "x"), 1)).limit_s == 600


def test_a_slow_server_gets_what_its_chunks_take() -> None:
    timeout = after((prompt(0), 1), (prompt(512), 90))

    assert timeout.limit_s == 8 * 90
    assert timeout.notice_s == 2 * 90
    # The last chunk was a short one; a whole one still takes what it takes.
    timeout.heard(prompt(522), 2)
    assert timeout.limit_s == pytest.approx(8 * CHUNK * 0.2)


def test_what_was_in_the_cache_is_no_speed() -> None:
    assert after((prompt(3000), 1)).limit_s == 600
    assert after((prompt(3000), 1), (prompt(3010), 10)).limit_s == 8 * CHUNK


def test_the_next_prompt_goes_by_the_one_before() -> None:
    timeout = after((prompt(0), 1), (prompt(512), 90), (STEP, 1))
    timeout.begin(loading=False)

    assert timeout.limit_s == 8 * 90
    timeout.heard(prompt(0), 60)
    assert timeout.limit_s == 8 * 90


def test_a_quick_server_hangs_soon() -> None:
    timeout = after((prompt(0), 1), (prompt(512), 0.5), (STEP, 0.1), (STEP, 0.02))

    assert (timeout.limit_s, timeout.notice_s) == (30, 20)


def test_steps_go_by_steps_and_the_first_by_the_prompt() -> None:
    timeout = after((prompt(0), 1), (prompt(512), 90), (STEP, 3))

    assert timeout.limit_s == 8 * 90
    timeout.heard(STEP, 10)
    timeout.heard(STEP, 5)
    assert timeout.limit_s == 8 * 10


def test_loading_gets_time_for_its_largest_tensor() -> None:
    timeout = after((LoadProgress("target", 0.1), 6), (LoadProgress("target", 0.2), 20), loading=True)

    assert timeout.limit_s == 300
    timeout.heard(LoadProgress("target", 0.3), 50)
    assert timeout.limit_s == 8 * 50


def test_another_pair_is_begun_with_nothing_known() -> None:
    timeout = after((prompt(0), 1), (prompt(512), 90), (STEP, 1), (STEP, 9))
    timeout.begin(loading=True)
    timeout.begin(loading=False)

    assert timeout.limit_s == 600


def test_after_a_stop_less_is_waited_for_and_never_less_than_is_usual() -> None:
    assert after((prompt(0), 1)).stopped_limit_s == 10
    assert after((prompt(0), 1), (prompt(512), 90)).stopped_limit_s == 180
