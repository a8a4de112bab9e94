"""The options for a pair that does not fit, and how they are applied."""

from pathlib import Path

import pytest

from app.core.errors import DoesNotFitError
from app.core.units import GIB
from app.hardware.offers import Offer
from app.session.state import Phase
from app.ui.models.fit_options import ErrorNotice, FitOptionLine, FitOptionList
from app.worker.events import Failed
from tests.ui.compare.driver import open_comparison
from tests.ui.driver import Chat, kept_chat, open_chat

OFFERS = (
    Offer("a context of 4,096 tokens", int(1.2 * GIB), "50% of the requested context", {}, suffices=True),
    Offer(
        "Big as Q3_K_M",
        int(4.1 * GIB),
        "another download; slightly lower quality",
        {},
        suffices=True,
        pair="owner/big:Q3_K_M",
    ),
    Offer("no draft", int(0.6 * GIB), "no speedup", {}, suffices=False),
)
ERROR = DoesNotFitError("Big with Small does not fit: it needs 25.1 GB on CUDA0 (23.3 GB free).", OFFERS)


async def refuse(chat: Chat) -> None:
    chat.engine.fails_to_load(ERROR)
    await chat.until(lambda: chat.screen.session.phase is Phase.UNLOADED and chat.screen.query(FitOptionLine))


async def test_the_options_are_shown_with_their_keys() -> None:
    async with open_chat(loaded=False) as chat:
        await refuse(chat)

        await chat.shows(
            "1  a context of 4,096 tokens, frees about 1.2 GB",
            "   Big as Q3_K_M",
            "tandem setup --target owner/big:Q3_K_M",
            "2  no draft",
            "Press 1 or 2 or click to apply",
        )


async def test_a_digit_applies_an_option() -> None:
    async with open_chat(loaded=False) as chat:
        await refuse(chat)
        await chat.pilot.press("2")

        await chat.until(lambda: chat.engine.loads == 2)
        await chat.shows("With no draft", "Applied: ")
        assert chat.screen.session.phase is Phase.LOADING
        assert not chat.screen.query(FitOptionList)
        assert chat.prompt == ""
        await chat.load()
        await chat.send("Hello")


async def test_other_keys_are_text() -> None:
    async with open_chat(loaded=False) as chat:
        await refuse(chat)
        # This option needs a download first.
        await chat.pilot.click(list(chat.screen.query(FitOptionLine))[1])
        await chat.pilot.press(*"3 Hi1")
        await chat.until(lambda: chat.prompt == "3 Hi1")
        assert chat.engine.loads == 1


async def test_a_waiting_prompt_comes_back_and_a_digit_still_applies() -> None:
    async with open_chat(loaded=False) as chat:
        await chat.enter("Why?", until=lambda: chat.screen.session.waiting == "Why?")
        await refuse(chat)
        await chat.pilot.press("1")

        await chat.until(lambda: chat.engine.loads == 2)
        assert chat.prompt == "Why?"


# Beside an answer, a comparison or another conversation

NO_ROOM = DoesNotFitError("Big does not fit.", OFFERS)
SHOWN = [
    "┃ Big does not fit.",
    "┃ Free some memory and send the prompt again; f6 chooses another pair.",
]


async def fail_without_room(chat: Chat) -> None:
    """Fail to load the pair again for an answer."""
    chat.engine.fails(NO_ROOM)
    await chat.until(lambda: chat.screen.query(FitOptionLine))
    await chat.ready()


async def test_a_reload_without_room_offers_options(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("Why?")
        await fail_without_room(chat)
        await chat.shows("Options that make it fit:")
        assert chat.said[:5] == ["You", "Why?", "Answer", *SHOWN]
        assert chat.prompt == "Why?"
        await chat.press("1", until=lambda: chat.engine.loads == 2)
        await chat.shows("Applied: a context of 4,096 tokens.")
        await chat.until(lambda: "Options that make it fit:" not in chat.text)
        await chat.load()
        await chat.next_request("enter")
        await chat.answer("So.")
        await chat.until(lambda: chat.said[:2] == ["You", "Why?"] and "So." in chat.said)


async def test_the_stored_error_names_the_fix(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("Why?")
        await fail_without_room(chat)
    async with kept_chat(file, again=True) as chat:
        await chat.until(lambda: chat.said == ["You", "Why?", "Answer", *SHOWN])


@pytest.mark.parametrize("keys", [["escape", "enter"], ["ctrl+r"]])
async def test_the_options_go_with_the_next_request(keys: list[str]) -> None:
    async with open_chat() as chat:
        await chat.send("Why?")
        await fail_without_room(chat)
        await chat.pilot.press(*keys)
        await chat.until(lambda: len(chat.engine.requests) == 2)
        await chat.until(lambda: "Options that make it fit:" not in chat.text)
        await chat.answer("So.")
        await chat.until(lambda: not chat.screen.query(FitOptionList))


async def test_a_comparison_names_the_key_and_shows_no_options() -> None:
    async with open_comparison() as compare:
        compare.engine.emit(Failed(compare.engine.job_number, NO_ROOM))
        await compare.chat.shows("Free some memory and press r, or choose another pair in the chat (f6).")
        assert not compare.chat.app.screen.query(FitOptionList)
        await compare.chat.press("r", until=lambda: len(compare.engine.jobs) == 2)
        assert not compare.chat.app.screen.query(ErrorNotice)


@pytest.mark.parametrize("key", ["ctrl+n", "left"])
async def test_a_failed_load_is_shown_in_every_conversation(file: Path, key: str) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("Why?", "So.")
        await chat.next_request("ctrl+r")
        await chat.answer("Therefore.")
    async with kept_chat(file, loaded=False) as chat:
        await refuse(chat)
        await chat.screen.controller.open_conversation(1)
        await chat.shows("Therefore.", "Press 1 or 2 or click to apply")
        if key == "left":
            await chat.pilot.press("escape", "ctrl+up")
        await chat.pilot.press(key)
        await chat.until(lambda: "Therefore." not in chat.text)
        await chat.shows("Press 1 or 2 or click to apply")
        await chat.until(lambda: len(chat.screen.query(ErrorNotice)) == 1)

        await chat.pilot.click(chat.screen.query(FitOptionLine).first())
        await chat.until(lambda: chat.engine.loads == 2)
        await chat.load()
        await chat.press("ctrl+n", until=lambda: not chat.screen.query(ErrorNotice))
