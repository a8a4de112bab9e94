"""Pictures of the chat. Look at every picture before accepting it: pytest tests/ui --snapshot-update"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from app.core.errors import AppError
from app.engine.stats import GenerationStats
from tests.fake_engine import STATS
from tests.ui.driver import Chat
from tests.ui.pictures import ANSWER, PROMPT, SIZES, THEMES, SnapCompare, chat_picture, goes_faster

Scene = Callable[[Chat], Awaitable[None]]


async def answered(chat: Chat) -> None:
    await chat.load()
    await chat.send(PROMPT)
    chat.engine.says("The user wants code and its complexity. Quicksort it is.", thinking=True)
    chat.engine.says(ANSWER, stats=GenerationStats(predicted_n=1))
    stats = await goes_faster(chat, replace(STATS, predicted_n=1, predicted_ns=0, verify_steps=0))
    chat.engine.finishes(stats=stats)
    await chat.ready()


async def loading(chat: Chat) -> None:
    chat.engine.load_progress(0.45)
    await chat.shows("45%")
    await chat.enter("What is a mutex?", "waiting for the models")
    await chat.type("Typing goes on")


async def failed(chat: Chat) -> None:
    await chat.load()
    await chat.send("A prompt that is too long")
    chat.engine.fails(
        AppError("The prompt has 40,000 tokens and the context holds 32,768.", "Begin a new conversation with ctrl+n.")
    )
    await chat.shows("ctrl+n.")


@pytest.mark.parametrize(("size", "theme"), zip(SIZES, (*THEMES, THEMES[0]), strict=True), ids=str)
def test_answered(snap_compare: SnapCompare, size: tuple[int, int], theme: str) -> None:
    assert chat_picture(snap_compare, answered, size, theme, loaded=False)


@pytest.mark.parametrize("scene", [loading, failed])
def test_narrow(snap_compare: SnapCompare, scene: Scene) -> None:
    assert chat_picture(snap_compare, scene, (80, 24), loaded=False)
