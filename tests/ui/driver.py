"""Drive a running program: read the screen and wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.pilot import Pilot

_PAUSES = 200
_LOOKS = 3
"""So many equal looks in a row, with all messages handled in between, are a screen that stands still."""


class Driver:
    """What every driver of a screen can do."""

    def __init__(self, pilot: Pilot[None]) -> None:
        self.pilot = pilot

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so; fails after a bounded number of looks."""
        for _ in range(_PAUSES):
            await self.pilot.pause(0.01)
            if condition():
                return
        raise AssertionError(f"never came true; the screen shows:\n{self.text}")

    async def had_turn(self) -> None:
        """Wait until the app, its screen and the focused widget have handled all queued messages."""
        app = self.pilot.app
        for _ in range(2):
            for node in (app, app.focused or app.screen, app.screen):
                handled = asyncio.Event()
                node.call_later(handled.set)
                await handled.wait()

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.text)

    async def stands_still(self) -> None:
        """Wait until nothing on the screen changes any more."""
        shown, equal = None, 0
        for _ in range(_PAUSES):
            await self.pilot.pause(0.01)
            screen = self.pilot.app.screen
            now = screen, screen._compositor.render_strips(screen.size)
            equal = equal + 1 if now == shown else 0
            if equal == _LOOKS:
                return
            shown = now
        raise AssertionError(f"never stood still; the screen shows:\n{self.text}")

    @property
    def rows(self) -> list[str]:
        """Return the text of the terminal, row by row."""
        width, height = self.pilot.app.size
        screen = self.pilot.app.screen
        strips = screen._compositor.render_strips(screen.size)
        assert len(strips) == height
        return [strip.text[:width].rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)
