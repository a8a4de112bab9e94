"""The status line and the side panel on the screen."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from textual.strip import Strip

from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus, FinishReason
from app.ui.sidebar.panel import ReadoutPanel
from app.ui.text import NONE
from app.worker.events import Finished
from tests.fake_engine import GAINING, STATS
from tests.ui.driver import open_chat

_NGRAM = DraftingStatus(Source.NGRAM, "It pays.")


async def test_the_status_line_shows_what_was_measured() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        chat.engine.reads(1024, 3000)
        await chat.shows("reading prompt: 1,024 of 3,000 tokens, 8 s left")
        chat.engine.says("word")
        await chat.shows("107 tok/s")
        assert re.split(r" {2,}", chat.status) == ["107 tok/s", "78% accepted", f"speedup {NONE}", "drafting fixed"]
        chat.engine.finishes()
        await chat.ready()
        assert chat.status.startswith("107 tok/s")


async def test_no_value_moves_another() -> None:
    async with open_chat({}, size=(120, 30)) as chat:

        def columns() -> list[int]:
            return [found.start() for found in re.finditer(r"(?<=  )(?=\S)", chat.status)]

        await chat.send("go")
        chat.engine.says("word", stats=GenerationStats(prompt_n=1648, predicted_n=1), drafting=_NGRAM)
        await chat.until(lambda: f"{NONE} accepted" in chat.status)
        before = columns()
        chat.engine.says("word", stats=replace(GAINING, predicted_ns=10**9), drafting=_NGRAM)
        await chat.until(lambda: "speedup 3.1×" in chat.status)
        assert columns() == before


@pytest.mark.parametrize(
    ("n_model", "drafter", "word"),
    [
        (0, Source.MODEL, "n-gram"),
        (500, Source.MODEL, "draft model"),
        (200, Source.MODEL, "draft model and n-gram"),
        (500, Source.MTP, "MTP layer"),
        (200, Source.DFLASH, "DFlash block and n-gram"),
    ],
)
async def test_an_answer_that_has_ended_names_who_drafted_in_it(n_model: int, drafter: Source, word: str) -> None:
    async with open_chat({}) as chat:
        await chat.send("go")
        why = "one token at a time is faster here"
        status = DraftingStatus("off", why)
        stats = replace(STATS, draft_n_model=n_model, drafted_steps=76, drafter=f"{drafter}+ngram")
        chat.engine.says("word", stats=stats, drafting=status)
        await chat.until(lambda: "no draft" in chat.status)
        chat.engine.emit(Finished(1, FinishReason.STOP, "word", "", stats, status))
        await chat.ready()
        assert chat.status.endswith(f"  {word}")


async def test_a_panel_row_that_stays_is_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    strips = ReadoutPanel.strips

    def noted(self: ReadoutPanel, first: int, end: int) -> Iterator[Strip]:
        drawn.extend(line.plain for line in self.shown[first:end])
        return strips(self, first, end)

    monkeypatch.setattr(ReadoutPanel, "strips", noted)
    async with open_chat(size=(160, 40)) as chat:
        await chat.send("go")
        chat.engine.says("word", stats=STATS)
        await chat.shows("78%")
        drawn.clear()
        more = replace(STATS, predicted_n=STATS.predicted_n + 900)
        chat.engine.says("word", stats=more)
        await chat.until(lambda: any("context" in row for row in drawn))
        assert not any("acceptance" in row or "first token" in row for row in drawn)
