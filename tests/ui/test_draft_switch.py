"""Drafting is turned on and off in the chat, also in the answer that is being written."""

from __future__ import annotations

from dataclasses import replace

from app.engine.types import AutoDraft, DraftParams
from app.session.chat_settings import ChatSettings
from app.settings.live import LiveSettings
from tests.ui.chat_driver import open_chat
from tests.ui.fakes import PAIR


async def test_ctrl_d_turns_drafting_off_and_on() -> None:
    async with open_chat() as chat:
        assert "model" in chat.status
        assert chat.engine.drafts
        await chat.pilot.press("ctrl+d")
        await chat.shows("draft off")
        await chat.send("plain")
        assert not chat.engine.drafts
        chat.engine.says("x")
        chat.engine.finishes()
        await chat.ready()
        await chat.pilot.press("ctrl+d")
        await chat.until(lambda: chat.engine.drafts)
        await chat.send("drafted")
        assert chat.engine.requests[1].drafting == DraftParams()


async def test_ctrl_d_acts_on_the_answer_that_is_being_written() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        await chat.pilot.press("ctrl+d")
        await chat.shows("This answer is decoded plainly from here on.")
        assert not chat.engine.drafts
        await chat.pilot.press("ctrl+d")
        await chat.shows("This answer is drafted from here on.")
        assert chat.engine.drafts


async def test_an_answer_that_was_asked_for_without_drafts_keeps_to_that() -> None:
    live = LiveSettings(flags={"draft.mode": "off"})
    async with open_chat(ChatSettings("A pair"), live=live) as chat:
        await chat.send("go")
        assert chat.engine.requests[0].drafting is None
        await chat.pilot.press(*"/draft", "space", *"auto", "enter")
        await chat.shows("The next answer is drafted.")


async def test_without_a_draft_model_there_is_nothing_to_turn_on() -> None:
    async with open_chat(ChatSettings("One model")) as chat:
        await chat.pilot.press("ctrl+d")
        await chat.shows("There is no draft model.")
        assert "no draft" in chat.status
        await chat.send("plain")
        assert chat.engine.requests[0].drafting is None


async def test_where_a_draft_cannot_be_taken_back_nothing_says_that_it_drafts() -> None:
    async with open_chat(ChatSettings("One model", drafting=AutoDraft()), loaded=False) as chat:
        chat.engine.loaded(replace(PAIR, draft=None, most_drafted=0))
        await chat.shows("no draft")
        await chat.exchange("plain", "x")
        assert not chat.engine.drafts
        await chat.pilot.press("ctrl+d")
        why = "Rejected drafts could not be taken back here."
        await chat.shows(why)
        await chat.pilot.press("f2")
        await chat.shows(f"There is nothing to compare. {why}")
        chat.engine.loaded(replace(PAIR, draft=None, most_drafted=0, wants_draft_model=True))
        await chat.pilot.press("f2")
        await chat.shows("Only a draft model could draft for it, and there")


async def test_a_draft_model_that_is_not_there_and_no_look_up_is_no_draft() -> None:
    async with open_chat(ChatSettings("One model", drafting=AutoDraft(lookup=False))) as chat:
        chat.engine.loaded(replace(PAIR, draft=None))
        await chat.shows("no draft")
        await chat.pilot.press("ctrl+d")
        await chat.shows("There is no draft model, and look-up was left out.")


async def test_look_up_alone_can_be_turned_off() -> None:
    async with open_chat(ChatSettings("One model", drafting=AutoDraft())) as chat:
        chat.engine.loaded(replace(PAIR, draft=None))
        await chat.pilot.press("ctrl+d")
        await chat.shows("draft off")
        await chat.send("plain")
        assert not chat.engine.drafts
