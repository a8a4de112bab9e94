"""Reading the files that a prompt names, beside everything else: a disk may take its time, or never answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from app.ui.aside import begin_aside, patiently
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.key_names import key

Read = asyncio.Future[str]
"""The message with the files in it, or the AppError that says why there is none."""


class FileReading:
    """Of one prompt at a time. Until it has ended what was sent counts as not sent; see `ChatSession.reading`.

    Args:
        screen: The chat.
    """

    def __init__(self, screen: BareChatScreen) -> None:
        self._screen = screen
        self._read: Read | None = None
        self._back: Callable[[], None] | None = None

    async def begin(
        self,
        text: str,
        work: Callable[[], str],
        then: Callable[[Read], Awaitable[None]],
        back: Callable[[], None],
    ) -> None:
        """Read, and go on then; returns before that where the disk keeps it waiting.

        Args:
            text: What was taken from the line to be sent; "" where nothing was.
            work: Reads the files, on another thread.
            then: Called with what has come of it.
            back: Called when it is stopped instead, to put the text back.
        """
        screen = self._screen
        self.give_up()
        screen.session.reading, self._back = text, back
        self._read = read = begin_aside(work)
        if await patiently(read):
            await self._end(read, then)
        elif self._read is read:
            screen.hint.ask(f"The files are being read; {key('chat.stop', 'esc')} stops that.")
            screen.refresh_bindings()
            read.add_done_callback(lambda _: screen.call_later(self._end, read, then))

    async def _end(self, read: Read, then: Callable[[Read], Awaitable[None]]) -> None:
        # It may have been stopped when it had come already.
        if self._read is read:
            self.give_up()
            self._screen.hint.forget()
            await then(read)

    def take_back(self) -> bool:
        """Stop it, and put back what was sent; returns whether there was anything to stop."""
        back = self._back
        self.give_up()
        if back is not None:
            self._screen.hint.forget()
            back()
            self._screen.refresh_bindings()
        return back is not None

    def give_up(self) -> None:
        """Wait for it no longer."""
        read, self._read, self._back = self._read, None, None
        self._screen.session.reading = None
        if read is not None:
            read.cancel()
