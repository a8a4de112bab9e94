"""Ctrl+C as a command hears it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from app.cli.interrupt import cancel_on_interrupt


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_cancels_and_the_second_is_pythons_own() -> None:
    asked: list[bool] = []
    with cancel_on_interrupt(lambda: asked.append(True)):
        signal.raise_signal(signal.SIGINT)
        assert asked == [True]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_program_that_was_started_deaf_to_it_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked: list[bool] = []
    with cancel_on_interrupt(lambda: asked.append(True)):
        signal.raise_signal(signal.SIGINT)
    assert asked == []
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
