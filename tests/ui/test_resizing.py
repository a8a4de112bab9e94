"""Resize every screen at random, with full lists and a running answer: nothing fails.

`pytest tests/ui/test_resizing.py --hypothesis-profile hunt` makes 2,000 resizes instead of 96.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from textual import events
from textual.geometry import Size
from textual.screen import Screen

from app.conversations.store import Store
from tests.ui.compare.driver import Comparison, made
from tests.ui.driver import Chat, keep, open_chat
from tests.ui.test_snapshots_states import MARKDOWN
from tests.ui.transcript.test_parts import ROUND, D, T, says

_LEAST, _MOST = (20, 6), (250, 80)
_TITLES = (
    "some words in a title that is cut",
    "日本語のタイトル、全角文字は二つ分の幅を取ります",
    "a_word_without_an_end_" * 3,
    "a word    and spaces   ",
)
_PARAGRAPHS = (
    "a word and another word ",
    f"```python\nx = 1  # {'long ' * 30}\n```\n\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
)


async def inspector(chat: Chat) -> None:
    await chat.press("f3")
    says(chat, (" pivot =", D), (" items[0", T), details=ROUND)
    await chat.shows("step 41")


async def compare(chat: Chat) -> None:
    chat.engine.finishes()
    await chat.ready()
    comparison = Comparison(chat)
    await comparison.open()
    comparison.races([made("plain", 6.0, text=MARKDOWN), made("automatic", 2.0, text=MARKDOWN)])


def keys(*pressed: str) -> Callable[[Chat], Awaitable[None]]:
    return lambda chat: chat.press(*pressed)


_SCREENS = {
    "chat alone": keys("f5"),
    "inspector": inspector,
    "chosen message": keys("ctrl+up", "ctrl+t"),
    "menu": keys("/"),
    "found conversations": keys("ctrl+o", *"word"),
    "conversations": keys("ctrl+o"),
    "settings": keys("f4"),
    "pairs": keys("f6"),
    "add pair": keys("f6", "ctrl+a"),
    "compare": compare,
    "keys": keys("f1"),
    "palette": keys("ctrl+p"),
}

_RESIZES = -(-2_000 // len(_SCREENS)) if settings.get_current_profile_name() == "hunt" else 6


def fill(file: Path) -> None:
    """Write conversations with titles of every kind; the last one has long messages."""
    for number in range(24):
        keep(file, _TITLES[number % len(_TITLES)], MARKDOWN)


@pytest.mark.parametrize("name", _SCREENS)
async def test_every_screen_takes_any_size_while_an_answer_runs(name: str, tmp_path: Path) -> None:
    fill(tmp_path / "conversations.db")
    random = Random(name)
    width, height = 120, 40
    async with open_chat(size=(width, height), store=lambda: Store(tmp_path / "conversations.db")) as chat:
        await chat.picker()
        await chat.exchange("One question.", MARKDOWN)
        await chat.send("Another question, with [brackets].")
        chat.engine.says("Some thoughts. " * 20, thinking=True)
        await _SCREENS[name](chat)
        await chat.pilot.pause()
        for number in range(_RESIZES):
            which = random.choice(("width", "height", "both"))
            width = random.randint(_LEAST[0], _MOST[0]) if which != "height" else width
            height = random.randint(_LEAST[1], _MOST[1]) if which != "width" else height
            chat.engine.says(random.choice(_PARAGRAPHS))
            if number % 4 == 0:
                chat.app.post_message(events.Key(random.choice(("down", "up", "pagedown", "pageup")), None))
            chat.receive(events.Resize(Size(width, height), Size(width, height)))
            if random.random() < 0.5:
                await chat.pilot.pause()
        await chat.pilot.pause()
        assert chat.app.size == (width, height)
        shown: Screen[object] = chat.app.screen
        assert shown.size == (width, height)
