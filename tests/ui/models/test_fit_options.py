"""Test the options for a pair that does not fit, and how they are applied."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.core.units import GIB
from app.hardware.offers import Offer
from app.session.snapshot import Phase
from app.ui.models.fit_options import FitOption, FitOptionLine, FitOptionList, NoRoomError
from app.ui.models.state import LoadRequest
from tests.fake_engine import no_loader
from tests.ui.driver import Chat, open_chat


def choice(title: str) -> Callable[[], LoadRequest]:
    return lambda: LoadRequest(no_loader, title)


def offer(what: str, gigabytes: float, cost: str, *, suffices: bool = True) -> Offer:
    return Offer(what, int(gigabytes * GIB), cost, {}, suffices)


OPTIONS = (
    FitOption(offer("a context of 4,096 tokens", 1.2, "50% of the requested context"), choice("Shorter")),
    FitOption(
        offer("Big as Q3_K_M", 4.1, "another download; slightly lower quality"),
        None,
        "tandem setup --target owner/big:Q3_K_M",
    ),
    FitOption(offer("no draft", 0.6, "no speedup", suffices=False), choice("Without")),
)
ERROR = NoRoomError("Big with Small does not fit: it needs 25.1 GB on CUDA0 (23.3 GB free).", OPTIONS)


async def refuse(chat: Chat) -> None:
    chat.engine.fails_to_load(ERROR)
    await chat.until(lambda: chat.screen.session.phase is Phase.UNLOADED and chat.screen.query(FitOptionLine))


async def test_the_options_are_shown_with_their_keys() -> None:
    async with open_chat(loaded=False) as chat:
        await refuse(chat)

        await chat.shows("1  a context of 4,096 tokens, frees about 1.2 GB")
        await chat.shows("   Big as Q3_K_M")
        await chat.shows("tandem setup --target owner/big:Q3_K_M")
        await chat.shows("2  no draft")
        await chat.shows("Press 1 or 2 or click to apply")


@pytest.mark.parametrize(("key", "title"), [("1", "Shorter"), ("2", "Without")])
async def test_a_digit_applies_an_option(key: str, title: str) -> None:
    async with open_chat(loaded=False) as chat:
        await refuse(chat)
        await chat.pilot.press(key)

        await chat.until(lambda: chat.engine.loads == 2)
        await chat.shows(title)
        await chat.shows("Applied: ")
        assert chat.screen.session.phase is Phase.LOADING
        assert not chat.screen.query(FitOptionList)
        assert chat.prompt == ""
        await chat.load()
        await chat.send("Hello")


async def test_an_option_that_needs_a_download_is_not_applied() -> None:
    async with open_chat(loaded=False) as chat:
        await refuse(chat)
        await chat.pilot.click(list(chat.screen.query(FitOptionLine))[1])
        await chat.pilot.press("3")

        await chat.until(lambda: chat.prompt == "3")
        assert chat.engine.loads == 1


async def test_typed_text_goes_to_the_prompt() -> None:
    async with open_chat(loaded=False) as chat:
        await refuse(chat)
        await chat.pilot.press("H", "i")
        await chat.until(lambda: chat.prompt == "Hi")
        await chat.pilot.press("1")

        await chat.until(lambda: chat.prompt == "Hi1")
        assert chat.engine.loads == 1


async def test_a_waiting_prompt_comes_back_and_a_digit_still_applies() -> None:
    async with open_chat(loaded=False) as chat:
        await chat.type("Why?")
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.screen.session.snapshot.waiting == "Why?")
        await refuse(chat)
        await chat.pilot.press("1")

        await chat.until(lambda: chat.engine.loads == 2)
        assert chat.prompt == "Why?"
