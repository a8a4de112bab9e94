"""Measure the cost of showing a long answer: python -m tests.bench.reading

CPU milliseconds of the drawing thread per update of the screen, by the length of the answer, with a fake engine. An
update adds 20 tokens, which a fast pair generates in a fifth of a second.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Iterator

from app.engine.events import Step
from app.engine.sources import Source
from app.engine.text.segments import Segment
from tests.fake_engine import STATS
from tests.ui.driver import Chat, open_chat
from tests.ui.pictures import ANSWER

_MARKS = (1_000, 10_000, 50_000, 200_000)
_LETTERS = 4
_UPDATE = 20
_UPDATES = 40


def _repeated(text: str) -> Iterator[str]:
    while True:
        yield from (text[at : at + _LETTERS] for at in range(0, len(text), _LETTERS))


_KINDS = {
    "mixed": ANSWER,
    "prose": ("A sentence of ordinary length stands here, with a *word* or two. " * 8 + "\n\n"),
    "one paragraph": "word and word and ",
    "code": "```python\n" + "def f(x):\n    return g(x) + 1  # more\n\n" * 20_000,
    "list": "- an item of a list\n",
    "table": "| name | value |\n|---|---|\n" + "| some name | some value |\n" * 40_000,
}


async def _update(chat: Chat, tokens: list[str]) -> None:
    segments = tuple(Segment(token, Source.MODEL if n % 4 else None) for n, token in enumerate(tokens))
    chat.engine.emit(Step(len(chat.engine.requests), segments, STATS))
    await chat.screen.event_queue.dispatch()
    await chat.pilot.pause()


async def _measure(chat: Chat, pieces: Iterator[str]) -> float:
    """Return the median milliseconds of an update beyond those of one without text."""
    spent = []
    for n in range(2 * _UPDATES):
        tokens = [next(pieces) for _ in range(_UPDATE)] if n % 2 else []
        started = time.thread_time()
        await _update(chat, tokens)
        spent.append((time.thread_time() - started) * 1e3)
    return sorted(spent[1::2])[_UPDATES // 2] - sorted(spent[::2])[_UPDATES // 2]


async def _one(kind: str, *, tokens_shown: bool) -> None:
    async with open_chat(size=(120, 40)) as chat:
        await chat.send("go")
        if tokens_shown:
            await chat.pilot.press("f3")
        pieces, length, results = _repeated(_KINDS[kind]), 0, []
        for mark in _MARKS:
            while length < mark:
                await _update(chat, [next(pieces) for _ in range(min(2_000, mark - length))])
                length += 2_000
            results.append(f"{await _measure(chat, pieces):8.2f}")
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{kind + (', f3' if tokens_shown else ''):18}{''.join(results)}   {memory:6.0f} MB", flush=True)


async def _main() -> None:
    print(f"{'ms per update at':18}{''.join(f'{mark:8,}' for mark in _MARKS)} tokens")
    for kind in _KINDS:
        await _one(kind, tokens_shown=False)
    await _one("mixed", tokens_shown=True)


if __name__ == "__main__":
    asyncio.run(_main())
