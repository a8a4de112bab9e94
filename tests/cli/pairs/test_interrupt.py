"""Ctrl+c in `tandem pairs` ends it, whatever it is at."""

from __future__ import annotations

import signal
from typing import Any, NoReturn

import pytest

from app.cli import main
from app.core.errors import INTERRUPTED
from app.models.compatibility import check_pair


def interrupted(*_: Any) -> NoReturn:
    signal.raise_signal(signal.SIGINT)
    pytest.fail("it went on")


@pytest.mark.parametrize("command", [["list"], ["show", "demo"], ["default", "demo"]])
def test_what_does_not_look_whether_to_stop_is_stopped(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setattr("app.models.registry.Registry.read", interrupted)
    assert main(["pairs", *command]) == INTERRUPTED


def test_a_check_that_had_nothing_left_to_stop_was_interrupted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*args: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return check_pair(*args)

    monkeypatch.setattr("app.cli.pairs_check.check_pair", late)
    assert main(["pairs", "check", "demo"]) == INTERRUPTED
