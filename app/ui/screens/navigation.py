"""Open screens on top of the chat; each is imported when it is opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.command import CommandPalette
from textual.screen import Screen

from app.session.comparison import Comparable
from app.session.engine import Engine
from app.session.library import Library
from app.session.snapshot import Phase
from app.settings.live import LiveSettings
from app.ui.models.state import LoadRequest, PairService
from app.ui.screens.chat import ChatScreen


class Navigation:
    """Opens each screen once, even if its key is pressed twice."""

    def __init__(self, app: App[None], chat: ChatScreen) -> None:
        self._app = app
        self._chat = chat

    def pairs(
        self, pairs: PairService, take: Callable[[LoadRequest | None], Awaitable[None]], *, can_leave: bool = True
    ) -> None:
        """Open the list of pairs."""
        if self._is_at_chat:
            from app.ui.models.setup_screen import SetupScreen

            self._app.push_screen(SetupScreen(pairs, can_leave=can_leave), take)

    def conversations(self, library: Library) -> None:
        """Open the list of conversations."""
        if library.is_open and self._is_at_chat:
            from app.ui.conversations.screen import ConversationsScreen

            self._app.push_screen(ConversationsScreen(library), self._chat.switcher.open_found)

    def comparison(self, engine: Engine, what: Comparable) -> None:
        """Open a comparison with and without the draft."""
        if self._is_at_chat:
            from app.ui.compare.screen import CompareScreen

            self._app.push_screen(CompareScreen(engine, what, self._chat.route_events))

    def settings(
        self, live: LiveSettings, on_change: Callable[[], None], take: Callable[[bool | None], Awaitable[None]]
    ) -> None:
        """Open the settings."""
        if self._is_at_chat:
            from app.ui.settings.screen import SettingsScreen

            session, themes = self._chat.session, sorted(self._app.available_themes)
            failed = session.phase is Phase.UNLOADED or session.lacks_draft
            self._app.push_screen(SettingsScreen(live, themes, on_change, session.pair, can_load=failed), take)

    @property
    def _is_at_chat(self) -> bool:
        return self._app.screen is self._chat

    def keys(self) -> None:
        """Open the keys of the current screen."""
        from app.ui.keys.key_list import every_key
        from app.ui.screens.key_list import KeyListScreen

        if not self._has(KeyListScreen):
            app = self._app
            places = [app.screen, *app.screen.walk_children(), app]
            app.push_screen(KeyListScreen(every_key(places, app._keymap)))

    def commands(self) -> None:
        """Open the command palette."""
        if not self._has(CommandPalette):
            from app.ui.screens.palette import Palette

            self._app.push_screen(Palette(id="--command-palette", placeholder="search the commands"))

    def themes(self) -> None:
        """Open the theme palette."""
        from app.ui.screens.palette import ThemePalette

        self._app.push_screen(ThemePalette())

    def _has(self, kind: type[Screen[Any]]) -> bool:
        """Return whether such a screen is open, perhaps below others."""
        return any(isinstance(screen, kind) for screen in self._app.screen_stack)
