"""Pictures of the panes around the chat. Look at each before accepting it: pytest tests/ui --snapshot-update"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from app.engine.stats import GenerationStats
from app.engine.types import AutoDraft, DraftingStatus
from app.session.chat_settings import ChatSettings
from app.ui.conversations.picker import ConversationPicker
from tests.ui.chat_driver import Chat
from tests.ui.fakes import STATS, fake_app
from tests.ui.pictures import ANSWER, PROMPT, SnapCompare, goes_faster
from tests.ui.test_snapshots_conversations import filled

pytestmark = pytest.mark.usefixtures("even_clock")

_BEGUN = replace(STATS, predicted_n=1, predicted_ns=0, verify_steps=0, draft_n=0, draft_n_accepted=0, draft_n_model=0)
_STATUS = DraftingStatus("model", "the draft model is right 82% of the time it goes on", "winning", 3.1, measured=True)


async def idle(chat: Chat) -> None:
    """Nothing was said yet."""


async def writing(chat: Chat) -> None:
    await chat.send(PROMPT)
    chat.engine.says(ANSWER, stats=GenerationStats(predicted_n=1))
    begun = replace(_BEGUN, first_token_ns=210_000_000, prompt_ns=1_370_000_000)
    await goes_faster(chat, begun, _STATUS, draft_n=60, draft_n_accepted=47, draft_n_model=53)


async def keys(chat: Chat) -> None:
    await chat.pilot.press("f1")
    await chat.shows("Start a new")


Scene = Callable[[Chat], Awaitable[None]]


def looks_the_same(snap_compare: SnapCompare, scene: Scene, size: tuple[int, int], theme: str) -> bool:
    """Return whether a chat with a filled store looks as accepted after a scene."""
    app, engine = fake_app(ChatSettings("A pair", drafting=AutoDraft()), store=filled)
    app.theme = theme

    async def run_before(pilot: Pilot[None]) -> None:
        chat = Chat(pilot, app.screen_stack[0], engine)  # type: ignore[arg-type]
        await chat.until(lambda: engine.loads)
        await chat.load()
        sidebar = chat.screen.sidebar
        await chat.until(lambda: not sidebar.display or sidebar.query(ConversationPicker))
        await scene(chat)

    return snap_compare(app, terminal_size=size, run_before=run_before)


@pytest.mark.parametrize(
    ("scene", "size", "theme"),
    [
        (idle, (100, 30), "tandem-light"),
        (writing, (60, 20), "tandem-dark"),
        (writing, (120, 40), "tandem-dark"),
        (writing, (120, 40), "tandem-light"),
        (writing, (200, 60), "tandem-dark"),
        (keys, (100, 40), "tandem-dark"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_layout(snap_compare: SnapCompare, scene: Scene, size: tuple[int, int], theme: str) -> None:
    assert looks_the_same(snap_compare, scene, size, theme)
