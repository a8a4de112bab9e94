"""Ctrl+C as a command hears it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from app.cli import main
from app.cli.interrupt import cancel_on_interrupt, imported_whole
from app.cli.parser import build_parser
from app.errors import INTERRUPTED


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


def test_what_is_imported_is_imported_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def slowly() -> Any:
        signal.raise_signal(signal.SIGINT)
        done.append("imported")
        return build_parser()

    monkeypatch.setattr("app.cli.parser.build_parser", slowly)
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
