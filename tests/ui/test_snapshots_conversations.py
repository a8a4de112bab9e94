"""Pictures of the conversations. Look at every picture before accepting it: pytest tests/ui --snapshot-update"""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from app.conversations.message import Role
from app.conversations.store import Store
from tests.ui.chat_driver import Chat
from tests.ui.conversations_driver import NOW, look
from tests.ui.fakes import fake_app
from tests.ui.pictures import THEMES, SnapCompare

pytestmark = pytest.mark.usefixtures("even_clock")

SAID = [
    ("Rust lifetimes, explained to a C programmer", "A lifetime names how long a reference is good for.", 40 * 86400),
    ("Trip to Trieste", "Take the coastal road from Monfalcone; the pivot of the trip is Miramare.", 9 * 86400),
    ("Name three rivers", "The Po, the Adige and the Tagliamento.", 2 * 86400),
    ("Why does my build fail only on Windows when the path holds a space and a bracket?", "Quote it.", 5 * 3600),
    ("Write a quicksort in Python, with comments", "It picks a pivot and splits the list in two.", 3 * 60),
    ("東京の天気", "The pivot is a word that is not in here twice.", 20),
]


def filled() -> Store:
    now = [NOW]
    store = Store(now=lambda: now[0])
    for prompt, answer, ago in SAID:
        now[0] = NOW - ago
        number = store.create()
        asked = store.add(number, Role.USER, prompt, parent=None)
        store.add(number, Role.ASSISTANT, answer, parent=asked.id)
    store.pin(2, True)
    return store


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=str)
@pytest.mark.parametrize("query", ["", "pivot"], ids=["all", "found"])
def test_conversations(snap_compare: SnapCompare, size: tuple[int, int], theme: str, query: str) -> None:
    app, engine = fake_app(store=filled)
    app.theme = theme

    async def run_before(pilot: Pilot[None]) -> None:
        chat = Chat(pilot, app.screen_stack[0], engine)  # type: ignore[arg-type]
        await chat.until(lambda: engine.loads)
        await chat.load()
        await look(chat)
        await pilot.press("down", *query)

    assert snap_compare(app, terminal_size=size, run_before=run_before)
