"""The watch over a silent child, tick by tick, with a clock and servers that do as they are told."""

from __future__ import annotations

import pytest

from app.engine.stats import GenerationStats
from app.worker.events import LoadProgress, PromptProgress, Step
from app.worker.isolated.timeouts import AdaptiveTimeout, Limits
from app.worker.isolated.watchdog import Finding, Lost, Quiet, Watchdog

STEP = Step(1, (), GenerationStats())
LIMITS = Limits(least=30, loading=300, unknown=600, stopped=10, noticed=20, factor=8)


class FakeProbe:
    """A probe whose trouble is set; counts what is done with it."""

    def __init__(self) -> None:
        self.says = ""
        self.looks = self.closed = 0

    def trouble(self) -> str:
        self.looks += 1
        return self.says

    def close(self) -> None:
        self.closed += 1


class Watched:
    """A watchdog with one probe and a clock that goes on by a second a tick."""

    def __init__(self, *servers: str) -> None:
        self.now = 0.0
        self.probe = FakeProbe()
        self.made = 0
        self.watchdog = Watchdog(servers or ("a:5",), self._probes, AdaptiveTimeout(LIMITS), clock=lambda: self.now)

    def _probes(self) -> list[FakeProbe]:
        self.made += 1
        return [self.probe]

    def ticks(self, n: int) -> list[Finding]:
        found = []
        for _ in range(n):
            self.now += 1
            found.append(self.watchdog.tick())
        return [finding for finding in found if finding is not None]

    def write(self) -> None:
        """An answer is written, quickly."""
        self.watchdog.begin(loading=False)
        for event in (PromptProgress(1, False, 0, 9), PromptProgress(1, False, 9, 9), STEP, STEP):
            self.now += 1 / 64
            self.watchdog.heard(event)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_silence_is_told_once_and_then_is_the_end(watched: Watched) -> None:
    watched.write()

    assert watched.ticks(19) == []
    (quiet,) = watched.ticks(10)
    assert quiet == Quiet(
        "a:5 has not answered for 20 seconds. That may be work: it is waited for up to 30 seconds, and can be stopped "
        "at any time."
    )
    assert watched.ticks(1) == [Lost("a:5 has not answered for 30 seconds")]
    assert watched.ticks(1000) == []


def test_a_word_in_time_begins_another_silence(watched: Watched) -> None:
    watched.write()
    assert len(watched.ticks(29)) == 1
    watched.watchdog.heard(STEP)

    # It has been known to take so long, then.
    assert watched.ticks(57) == []
    assert len(watched.ticks(1)) == 1
    assert watched.probe.closed == 1


def test_a_slow_prompt_on_a_slow_server_is_waited_for(watched: Watched) -> None:
    watched.watchdog.begin(loading=False)
    watched.watchdog.heard(PromptProgress(1, False, 0, 4096))
    found = []
    for done in range(512, 4097, 512):
        found += watched.ticks(200)
        watched.watchdog.heard(PromptProgress(1, False, done, 4096))
    found += watched.ticks(200)

    # The first time it is worth a word; then that is how it is.
    assert [type(finding) for finding in found] == [Quiet]
    assert "for up to 10 minutes" in found[0].text  # type: ignore[union-attr]


def test_nobody_waits(watched: Watched) -> None:
    assert watched.ticks(1000) == []
    watched.write()
    watched.watchdog.idle()
    assert watched.ticks(1000) == []
    assert watched.made == 0


def test_loading_has_its_own_time(watched: Watched) -> None:
    watched.watchdog.begin(loading=True)
    watched.watchdog.heard(LoadProgress("target", 0.1))

    assert [type(finding) for finding in watched.ticks(299)] == [Quiet]
    assert watched.ticks(1) == [Lost("a:5 has not answered for 5 minutes")]
    # The server would take the probe for the program that it waits for.
    assert watched.made == 0


def test_after_a_stop_the_end_is_near_and_a_new_request_has_all_the_time_again(watched: Watched) -> None:
    watched.write()
    watched.ticks(5)
    watched.watchdog.stopped()

    assert watched.ticks(9) == []
    assert watched.ticks(1) == [Lost("a:5 has not answered for 10 seconds")]
    watched.write()
    assert watched.ticks(19) == []


def test_a_server_that_is_gone_for_sure_is_not_waited_for(watched: Watched) -> None:
    watched.write()
    watched.probe.says = "a:5 cannot be reached: No route to host"

    assert watched.ticks(22) == [Lost("a:5 cannot be reached: No route to host")]
    assert watched.probe.looks == 3


def test_a_network_that_comes_back_is(watched: Watched) -> None:
    watched.write()
    watched.probe.says = "a:5 cannot be reached: Network is unreachable"
    assert watched.ticks(21) == []
    watched.probe.says = ""
    (quiet,) = watched.ticks(1)
    watched.probe.says = "a:5 cannot be reached: Network is unreachable"

    assert isinstance(quiet, Quiet)
    assert watched.ticks(2) == []


def test_what_comes_while_it_looks_counts(watched: Watched) -> None:
    watched.write()
    watched.probe.says = "a:5 cannot be reached: No route to host"
    look = watched.probe.trouble

    def trouble() -> str:
        watched.watchdog.heard(STEP)
        return look()

    watched.probe.trouble = trouble  # type: ignore[method-assign]

    assert watched.ticks(25) == []


def test_a_suspended_program_has_not_listened(watched: Watched) -> None:
    watched.write()
    watched.now += 3600

    assert watched.ticks(19) == []
    watched.watchdog.heard(STEP)
    # Nor was that hour one step.
    assert [type(finding) for finding in watched.ticks(8 * 20)] == [Quiet, Lost]


def test_several_servers_are_all_named() -> None:
    watched = Watched("a:5", "b:6")
    watched.write()

    assert watched.ticks(30)[-1] == Lost("a:5 and b:6 have not answered for 30 seconds")


def test_it_looks_until_it_is_over() -> None:
    probe, found = FakeProbe(), list[Finding]()
    watchdog = Watchdog(["a:5"], lambda: [probe], AdaptiveTimeout(Limits(unknown=0.01, noticed=0.0)), tick_s=0.001)
    watchdog.begin(loading=False)
    watchdog.run(lambda: any(isinstance(finding, Lost) for finding in found), found.append)

    assert [type(finding) for finding in found] == [Quiet, Lost]
    assert probe.closed == 1
