"""Pictures of conversations, panes and rare states. Look at each: pytest tests/ui --snapshot-update"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from app.conversations.store import Store
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus
from app.ui.conversations.picker import ConversationPicker
from tests.fake_engine import GAINING
from tests.ui.driver import NOW, Chat, converse
from tests.ui.models.test_fit_options import refuse
from tests.ui.pictures import ANSWER, PROMPT, THEMES, SnapCompare, chat_picture, goes_faster
from tests.ui.transcript.test_parts import ROUND, D, N, T, says

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
    sources=(),
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
    sources=(Source.NGRAM,) * 4,
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
    await chat.press("left", shows="step 40")


async def chosen(chat: Chat) -> None:
    await chat.send("Sort a list.")
    chat.engine.goes_on("Call `sorted(items)`.")
    await chat.ready()
    await chat.press("ctrl+up", shows="enter edit")


async def searching(chat: Chat) -> None:
    await chat.list_conversations()
    await chat.press(*"pivot", shows="the pivot of the trip")


async def renaming(chat: Chat) -> None:
    await chat.list_conversations()
    await chat.press("down", "ctrl+r", shows="enter rename")


async def palette(chat: Chat) -> None:
    await chat.press("ctrl+p", shows="Start a new")


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
        converse(store, prompt, answer)
    store.pin(2, True)
    return store


_BEGUN = replace(GAINING, predicted_n=1, predicted_ns=0, verify_steps=0, draft_n=0, draft_n_accepted=0, draft_n_model=0)
_STATUS = DraftingStatus(Source.MODEL, "the draft model is right 82% of the time it goes on")


async def idle(chat: Chat) -> None:
    """Do nothing."""


async def writing(chat: Chat) -> None:
    await chat.send(PROMPT)
    chat.engine.says(ANSWER, stats=GenerationStats(predicted_n=1))
    begun = replace(_BEGUN, first_token_ns=210_000_000, prompt_ns=1_370_000_000)
    await goes_faster(chat, begun, _STATUS, draft_n=60, draft_n_accepted=47, draft_n_model=53)


async def keys(chat: Chat) -> None:
    await chat.press("f1", shows="Start a new")


Scene = Callable[[Chat], Awaitable[None]]


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
        (searching, (120, 40), "tandem-dark"),
        (renaming, (80, 24), "tandem-light"),
        (palette, (80, 24), "tandem-dark"),
        (palette, (50, 20), "textual-light"),
        (keys, (50, 20), "tandem-dark"),
        (keys, (200, 60), "tandem-light"),
        (idle, (100, 30), "tandem-light"),
        (writing, (120, 40), "tandem-light"),
        (writing, (200, 60), "tandem-dark"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_states(snap_compare: SnapCompare, scene: Scene, size: tuple[int, int], theme: str) -> None:
    async def beside_the_list(chat: Chat) -> None:
        sidebar = chat.screen.view.sidebar
        await chat.until(lambda: not sidebar.display or sidebar.query(ConversationPicker))
        await scene(chat)

    assert chat_picture(snap_compare, beside_the_list, size, theme, flags={}, store=filled)


@pytest.mark.parametrize("size", [(50, 20), (80, 24)], ids=str)
def test_ways_out(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    async def refused(chat: Chat) -> None:
        await refuse(chat)
        await chat.shows("click to apply")

    assert chat_picture(snap_compare, refused, size, loaded=False, flags={})


@pytest.mark.parametrize(
    ("query", "size", "theme"),
    [("", (80, 24), THEMES[0]), ("", (120, 40), THEMES[1]), ("pivot", (80, 24), THEMES[1])],
    ids=lambda value: {"": "all", "pivot": "found"}.get(value, str(value)),
)
def test_conversations(snap_compare: SnapCompare, size: tuple[int, int], theme: str, query: str) -> None:
    async def listed(chat: Chat) -> None:
        await chat.list_conversations()
        await chat.pilot.press("down", *query)

    assert chat_picture(snap_compare, listed, size, theme, store=filled)
