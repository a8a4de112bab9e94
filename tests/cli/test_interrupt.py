"""Ctrl+C and termination signals as cancel requests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from app.cli.interrupt import cancel_on_interrupt

ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that end a program from outside."""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDS)}
    for number in ENDS:
        # The test run may ignore them, as under nohup.
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, *ENDS])
def test_the_first_signal_cancels_and_the_second_ends(number: signal.Signals) -> None:
    asked: list[bool] = []
    with cancel_on_interrupt(lambda: asked.append(True)):
        signal.raise_signal(number)
        assert asked == [True]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, *ENDS])
def test_ignored_signals_stay_ignored(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    asked: list[bool] = []
    with cancel_on_interrupt(lambda: asked.append(True)):
        signal.raise_signal(number)
        assert asked == []
    assert signal.getsignal(number) is signal.SIG_IGN
