"""Drafting on and off, and the context length."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.types import DraftParams
from app.session.state import Phase
from tests.fake_engine import PAIR
from tests.ui.driver import open_chat
from tests.ui.settings.driver import SettingsChat, open_settings


async def test_ctrl_d_turns_drafting_off_and_on() -> None:
    async with open_chat() as chat:
        assert "drafting fixed" in chat.status
        assert chat.engine.drafts
        await chat.press("ctrl+d", shows="drafting off")
        await chat.send("plain")
        assert not chat.engine.drafts
        await chat.answer("x")
        await chat.press("ctrl+d", until=lambda: chat.engine.drafts)
        await chat.send("drafted")
        assert chat.engine.requests[1].drafting == DraftParams()


async def test_ctrl_d_acts_on_the_answer_that_is_being_written() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        await chat.press("ctrl+d", shows="This answer continues without drafting.")
        assert not chat.engine.drafts
        await chat.press("ctrl+d", shows="This answer continues with drafting.")
        assert chat.engine.drafts


SMALL = replace(PAIR, target=replace(PAIR.target, name="Smol", n_ctx_train=8192), draft=None, n_ctx=8192)


TRAINED = "Smol was trained for 8,192 tokens"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


async def loaded(chat: SettingsChat, pair: object = SMALL) -> None:
    """Let another pair be loaded, and open the settings."""
    chat.engine.loaded(pair)  # type: ignore[arg-type]
    await chat.until(lambda: chat.screen.session.pair == pair)
    await chat.until(lambda: chat.screen.session.phase is Phase.READY)
    await chat.open()


async def test_the_setting_shows_the_context_and_its_limit(file: Path) -> None:
    async with open_settings(file, opened=False) as chat:
        await loaded(chat, replace(SMALL, n_ctx=2048))
        await chat.find("ctx", shows=f"Now 2,048, at most 8,192 here: {TRAINED}.")


async def test_a_context_longer_than_the_limit_is_saved_with_a_remark(file: Path) -> None:
    async with open_settings(file, opened=False) as chat:
        await loaded(chat)
        await chat.change("ctx", "enter", *"16384", "enter")
        # It applies to other pairs too, so it is kept.
        await chat.shows(f"At most 8,192 tokens: {TRAINED}.")
        assert chat.live.resolved()["model.ctx"] == 16384


async def test_a_pending_reload_can_be_done_later(file: Path) -> None:
    async with open_settings(file) as chat:
        await chat.find("ctx")
        assert "ctrl+r reload" not in chat.text
        await chat.press("enter", *"16384", "enter", shows="ctrl+r reload")
        await chat.in_front("escape", "escape")
        assert chat.engine.loads == 1
        await chat.open()
        await chat.press("ctrl+r", until=lambda: chat.engine.loads == 2)
