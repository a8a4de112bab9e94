"""What the chat looks like. Look at every picture before accepting it: pytest tests/ui --snapshot-update"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

import pytest
from textual.app import App
from textual.pilot import Pilot

from app.engine.stats import GenerationStats
from app.errors import AppError
from app.ui.screens.chat import ChatScreen
from tests.ui.chat_driver import Chat
from tests.ui.fakes import STATS, fake_app

pytestmark = pytest.mark.usefixtures("own_loop")

SIZES = [(80, 24), (120, 40), (200, 60)]
THEMES = ["tandem-dark", "tandem-light"]
Scene = Callable[[Chat], Awaitable[None]]

PROMPT = "Write a quicksort in Python, with comments, and say how fast it is."
ANSWER = '''## Quicksort

It picks a **pivot** and splits the list in two, then sorts `smaller` and `larger` the same way:

```python
def quicksort(items: list[int]) -> list[int]:
    """Return a sorted copy of items."""
    if len(items) < 2:
        return items
    pivot = items[len(items) // 2]  # the middle one
    smaller = [x for x in items if x < pivot]
    return quicksort(smaller) + [pivot] + quicksort([x for x in items if x > pivot])
```

| case  | comparisons | when |
|-------|-------------|------|
| best  | n log n     | the pivot halves the list |
| worst | n²          | the pivot is the smallest or the largest |

1. Choose the pivot at random if the input may be sorted already.
2. For short lists insertion sort is faster:
   - fewer calls
   - no copies

> Python's own `sorted` is faster than either.
'''


class SnapCompare(Protocol):
    def __call__(
        self,
        app: App[None],
        *,
        terminal_size: tuple[int, int],
        run_before: Callable[[Pilot[None]], Awaitable[None]],
    ) -> bool: ...


def picture(compare: SnapCompare, scene: Scene, size: tuple[int, int], theme: str) -> bool:
    app, engine = fake_app()
    app.theme = theme

    async def run_before(pilot: Pilot[None]) -> None:
        assert isinstance(app.screen, ChatScreen)
        await scene(Chat(pilot, app.screen, engine))
        await pilot.pause()

    return compare(app, terminal_size=size, run_before=run_before)


async def answered(chat: Chat) -> None:
    await chat.load()
    await chat.send(PROMPT)
    chat.engine.says("The user wants code and its complexity. Quicksort it is.", thinking=True)
    chat.engine.says(ANSWER, stats=GenerationStats(predicted_n=1))
    stats = replace(STATS, predicted_n=1, predicted_ns=0, verify_steps=0)
    for speed in [60, 80, 95, 110, 106, 100, 118, 120]:
        stats = replace(
            stats,
            predicted_n=stats.predicted_n + speed // 2,
            predicted_ns=stats.predicted_ns + 500_000_000,
            verify_steps=stats.verify_steps + 9,
            drafted_steps=stats.drafted_steps + 8,
        )
        chat.engine.says("", stats=stats)
        await chat.until(lambda seen=stats: chat.screen.status.stats == seen)  # type: ignore[misc]
    chat.engine.finishes(stats=stats)
    await chat.ready()


async def loading(chat: Chat) -> None:
    chat.engine.load_progress("target", 0.45)
    await chat.shows("45%")
    await chat.type("What is a mutex?")
    await chat.pilot.press("enter")
    await chat.shows("waits for the models")
    await chat.type("Typing goes on")


async def writing(chat: Chat) -> None:
    await chat.load()
    await chat.send("Count.")
    chat.engine.says("\n\n".join(f"Line {n} of an answer that is longer than the screen." for n in range(30)))
    await chat.shows("Line 29")
    await chat.pilot.press("pageup", "pageup")
    chat.engine.says("\n\nThe last line.")
    await chat.shows("new text below")
    await chat.pilot.press(*"two", "ctrl+j", *"lines")


async def failed(chat: Chat) -> None:
    await chat.load()
    await chat.send("A prompt that is too long")
    chat.engine.fails(
        AppError("The prompt has 40,000 tokens and the context holds 32,768.", "Begin a new conversation with ctrl+n.")
    )
    await chat.shows("ctrl+n.")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_answered(snap_compare: SnapCompare, size: tuple[int, int], theme: str) -> None:
    assert picture(snap_compare, answered, size, theme)


@pytest.mark.parametrize("scene", [loading, writing, failed])
def test_narrow(snap_compare: SnapCompare, scene: Scene) -> None:
    assert picture(snap_compare, scene, (80, 24), "tandem-dark")
