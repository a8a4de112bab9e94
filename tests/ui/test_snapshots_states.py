"""Pictures of rare states. Look at every picture before accepting it: pytest tests/ui --snapshot-update"""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.command import CommandInput
from textual.pilot import Pilot

from app.engine.types import AutoDraft
from app.session.chat_settings import ChatSettings
from tests.ui.chat_driver import Chat
from tests.ui.conversations_driver import look
from tests.ui.fakes import fake_app
from tests.ui.models.test_fit_options import refuse
from tests.ui.pictures import SnapCompare
from tests.ui.test_snapshots_layout import Scene, keys, looks_the_same, writing
from tests.ui.transcript.test_text_views import ROUND, D, N, T, says

pytestmark = pytest.mark.usefixtures("even_clock")

MARKDOWN = """# Every kind of block

A paragraph with **bold**, *italic*, `code`, ~~struck~~ and a [link](https://example.org/a/long/path?and=a&query=too).

| case  | comparisons | when |
|:------|------------:|:-----|
| best  | n log n     | the pivot halves the list at every level of the recursion |
| worst | n²          | the pivot is the smallest |

> A quote with `code` in it.
>
> > A quote in a quote, which goes on for so long that it has to wrap somewhere.

1. שלום עולם
2. 日本語のテキストも表示できます。全角文字は二つ分の幅を取りますから、行の折り返しに注意が必要です。

$$
\\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}
$$
"""


async def blocks(chat: Chat) -> None:
    await chat.send("Show every kind of block.")
    chat.engine.goes_on(MARKDOWN)
    await chat.ready()
    await chat.pilot.press("pageup", "pageup", "pageup")


async def thought(chat: Chat) -> None:
    await chat.send("Sort a list.")
    chat.engine.says(
        "The user wants a list sorted.\n\n1. Quicksort\n2. `sorted`, which is there already", thinking=True
    )
    chat.engine.goes_on("Call `sorted(items)`.")
    await chat.ready()
    await chat.pilot.press("ctrl+t")


ONE = replace(
    ROUND,
    number=38,
    drafted=(),
    n_model=0,
    confidences=(),
    written=(b"def",),
    n_accepted=0,
    chosen=(0.7,),
    declined=None,
)
LOOKED_UP = replace(
    ROUND,
    number=39,
    drafted=(b" quick", b"sort", b"(items", b")\n"),
    n_model=0,
    confidences=(None,) * 4,
    written=(b" quick", b"sort", b"(items", b"):"),
    total_ns=37_200_000,
)
ALL = replace(
    ROUND,
    number=40,
    drafted=(b"    if", b" len", b"(items", b")", b" <"),
    written=(b"    if", b" len", b"(items", b")", b" <", b" 2:\n"),
    n_accepted=5,
    chosen=(0.9, 0.99, 1.0, 0.97, 0.88, 0.93),
    declined=None,
    total_ns=41_600_000,
)


async def tokens(chat: Chat) -> None:
    await chat.pilot.press("f3")
    await chat.send("Write a quicksort in Python.")
    says(chat, ("def", T), details=ONE)
    says(chat, (" quicksort(items", N), ("):", T), ("\n", T), details=LOOKED_UP)
    says(chat, ("    if len(items) <", D), (" 2:\n", T), details=ALL)
    says(chat, ("    pivot =", D), (" items[0", T), details=ROUND)
    await chat.shows("step 41")
    await chat.pilot.press("left")
    await chat.shows("step 40")


async def chosen(chat: Chat) -> None:
    await chat.send("Sort a list.")
    chat.engine.goes_on("Call `sorted(items)`.")
    await chat.ready()
    await chat.pilot.press("ctrl+up")
    await chat.shows("e edit")


async def searching(chat: Chat) -> None:
    await chat.pilot.press("ctrl+o")
    await chat.until(lambda: chat.screen.sidebar.has_focus_within)
    await chat.pilot.press(*"pivot")
    await chat.shows("the pivot of the trip")


async def renaming(chat: Chat) -> None:
    await look(chat)
    await chat.pilot.press("down", "ctrl+r")
    await chat.shows("enter rename")


async def palette(chat: Chat) -> None:
    await chat.pilot.press("ctrl+p")
    chat.pilot.app.screen.query_one(CommandInput).cursor_blink = False
    await chat.shows("Show every key")


@pytest.mark.parametrize(
    ("scene", "size", "theme"),
    [
        (blocks, (50, 40), "tandem-dark"),
        (blocks, (100, 40), "textual-dark"),
        (thought, (80, 24), "tandem-light"),
        (tokens, (80, 24), "tandem-dark"),
        (tokens, (120, 40), "textual-light"),
        (tokens, (200, 60), "tandem-light"),
        (chosen, (80, 24), "tandem-dark"),
        (writing, (80, 24), "tandem-dark"),
        (writing, (80, 24), "textual-light"),
        (searching, (120, 40), "tandem-dark"),
        (renaming, (80, 24), "tandem-light"),
        (palette, (80, 24), "tandem-dark"),
        (palette, (50, 20), "textual-light"),
        (keys, (50, 20), "tandem-dark"),
        (keys, (200, 60), "tandem-light"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_states(snap_compare: SnapCompare, scene: Scene, size: tuple[int, int], theme: str) -> None:
    assert looks_the_same(snap_compare, scene, size, theme)


@pytest.mark.parametrize("size", [(50, 20), (80, 24)], ids=str)
def test_ways_out(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    app, engine = fake_app(ChatSettings("A pair", drafting=AutoDraft()))

    async def run_before(pilot: Pilot[None]) -> None:
        chat = Chat(pilot, app.screen_stack[0], engine)  # type: ignore[arg-type]
        await chat.until(lambda: engine.loads)
        await refuse(chat)
        await chat.shows("click to apply")

    assert snap_compare(app, terminal_size=size, run_before=run_before)
