"""Ctrl+C as a command hears it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from app.cli import main
from app.cli.command_line import parse_args
from app.cli.interrupt import cancel_on_interrupt, ended_at_once, imported_whole
from app.core.errors import INTERRUPTED

ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""How a program is ended from outside."""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDS)}
    for number in ENDS:
        # Anyone who runs the tests may be deaf to them, as under nohup.
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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


@pytest.mark.parametrize("number", ENDS)
def test_who_ends_the_program_cancels_first_as_well(number: signal.Signals) -> None:
    asked: list[bool] = []
    with cancel_on_interrupt(lambda: asked.append(True)):
        signal.raise_signal(number)
        assert asked == [True]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="windows close in another way there")
def test_a_window_that_closes_may_say_so_twice() -> None:
    asked: list[bool] = []
    with cancel_on_interrupt(lambda: asked.append(True)):
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        # A second cancel might wait for a lock that the first one holds.
        assert asked == [True]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="windows close in another way there")
def test_what_hangs_behind_a_closed_window_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr("app.cli.interrupt._LAST_S", 0.0)
    monkeypatch.setattr(os, "_exit", lambda code: ended.set())
    with cancel_on_interrupt(lambda: None):
        signal.raise_signal(signal.SIGHUP)

        assert ended.wait(60)


@pytest.mark.parametrize("number", ENDS)
def test_who_was_started_deaf_to_an_end_stays_so(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    asked: list[bool] = []
    with cancel_on_interrupt(lambda: asked.append(True)):
        signal.raise_signal(number)
        with ended_at_once():
            signal.raise_signal(number)
        assert asked == []
        signal.raise_signal(signal.SIGINT)
    assert asked == [True]


def test_a_question_is_left_with_the_first_one() -> None:
    asked: list[bool] = []
    with cancel_on_interrupt(lambda: asked.append(True)):
        with ended_at_once():
            assert all(signal.getsignal(number) is signal.SIG_DFL for number in ENDS)
        with pytest.raises(KeyboardInterrupt), ended_at_once():
            signal.raise_signal(signal.SIGINT)
        assert asked == []
        signal.raise_signal(signal.SIGINT)
    assert asked == [True]


def test_what_is_imported_is_imported_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def slowly(argv: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        done.append("imported")
        return parse_args(argv)

    monkeypatch.setattr("app.cli.command_line.parse_args", slowly)
    assert main(["settings", "path"]) == INTERRUPTED
    assert done == ["imported"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_an_import_goes_before_an_interruption() -> None:
    with pytest.raises(ImportError), imported_whole():
        raise ImportError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_listens_already_is_told_at_once() -> None:
    heard: list[bool] = []
    with cancel_on_interrupt(lambda: heard.append(True)), imported_whole():
        signal.raise_signal(signal.SIGINT)
        assert heard == [True]


def test_who_is_deaf_imports_as_ever() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with imported_whole():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
