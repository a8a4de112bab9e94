"""Pictures of the compare screen. Look at every picture before accepting it: pytest tests/ui --snapshot-update"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.ui.compare.driver import AUTOMATIC, FIXED, FIXED_SETTINGS, PLAIN, SETTINGS, Comparison, made, tie
from tests.ui.driver import Chat
from tests.ui.pictures import THEMES, SnapCompare, chat_picture

PROMPT = "Explain quicksort to a beginner, and say how fast it is."
TEXT = """Quicksort picks a pivot and splits the list in two: smaller ones to the left, larger ones to the right.

1. Choose the middle element as the pivot.
2. Move every smaller element before it.
3. Sort both halves the same way.

On average it needs n log n comparisons, and in the worst case n squared."""
OTHER = TEXT.replace("the middle element", "any element").replace("both halves", "the two halves")
WHY = (
    "rounding difference: the two tokens were nearly equally likely, and rounding depends on the batch size (here 5, "
    "without drafts 1)"
)
TIE = tie(31, " the", " any", (0.31242, 0.31208), (0.31183, 0.31267), WHY)
Scene = Callable[[Comparison], Awaitable[None]]


async def running(compare: Comparison) -> None:
    compare.runs(made(PLAIN, 5.9, text=TEXT))
    compare.begins(AUTOMATIC)
    compare.writes(TEXT[:150], made(AUTOMATIC, 1.9).stats)
    await compare.chat.shows("105 tok/s")


async def same(compare: Comparison) -> None:
    times = [(5.88, 1.9), (5.86, 1.84), (5.9, 1.95)]
    rounds = [[made(PLAIN, a, text=TEXT), made(AUTOMATIC, b, text=TEXT, first_s=0.23)] for a, b in times]
    compare.races(*rounds, differences={AUTOMATIC: None})
    await compare.chat.shows("(3 runs")


async def differs(compare: Comparison) -> None:
    compare.races([made(PLAIN, 5.9, text=TEXT), made(AUTOMATIC, 1.9, text=OTHER)], differences={AUTOMATIC: TIE})
    await compare.chat.shows("(1 run")


async def idle(compare: Comparison) -> None:
    why = "draft model off: a step with 1 drafted token costs 2.3× one token here, so drafting cannot help"
    nothing = replace(made(PLAIN, 3.9, text=TEXT), contender=AUTOMATIC, why=why)
    compare.races([made(PLAIN, 5.9, text=TEXT), nothing], differences={AUTOMATIC: None})
    await compare.chat.shows("(1 run")


async def three(compare: Comparison) -> None:
    runs = [made(PLAIN, 5.9, text=TEXT), made(FIXED, 6.6, text=TEXT), made(AUTOMATIC, 5.8, text=TEXT)]
    compare.races(runs, differences={FIXED: None, AUTOMATIC: None})
    await compare.chat.shows("automatic: ")


@pytest.mark.parametrize(
    ("scene", "size", "theme"),
    [
        *((scene, (80, 24), THEMES[0]) for scene in (running, same, three, idle)),
        *((scene, (120, 40), THEMES[0]) for scene in (running, differs)),
        (differs, (80, 24), THEMES[1]),
        (running, (60, 24), THEMES[1]),
        (running, (200, 60), THEMES[1]),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_compare(snap_compare: SnapCompare, scene: Scene, size: tuple[int, int], theme: str) -> None:
    async def compared(chat: Chat) -> None:
        await chat.type(PROMPT)
        compare = Comparison(chat)
        await compare.open()
        await scene(compare)

    flags = FIXED_SETTINGS if scene is three else SETTINGS
    assert chat_picture(snap_compare, compared, size, theme, flags=flags)
