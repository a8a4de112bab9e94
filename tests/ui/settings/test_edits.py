"""Drafting on and off, and the context length."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.types import DraftParams
from app.session.state import Phase
from app.ui.chat.screen import ChatScreen
from tests.fake_engine import PAIR
from tests.ui.driver import open_chat
from tests.ui.settings.driver import Panel, open_panel


async def test_ctrl_d_turns_drafting_off_and_on() -> None:
    async with open_chat() as chat:
        assert "drafting fixed" in chat.status
        assert chat.engine.drafts
        await chat.press("ctrl+d", shows="drafting off")
        await chat.send("plain")
        assert not chat.engine.drafts
        await chat.answer("x")
        await chat.pilot.press("ctrl+d")
        await chat.until(lambda: chat.engine.drafts)
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


async def loaded(panel: Panel, pair: object = SMALL) -> None:
    """Let another pair be loaded, and open the settings."""
    panel.chat.engine.loaded(pair)  # type: ignore[arg-type]
    await panel.chat.until(lambda: panel.chat.screen.session.pair == pair)
    await panel.chat.until(lambda: panel.chat.screen.session.phase is Phase.READY)
    await panel.open()


async def test_the_setting_shows_the_context_and_its_limit(file: Path) -> None:
    async with open_panel(file, opened=False) as panel:
        await loaded(panel, replace(SMALL, n_ctx=2048))
        await panel.find("ctx", shows=f"Now 2,048, at most 8,192 here: {TRAINED}.")


async def test_a_context_longer_than_the_limit_is_saved_with_a_remark(file: Path) -> None:
    async with open_panel(file, opened=False) as panel:
        await loaded(panel)
        await panel.find("ctx")
        await panel.press("enter", *"16384", "enter")
        # It applies to other pairs too, so it is kept.
        await panel.chat.shows(f"At most 8,192 tokens: {TRAINED}.")
        assert panel.live.resolved()["model.ctx"] == 16384


async def test_a_pending_reload_can_be_done_later(file: Path) -> None:
    async with open_panel(file) as panel:
        await panel.find("ctx")
        assert "ctrl+r reload" not in panel.chat.text
        await panel.press("enter", *"16384", "enter", shows="ctrl+r reload")
        await panel.press("escape", "escape")
        await panel.chat.until(lambda: isinstance(panel.chat.pilot.app.screen, ChatScreen))
        assert panel.chat.engine.loads == 1
        await panel.open()
        await panel.press("ctrl+r")
        await panel.chat.until(lambda: panel.chat.engine.loads == 2)
