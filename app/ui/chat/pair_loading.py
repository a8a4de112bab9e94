"""Another pair, as the chat screen goes through it: what was open gives way, and the conversation stays."""

from __future__ import annotations

from app.ui.chat.asking import Asking
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.pair_changes import PairChanges
from app.ui.chat.session import Phase
from app.ui.models.downloads import DownloadLines
from app.ui.models.fit_options import FitOption, FitOptionList
from app.ui.models.state import LoadRequest


class PairLoading:
    """For the chat screen.

    Args:
        screen: The chat.
        changes: Which pair is being loaded, and which comes next.
        asking: Stops the answer that is in the way.
    """

    def __init__(self, screen: BareChatScreen, changes: PairChanges, asking: Asking) -> None:
        self._screen = screen
        self._changes = changes
        self._asking = asking

    async def change(self, choice: LoadRequest) -> None:
        """Load another pair; a running answer is stopped first."""
        self._changes.want(choice)
        if self._screen.session.phase is Phase.ANSWERING:
            self._asking.stop()
        else:
            await self.load_next()

    async def load_next(self) -> None:
        """Load the pair that is wanted, if another one is."""
        title = self._changes.begin()
        if title is None:
            return
        screen = self._screen
        await screen.messages.end_failure()
        screen.header.announce(title)
        screen.panel.show_pair(None)
        screen.status.reading_models()
        screen.listener.begin()
        screen.refresh_bindings()

    def show_ways(self) -> None:
        """Let keys take a way out of a pair that does not fit, if there is one."""
        for ways in self._screen.query(FitOptionList):
            ways.focus()

    async def take(self, way: FitOption, choice: LoadRequest) -> None:
        """Go a way out of a pair that does not fit."""
        self._screen.prompt.focus()
        await self._screen.messages.notice(f"Taken: {way.what}.")
        await self.change(choice)

    def watch_downloads(self) -> None:
        """Show how downloads go, until they have ended."""
        for lines in self._screen.query(DownloadLines):
            lines.watch_downloads()

    def stop_watching(self) -> None:
        """Leave downloads to whoever else shows them."""
        for lines in self._screen.query(DownloadLines):
            lines.stop()
