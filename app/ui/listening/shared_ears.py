"""The chat's ears, lent to a screen on top of it: one bridge, one pace, and everybody hears what is theirs."""

from __future__ import annotations

from app.ui.listening.bridge import Batch, Single
from app.ui.listening.listener import Ears
from app.worker.events import Event


class SharedEars:
    """Tells a guest about the requests that it wants, and the owner everything else; see `Ears`.

    Args:
        own: The owner.
    """

    def __init__(self, own: Ears) -> None:
        self._own = own
        self.guest: Ears | None = None

    @property
    def is_waiting(self) -> bool:
        return self._own.is_waiting or (self.guest is not None and self.guest.is_waiting)

    def is_wanted(self, event: Event) -> bool:
        return self._whose(event).is_wanted(event)

    async def show(self, batch: Batch) -> None:
        await self._whose(batch.latest).show(batch)

    async def handle(self, event: Single) -> None:
        await self._whose(event).handle(event)

    def rest(self, next_s: float) -> None:
        self._own.rest(next_s)
        if self.guest is not None:
            self.guest.rest(next_s)

    def _whose(self, event: Event) -> Ears:
        return self.guest if self.guest is not None and self.guest.is_wanted(event) else self._own
