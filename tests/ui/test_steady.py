"""Nothing on the screen jumps while an answer comes: words stay long enough to be read, and rows where they are."""

from __future__ import annotations

from dataclasses import replace

from app.engine.stats import GenerationStats
from app.engine.types import AutoDraft, DraftingStatus
from app.session.chat_settings import ChatSettings
from app.ui.sidebar.steady import Steady
from tests.ui.chat_driver import Chat, open_chat
from tests.ui.fakes import STATS

SECOND = 1_000_000_000
MODEL = DraftingStatus("model", "right 82% of the time", "winning", 3.1)
LOOK_UP = DraftingStatus("look-up", "the last 12 tokens were said before", "winning", 3.2)


def test_a_source_and_its_reason_stay_for_a_second() -> None:
    steady = Steady()
    assert steady.take(MODEL, SECOND) == MODEL
    assert steady.take(LOOK_UP, SECOND + 1) == replace(MODEL, speedup=3.2)
    assert steady.take(LOOK_UP, 2 * SECOND) == LOOK_UP
    assert steady.take(MODEL, 2 * SECOND + 1) == replace(LOOK_UP, speedup=3.1)


def test_what_has_stayed_for_long_may_change_at_once() -> None:
    steady = Steady()
    steady.take(MODEL, SECOND)
    steady.take(MODEL, 5 * SECOND)
    assert steady.take(LOOK_UP, 5 * SECOND + 1) == LOOK_UP


def test_another_answer_begins_with_what_is_true_of_it() -> None:
    steady = Steady()
    steady.take(MODEL, SECOND)
    steady.begin()
    assert steady.take(LOOK_UP, SECOND + 1) == LOOK_UP


async def tell(chat: Chat, stats: GenerationStats, status: DraftingStatus) -> None:
    chat.engine.says("", stats=stats, drafting=status)
    await chat.until(lambda: chat.screen.status.stats == stats)


def row_of(chat: Chat, words: str) -> int:
    return next(y for y, row in enumerate(chat.rows) if words in row)


async def test_a_reason_that_goes_does_not_move_what_is_below_it() -> None:
    async with open_chat(ChatSettings("A pair", drafting=AutoDraft()), size=(120, 40)) as chat:
        await chat.send("go")
        await tell(chat, STATS, MODEL)
        await chat.shows("right 82%")
        before = row_of(chat, "context ")
        later = replace(STATS, predicted_ns=STATS.predicted_ns + 2 * SECOND)
        await tell(chat, later, replace(MODEL, reason=""))
        await chat.until(lambda: "right 82%" not in chat.text)
        assert row_of(chat, "context ") == before


async def test_rounds_without_a_draft_keep_the_row_of_recent_acceptance() -> None:
    async with open_chat(ChatSettings("A pair", drafting=AutoDraft()), size=(120, 40)) as chat:
        await chat.send("go")
        stats = STATS
        for _ in range(6):
            stats = replace(
                stats, predicted_ns=stats.predicted_ns + SECOND, verify_steps=stats.verify_steps + 20, predicted_n=900
            )
            await tell(chat, stats, MODEL)
        await chat.shows("recent      nothing drafted")


async def test_lines_are_not_broken_anew_when_the_scrollbar_comes() -> None:
    async with open_chat(size=(80, 24)) as chat:
        await chat.send("go")
        chat.engine.says(f"{'x' * 200}\n\n")
        await chat.shows("xxx")
        first = next(row for row in chat.rows if "xxx" in row)
        chat.engine.says("\n\n".join(f"line {n}" for n in range(40)))
        await chat.until(lambda: chat.screen.messages.max_scroll_y)
        await chat.pilot.press("ctrl+home")
        await chat.until(lambda: any(row.startswith(first) for row in chat.rows))
