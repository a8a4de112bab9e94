"""Leaving must never wait for the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.errors import AppError, StoreError
from app.ui.app import TandemApp
from tests.ui.chat_driver import open_chat
from tests.ui.compare_driver import open_comparison
from tests.ui.kept_driver import kept_chat


async def test_quitting_stops_the_loading() -> None:
    async with open_chat(loaded=False) as chat:
        await chat.pilot.press("ctrl+q")
        await chat.pilot.pause()
        assert not chat.pilot.app.is_running
        assert chat.engine.cancelled == 1


async def test_quit_during_an_answer_with_an_engine_that_does_not_end() -> None:
    async with open_chat(closes=False) as chat:
        await chat.send("go")
        chat.engine.says("words")
        await chat.pilot.press("ctrl+q")
        await chat.pilot.pause()
        assert not chat.pilot.app.is_running
        assert chat.pilot.app.return_code == 0
        assert chat.engine.cancelled == 1
    # The worker's thread may still speak.
    chat.engine.says("late")
    chat.engine.finishes()


async def test_what_the_engine_says_after_quit_finds_nobody() -> None:
    async with open_chat(loaded=False) as chat:
        await chat.pilot.press("ctrl+q")
        chat.engine.fails_to_load(AppError("Loading was stopped."))
        chat.screen.post_message(chat.screen.EventsArrived())
        await chat.pilot.pause()
        assert chat.pilot.app.return_code == 0


async def test_ctrl_c_stops_an_answer_first() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        chat.engine.says("half")
        await chat.shows("half")
        await chat.pilot.press("ctrl+c")
        await chat.shows("The answer stops; ctrl+c again quits")
        assert chat.engine.cancelled == 1
        assert chat.pilot.app.is_running
        await chat.pilot.press("ctrl+c")
        await chat.pilot.pause()
        assert not chat.pilot.app.is_running


async def test_ctrl_c_stops_a_comparison_first() -> None:
    async with open_comparison() as compare:
        chat = compare.chat
        await chat.pilot.press("ctrl+c")
        await chat.shows("The comparison stops; ctrl+c again quits")
        assert chat.engine.cancelled == 1
        assert chat.pilot.app.is_running
        compare.finishes([], stopped=True)
        await chat.shows("stopped before everybody had answered once")


async def test_ctrl_c_asks_first() -> None:
    async with open_chat() as chat:
        await chat.type("kept")
        await chat.pilot.press("ctrl+c")
        await chat.shows("ctrl+c again quits")
        assert chat.pilot.app.is_running
        assert chat.prompt == "kept"
        await chat.pilot.press("ctrl+c")
        await chat.pilot.pause()
        assert not chat.pilot.app.is_running


async def test_what_the_disk_refuses_to_the_end_is_told_when_the_screen_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreError("The disk is full.")

    async with kept_chat(tmp_path / "conversations.db") as chat:
        assert isinstance(chat.pilot.app, TandemApp)
        store = chat.screen.library.disk.store
        assert store is not None
        store.continue_in_memory()
        await chat.send("go")
        chat.engine.says("words")
        await chat.shows("words")
        monkeypatch.setattr("app.conversations.memory_fallback.open_file", refuse)
        await chat.pilot.press("ctrl+q")
        await chat.pilot.pause()
        assert chat.pilot.app.unwritten is not None
        assert "The disk is full. The latest messages are lost." in chat.pilot.app.unwritten.message
