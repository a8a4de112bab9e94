"""Pictures of the screens and what they show, for tests."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from textual.app import App
from textual.pilot import Pilot

from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus
from tests.ui.driver import Chat
from tests.ui.fakes import fake_app

SIZES = [(80, 24), (120, 40), (200, 60)]
THEMES = ["tandem-dark", "tandem-light"]
PROMPT = "Write a quicksort in Python, with comments, and say how fast it is."
ANSWER = '''## Quicksort

It picks a **pivot** and splits the list in two, then sorts `smaller` and `larger` the same way:

```python
def quicksort(items: list[int]) -> list[int]:
    """Return a sorted copy of items."""
    if len(items) < 2:
        return items
    pivot = items[len(items) // 2]  # the middle one
    smaller = [x for x in items if x < pivot]
    return quicksort(smaller) + [pivot] + quicksort([x for x in items if x > pivot])
```

| case  | comparisons | when |
|-------|-------------|------|
| best  | n log n     | the pivot halves the list |
| worst | n²          | the pivot is the smallest or the largest |

1. Choose the pivot at random if the input may be sorted already.
2. For short lists insertion sort is faster:
   - fewer calls
   - no copies

> Python's own `sorted` is faster than either.
'''


class SnapCompare(Protocol):
    def __call__(
        self,
        app: App[None],
        *,
        terminal_size: tuple[int, int],
        run_before: Callable[[Pilot[None]], Awaitable[None]],
    ) -> bool: ...


def chat_picture(
    compare: SnapCompare,
    scene: Callable[[Chat], Awaitable[object]],
    size: tuple[int, int],
    theme: str = THEMES[0],
    *,
    loaded: bool = True,
    **how: Any,
) -> bool:
    """Compare the picture of a chat after a scene; `how` are the arguments of `fake_app`."""
    app, engine = fake_app(**how)
    app.theme = theme

    async def run_before(pilot: Pilot[None]) -> None:
        chat = Chat(pilot, app.screen_stack[0], engine)  # type: ignore[arg-type]
        await chat.until(lambda: engine.loads)
        if loaded:
            await chat.load()
        await scene(chat)

    return compare(app, terminal_size=size, run_before=run_before)


async def goes_faster(
    chat: Chat, begun: GenerationStats, drafting: DraftingStatus | None = None, **drafts: int
) -> GenerationStats:
    """Emit half seconds of an answer at changing speeds, with growing `drafts`; return the last counters."""
    stats = begun
    for speed in [60, 80, 95, 110, 106, 100, 118, 120]:
        stats = replace(
            stats,
            predicted_n=stats.predicted_n + speed // 2,
            predicted_ns=stats.predicted_ns + 500_000_000,
            verify_steps=stats.verify_steps + 9,
            drafted_steps=stats.drafted_steps + 8,
            **{name: getattr(stats, name) + more for name, more in drafts.items()},
        )
        chat.engine.says("", stats=stats, drafting=drafting)
        await chat.until(lambda seen=stats: chat.screen.view.status.stats == seen)  # type: ignore[misc]
    return stats
